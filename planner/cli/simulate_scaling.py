"""`planner simulate --autoscale` and `--scenario`: groups that come and go, elastic EP, expert rebalancing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli.scaling_inputs import (
    Basics,
    ElasticAsked,
    asked_of,
    basics_of,
    elastic_of,
    require_known_mode,
    require_no_scaling,
    require_rebalancing,
    required_seconds,
    shape_asked,
    targets_of,
)
from planner.cli.scaling_options import ScalingFlags

if TYPE_CHECKING:
    from planner.domain.deployment import DeploymentPlan
    from planner.simulation.cluster import Cluster
    from planner.simulation.traffic import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A comparison over time, checked as far as it can be without the plan."""

    flags: ScalingFlags
    autoscale: Basics | None = None
    elastic: ElasticAsked | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a comparison shares with a plain simulation."""

    workload: str | None
    length_cv: float
    shared_prefix: int
    seed: int
    replications: int
    requests: int | None
    html: Path | None
    profiles: Path | None
    json: bool


def chosen_mode(
    flags: ScalingFlags,
    *,
    autoscale: bool,
    scenario: str | None,
    plain: Sequence[str],
    several: Sequence[str],
) -> Mode | None:
    """The comparison asked for, or None for a plain simulation. Raises `InputError`.

    `plain`: flags given that belong to the plain simulation only; `several`: those a scenario has no use for.
    """
    if not autoscale and scenario is None:
        require_no_scaling(flags)
        return None
    refused = plain if autoscale else [*plain, *several]
    require_known_mode(autoscale=autoscale, scenario=scenario, conflicting=refused)
    if autoscale:
        return Mode(flags=flags, autoscale=basics_of(flags))
    if scenario == "elastic-ep":
        return Mode(flags=flags, elastic=elastic_of(flags))
    require_rebalancing(flags)
    return Mode(flags=flags)


def run_mode(mode: Mode, plan: DeploymentPlan, cluster: Cluster, run: Run) -> None:
    """Do the comparison and print or write it."""
    shape = shape_asked(plan, workload=run.workload, length_cv=run.length_cv, shared_prefix=run.shared_prefix)
    if mode.autoscale is not None:
        _autoscale(plan, cluster, mode.flags, mode.autoscale, shape, run)
    elif mode.elastic is not None:
        _elastic(plan, cluster, mode.flags, mode.elastic, shape, run)
    else:
        _rebalancing(plan, cluster, mode.flags, shape, run)


def _autoscale(
    plan: DeploymentPlan, cluster: Cluster, flags: ScalingFlags, basics: Basics, shape: Shape, run: Run
) -> None:
    """Compare static fleets with autoscaled ones and print or write the answer."""
    from planner.cli.simulation_inputs import progress
    from planner.simulation.engine import announce_compilation
    from planner.simulation.scaling.compare import compare_scaling

    asked, slo = asked_of(cluster, flags), targets_of(plan, flags)
    curve, cold_s, behaviour = basics.curve, basics.cold_start_s, basics.behaviour
    announce_compilation()
    with progress() as report:
        answer = compare_scaling(
            cluster, shape, curve, asked=asked, concurrency=plan.concurrency, slo=slo, behaviour=behaviour,
            cold_start_s=cold_s, seed=run.seed, replications=run.replications, progress=report,
        )  # fmt: skip
    if run.html is not None:
        from planner.simulation.export import write_text
        from planner.simulation.scaling.report import scaling_html

        write_text(scaling_html(answer, slo=slo, title=cluster.name, seed=run.seed), run.html)
    if run.json:
        from planner.cli.output import emit_json
        from planner.simulation.scaling.report import answer_document

        emit_json("scaling", {"plan": cluster.name, "seed": run.seed, **answer_document(answer, slo=slo)})
        return
    from planner.cli.render_scaling import print_answer

    print_answer(answer, slo=slo, name=cluster.name)


def _elastic(
    plan: DeploymentPlan, cluster: Cluster, flags: ScalingFlags, wanted: ElasticAsked, shape: Shape, run: Run
) -> None:
    """Compare an elastic decode group with fixed widths and replicas, and print or write the answer."""
    from planner.catalog.models import load_model
    from planner.cli.simulation_inputs import progress
    from planner.simulation.engine import announce_compilation
    from planner.simulation.scaling.elastic_compare import compare_elastic, require_elastic, serving_role

    model = load_model(plan.model, overlay=run.profiles)
    dp = serving_role(plan).parallelism.dp
    widths = wanted.widths or (dp, 2 * dp)
    require_elastic(plan, model, widths)
    asked, slo = asked_of(cluster, flags), targets_of(plan, flags)
    announce_compilation()
    with progress() as report:
        answer = compare_elastic(
            plan, cluster, model, shape, wanted.basics.curve, asked=asked, widths=widths, how=wanted.how,
            cold_start_s=wanted.basics.cold_start_s, behaviour=wanted.basics.behaviour, slo=slo, profiles=run.profiles,
            seed=run.seed, progress=report,
        )  # fmt: skip
    if run.json:
        from dataclasses import asdict

        from planner.cli.output import emit_json
        from planner.simulation.export import plain

        emit_json(
            "elastic-ep",
            {"plan": cluster.name, "seed": run.seed, "targets": plain(asdict(slo)), **plain(asdict(answer))},
        )
        return
    from planner.cli.render_scenarios import print_elastic

    print_elastic(answer, slo=slo, name=cluster.name)


def _rebalancing(plan: DeploymentPlan, cluster: Cluster, flags: ScalingFlags, shape: Shape, run: Run) -> None:
    """Compare ways of balancing experts and print or write the answer."""
    from planner.catalog.models import load_model
    from planner.cli.simulation_inputs import progress
    from planner.simulation.engine import announce_compilation
    from planner.simulation.from_plan import SYNC_PAUSE_S
    from planner.simulation.scaling.rebalancing import compare_rebalancing

    pause_s = required_seconds(
        SYNC_PAUSE_S if flags.pause_s is None else flags.pause_s, flag="--pause-s", what="the stall", known=""
    )
    model = load_model(plan.model, overlay=run.profiles)
    announce_compilation()
    with progress() as report:
        answer = compare_rebalancing(
            plan, cluster, model, shape, slo=targets_of(plan, flags), pause_s=pause_s, requests=run.requests,
            profiles=run.profiles, seed=run.seed, progress=report,
        )  # fmt: skip
    if run.json:
        from dataclasses import asdict

        from planner.cli.output import emit_json
        from planner.simulation.export import plain, result_document

        data = plain(asdict(answer))
        data["ways"] = [
            {
                **plain({k: v for k, v in asdict(w).items() if k != "result"}),
                "result": result_document(w.result),
            }
            for w in answer.ways
        ]
        emit_json("async-eplb", {"plan": cluster.name, "seed": run.seed, **data})
        return
    from planner.cli.render_scenarios import print_rebalancing

    print_rebalancing(answer, name=cluster.name)
