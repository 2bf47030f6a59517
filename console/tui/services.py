"""What the app needs from the planner and the machine, as one value that tests replace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from console.views.points import PlanPoints
from planner.domain.deployment import DeploymentPlan
from planner.domain.engine import EngineProfile
from planner.domain.problem import PlanningProblem
from planner.search.ask import Request

if TYPE_CHECKING:  # what is rarely used is imported when it is
    from console.cluster.source import ClusterSource
    from console.tui.records import Records
    from console.tui.search_process import SearchProcess
    from console.tui.simulate import Wish
    from console.views.manifests import ManifestView
    from planner.search.why_not import WhyNot
    from planner.simulation.result import SimulationResult


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solved:
    """A question with its answer. `origin` says in a few words where it came from."""

    request: Request
    problem: PlanningProblem
    engine: EngineProfile
    points: PlanPoints
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice:
    """Which cluster to follow; the defaults are kubectl's own. A recording wins over a live cluster."""

    context: str | None = None
    namespace: str | None = None
    all_namespaces: bool = False
    replay: Path | None = None
    speed: float | None = None

    def changed(self, what: str, value: str) -> ClusterChoice:
        """Another context, namespace (empty: all) or recording."""
        if what == "replay":
            return replace(self, replay=Path(value).expanduser())
        if what == "namespace":
            return replace(self, namespace=value or None, all_namespaces=not value, replay=None)
        return replace(self, context=value or None, replay=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Calls may take seconds and raise PlannerError; the app runs them in threads.

    `folder` is where files are written unless the user says otherwise.
    """

    solve: Callable[[Request, str], Solved]
    why_not: Callable[[Solved, str], WhyNot]
    manifest: Callable[[DeploymentPlan], ManifestView]
    open_cluster: Callable[[ClusterChoice], ClusterSource]
    simulate: Callable[[Wish, Callable[[int, int], None]], SimulationResult]
    records: Records
    start_search: Callable[[list[str]], SearchProcess]
    now: Callable[[], datetime]
    folder: Path


def solve_request(request: Request, origin: str) -> Solved:
    """Build and solve the problem."""
    from console.views.points import points_of
    from planner.search.ask import build_problem
    from planner.search.solve import solve

    problem, engine = build_problem(request)
    return Solved(
        request=request,
        problem=problem,
        engine=engine,
        points=points_of(solve(problem, engine)),
        origin=origin,
    )


def ask_why_not(solved: Solved, text: str) -> WhyNot:
    """Why the plan that `text` describes is not on the frontier.

    One role in the notation of `planner why-not` is an aggregated plan; ``PREFILL / DECODE`` (or ``P … D …``) two roles.
    """
    from console.views.why_not import split_roles
    from planner.search.price import describe
    from planner.search.why_not import why_not

    aggregated, prefill, decode = split_roles(text)
    plan, problem, engine = describe(
        solved.request, aggregated=aggregated, prefill=prefill, decode=decode, concurrency=None
    )
    return why_not(plan, problem, engine)


def render_manifest(plan: DeploymentPlan) -> ManifestView:
    """The manifests of `plan`."""
    from console.views.manifests import manifest_view

    return manifest_view(plan)


def open_cluster(choice: ClusterChoice) -> ClusterSource:
    """The source `choice` names; nothing is sent yet. Raises PlannerError."""
    from console.cluster.open import Opening, make_source

    return make_source(
        Opening(
            context=choice.context,
            namespace=choice.namespace,
            all_namespaces=choice.all_namespaces,
            replay=choice.replay,
            speed=choice.speed,
        )
    )


def real_services() -> Services:
    """The services of a user's session."""
    from console.tui.records import Records
    from console.tui.search_process import SearchProcess
    from console.tui.simulate import simulate_wish

    return Services(
        solve=solve_request,
        why_not=ask_why_not,
        manifest=render_manifest,
        open_cluster=open_cluster,
        simulate=simulate_wish,
        records=Records(),
        start_search=SearchProcess,
        now=lambda: datetime.now(tz=UTC),
        folder=Path.cwd(),
    )
