"""From a sized row to a plan with its numbers, and what it carries when nodes or groups are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.analytic.evaluate import Pricer
from planner.domain.deployment import DeploymentPlan, RolePlan, Strategy
from planner.domain.evaluation import Evaluation
from planner.domain.problem import PlanningProblem
from planner.domain.provenance import Estimate
from planner.search.plans import at_load, plan_for
from planner.search.sizing.answer import IN_PLACE, SURGE, Headroom
from planner.search.sizing.curves import Operating
from planner.search.sizing.families import DisaggregatedFamily
from planner.search.sizing.load import Load, LoadKind, Reserve, Targets
from planner.search.sizing.losses import Counts, Shape, one_group_down, refits, survivors
from planner.search.sizing.smallest import Fleet, FleetSearch

ROUNDING = 1e-3  # of a target: the curves are read between batches


@dataclass(frozen=True, slots=True)
class Described:
    """A fleet's plan and its numbers at the asked load."""

    plan: DeploymentPlan
    evaluation: Evaluation


def describe(
    problem: PlanningProblem,
    pricer: Pricer,
    fleet: Fleet,
    at: Operating,
    *,
    load: Load,
    owned: int,
    name: str,
) -> Described:
    """The plan of `fleet` on `owned` GPUs, priced at the load that `at` describes."""
    # by Little's law; the curve begins at a load of its own
    whole_ms = float(at.ttft_ms[0]) + float(at.tpot_ms[0]) * (problem.workload.osl - 1)
    exact = load.amount * whole_ms / 1000.0 if load.kind is LoadKind.RATE else load.amount
    concurrency = round(load.amount) if load.kind is LoadKind.USERS else max(round(exact), 1)
    plan = plan_for(
        problem,
        _roles(fleet, at),
        concurrency=concurrency,
        gpus_owned=owned,
        name=name,
        peak_prefill_tok_s=_peak(fleet),
    )
    evaluation = pricer.evaluate(plan)
    if load.kind is LoadKind.RATE:
        evaluation = _at_rate(evaluation, at, load.amount, exact)
    return Described(plan, evaluation)


def meets(evaluation: Evaluation, targets: Targets) -> bool:
    """Whether the single-plan pass agrees that the targets are met."""
    return (targets.ttft_ms is None or evaluation.ttft_ms.value <= targets.ttft_ms * (1.0 + ROUNDING)) and (
        targets.tpot_ms is None or evaluation.tpot_ms.value <= targets.tpot_ms * (1.0 + ROUNDING)
    )


def _roles(fleet: Fleet, at: Operating) -> tuple[RolePlan, ...]:
    """Roles with limits for the most that the plan carries, so that survivors of a lost node can take over."""
    roles = fleet.family.roles(fleet.row)
    last = roles[-1]
    groups = fleet.counts.second or fleet.counts.first
    ranks = groups * last.parallelism.dp
    decoding = float(at.batch[0]) if len(roles) == 2 else float(at.in_flight[0]) / ranks
    grown = max(fleet.batch / max(float(at.batch[0]), 1e-9), 1.0)
    serving = at_load(last, groups, decoding, most=decoding * grown)
    if len(roles) == 1:
        return (serving,)
    return replace(roles[0], groups=fleet.counts.first), serving


def _peak(fleet: Fleet) -> float | None:
    return (
        fleet.family.prefill_tok_s_per_rank(fleet.row)
        if isinstance(fleet.family, DisaggregatedFamily)
        else None
    )


def _at_rate(evaluation: Evaluation, at: Operating, rate: float, in_flight: float) -> Evaluation:
    """The evaluation at exactly `rate`: a plan's load is whole requests in flight, and arrivals wait otherwise."""
    scale = rate / evaluation.requests_per_s
    cost = evaluation.usd_per_m_output_tokens
    return replace(
        evaluation,
        ttft_ms=_scaled(evaluation.ttft_ms, float(at.ttft_ms[0]) / evaluation.ttft_ms.value),
        output_tok_s_per_gpu=_scaled(evaluation.output_tok_s_per_gpu, scale),
        total_tok_s_per_gpu=evaluation.total_tok_s_per_gpu * scale,
        requests_per_s=rate,
        concurrency=in_flight,
        usd_per_m_output_tokens=cost / scale if cost is not None else None,
    )


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(estimate.value * factor, estimate.low * factor, estimate.high * factor)


# --- headroom ---


def headroom_of(
    search: FleetSearch, fleet: Fleet, targets: Targets, *, owned: int, reserve: Reserve
) -> tuple[Headroom, ...]:
    """One node lost, as many as are asked for, and both kinds of rollout."""
    family, row = fleet.family, fleet.row
    shape = Shape(int(family.first_gpus[row]), int(family.second_gpus[row]), search.node)
    nodes = owned // search.node
    found = [
        _lost_nodes(search, fleet, targets, shape, lost=lost, nodes=nodes)
        for lost in sorted({1, max(reserve.spare_nodes, 1)})
    ]
    found.append(_event(search, fleet, targets, IN_PLACE, one_group_down(fleet.counts)))
    found.append(_surge(search, fleet, targets, shape, owned=owned))
    return tuple(found)


def _lost_nodes(
    search: FleetSearch, fleet: Fleet, targets: Targets, shape: Shape, *, lost: int, nodes: int
) -> Headroom:
    states = frozenset[Counts]().union(*(survivors(shape, fleet.counts, n) for n in range(1, lost + 1)))
    name = "1 node lost" if lost == 1 else f"any {lost} nodes lost"
    event = _event(search, fleet, targets, name, sorted(states, key=lambda c: (c.first, c.second)))
    again = [_carried(search, fleet, c, targets) for c in refits(shape, fleet.counts, nodes - lost)]
    return replace(event, recovered=max(again, default=0.0))


def _event(
    search: FleetSearch, fleet: Fleet, targets: Targets, name: str, states: Sequence[Counts]
) -> Headroom:
    """The state of `states` that carries least."""
    carried = [(_carried(search, fleet, c, targets), c) for c in states]
    least, worst = min(carried, key=lambda pair: pair[0])
    return Headroom(
        event=name,
        left=_left(fleet, worst),
        carries=least,
        share=least / search.load.amount,
        recovered=None,
        extra_gpus=0,
        note="",
    )


def _surge(search: FleetSearch, fleet: Fleet, targets: Targets, shape: Shape, *, owned: int) -> Headroom:
    beside = max(shape.first, shape.second)
    missing = max(fleet.used + beside - owned, 0)
    extra = -(-missing // search.node) * search.node
    note = (
        f"the new group needs {beside} GPUs, {owned - fleet.used} are idle: no more are needed"
        if not extra
        else f"needs {extra} more GPUs while it lasts ({beside} for the new group, {owned - fleet.used} are idle)"
    )
    event = _event(search, fleet, targets, SURGE, [fleet.counts])
    return replace(event, note=note, extra_gpus=extra)


def _carried(search: FleetSearch, fleet: Fleet, counts: Counts, targets: Targets) -> float:
    two = fleet.family.strategy is Strategy.DISAGGREGATED
    if counts.first < 1 or (two and counts.second < 1):
        return 0.0
    return float(search.carried_by(fleet, counts, targets).load[0])


def _left(fleet: Fleet, counts: Counts) -> str:
    if fleet.family.strategy is Strategy.AGGREGATED:
        return f"{counts.first} of {fleet.counts.first} groups"
    return f"{counts.first} of {fleet.counts.first} prefill, {counts.second} of {fleet.counts.second} decode groups"
