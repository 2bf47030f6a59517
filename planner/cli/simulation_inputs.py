"""From the flags of `simulate` and `compare` to a cluster and traffic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from planner.domain.deployment import DeploymentPlan
from planner.domain.errors import InputError, Issue, NotFeasibleError, did_you_mean
from planner.simulation.cluster import Cluster, RouterTiming
from planner.simulation.from_plan import cluster_from_plan
from planner.simulation.presets import router_named
from planner.simulation.result import SimulationResult
from planner.simulation.traffic import Arrival, Traffic
from planner.simulation.workloads import Asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """One thing to simulate, as asked."""

    plan: str
    router: str | None = None
    scrape_ms: float = 50.0
    host_kv_gib: float = 0.0
    profiles: Path | None = None


def load(text: str, profiles: Path | None) -> DeploymentPlan:
    """A saved plan, or the plan that is recommended for a recipe."""
    path = Path(text)
    if path.suffix in {".yaml", ".yml", ".json"} or path.is_file():
        from planner.catalog.plans import load_plan

        return load_plan(path)
    from planner.search.ask import Request, build_problem
    from planner.search.from_recipe import with_recipe
    from planner.search.recommend import recommend

    problem, engine = build_problem(with_recipe(text, Request(profiles=profiles)))
    answer = recommend(problem, engine)
    if answer.pick is None:
        raise NotFeasibleError(
            Issue(
                code="simulation.no_plan",
                what=f"recipe '{text}' has no plan that meets its targets",
                why="a simulation needs a plan",
                fix=f"see planner recommend {text}, or simulate a saved plan",
            )
        )
    return answer.pick.plan


def prepare(inputs: Inputs) -> tuple[DeploymentPlan, Cluster]:
    """The plan and its cluster, with the router asked for."""
    plan = load(inputs.plan, inputs.profiles)
    policy, timing = plan.router, RouterTiming()
    if inputs.router is not None:
        found = router_named(inputs.router)
        policy, timing = found.policy, found.timing
    cluster = cluster_from_plan(
        plan,
        profiles=inputs.profiles,
        router=policy,
        timing=replace(timing, scrape_ms=inputs.scrape_ms),
        host_gib_per_rank=inputs.host_kv_gib,
    )
    name = plan.label() if inputs.router is None else f"{plan.label()}, router {inputs.router}"
    return plan, replace(cluster, name=name)


def asked(
    plan: DeploymentPlan,
    *,
    workload: str | None,
    arrival: str,
    concurrency: int | None,
    rate: float | None,
    requests: int | None,
    arrival_cv: float,
    length_cv: float,
    spread_s: float | None,
    shared_prefix: int,
) -> Asked:
    """Traffic as asked, the plan's own workload and concurrency by default."""
    try:
        kind = Arrival(arrival)
    except ValueError:
        raise InputError(
            Issue(
                code="workload.arrival",
                what=f"'{arrival}' is not an arrival process",
                why="it decides when requests enter",
                fix=did_you_mean(arrival, [a.value for a in Arrival]),
                where="--arrival",
            )
        ) from None
    w = plan.workload
    own = workload is None
    prefix = shared_prefix or (int(w.isl * w.prefix_hit) if own else 0)
    return Asked(
        workload=workload or f"{w.isl}/{w.osl}",
        arrival=kind,
        concurrency=plan.concurrency if concurrency is None else concurrency,
        rate_per_s=rate,
        requests=requests,
        cv=arrival_cv,
        length_cv=length_cv or (w.length_cv if own else 0.0),
        spread_s=spread_s,
        shared_prefix_tokens=prefix,
    )


def notes_on_plan(
    plan: DeploymentPlan, traffics: Sequence[Traffic], result: SimulationResult, *, own_traffic: bool = False
) -> tuple[str, ...]:
    """Where the run contradicts the plan: prompts its engines would refuse, and targets that are missed."""
    notes = []
    if own_traffic and plan.workload.kept_tokens:
        notes.append(
            "The plan's conversations each repeat their own prompts; here all requests share one prefix, which is kinder to "
            "the caches. Turns as they come: --workload seed-talk, or a trace."
        )
    totals = [int(n) for t in traffics for n in t.isl + t.osl]
    long = sum(n > plan.max_model_len for n in totals)
    if long:
        notes.append(
            f"{long:,} of {len(totals):,} requests are longer (up to {max(totals):,} tokens) than the plan's "
            f"--max-model-len {plan.max_model_len:,}: its engines would refuse them."
        )
    for name, limit, found in (
        ("TTFT", plan.slo.ttft_ms, result.ttft_ms),
        ("TPOT", plan.slo.tpot_limit_ms, result.tpot_ms),
    ):
        if limit is not None and found.count and found.p50.value > limit:
            notes.append(
                f"Target missed: {name} p50 is {found.p50.value:,.2f} ms, the limit {limit:,.2f} ms."
            )
    return tuple(notes)


@contextmanager
def progress() -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr; nothing when stderr is not a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from planner.cli.output import stderr

    console = stderr()
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("simulating", total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report
