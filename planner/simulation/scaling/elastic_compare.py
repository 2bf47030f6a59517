"""Elastic EP against fixed widths and against replicas, on the same arrivals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from planner.domain.deployment import DeploymentPlan, Eplb, Role, RolePlan
from planner.domain.errors import InputError, Issue
from planner.domain.model import ModelSpec
from planner.domain.workload import SloTargets
from planner.simulation.cluster import Cluster, EngineRole
from planner.simulation.engine import Progress
from planner.simulation.from_plan import cluster_from_plan
from planner.simulation.scaling.compare import Capacity, RoleAsked, RoleSizing, measure_capacity, size_roles
from planner.simulation.scaling.elastic import ElasticGroup, Reconfiguration
from planner.simulation.scaling.figures import ScaledFigures, figures
from planner.simulation.scaling.fleet import GroupPool, pools_of
from planner.simulation.scaling.load import LoadCurve, curve_traffic
from planner.simulation.scaling.parallel import play_all
from planner.simulation.scaling.play import Control, play_scaled
from planner.simulation.scaling.policy import Behaviour, Independent, RolePolicy, RoleScaler
from planner.simulation.traffic import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthFacts:
    """One width of the elastic group, and of a group launched at that width. KV in tokens per rank."""

    dp: int
    ep: int
    redundant_experts: int  # of the elastic group
    kv_tokens: int  # of the elastic group, fixed at launch
    launched_kv_tokens: int  # of a group launched at this width


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticAnswer:
    """All fleets; the first is the reference. `downtimes_s` and `given_up` per fleet name."""

    curve: LoadCurve
    capacity: Capacity
    role: str
    widths: tuple[WidthFacts, ...]
    needed_ranks: int  # at the peak
    prefill_groups: int  # fixed in every fleet
    how: Reconfiguration
    cold_start_s: float
    variants: tuple[ScaledFigures, ...]
    downtimes_s: Mapping[str, tuple[float, ...]]
    given_up: Mapping[str, int]
    notes: tuple[str, ...]


def serving_role(plan: DeploymentPlan) -> RolePlan:
    """The role whose width changes: decode, or the aggregated one."""
    return next(r for r in plan.roles if r.role is not Role.PREFILL)


def require_elastic(plan: DeploymentPlan, model: ModelSpec, widths: Sequence[int]) -> int:
    """Experts of the model. Raises `InputError` when elastic EP is impossible for the plan or the widths make no sense."""
    role = serving_role(plan)
    issues = []
    if model.moe is None or not role.parallelism.expert_parallel:
        issues.append(
            Issue(
                code="elastic.no_ep",
                what=f"{role.label()} of {model.id} has no expert parallelism",
                why="elastic EP moves experts between ranks",
                fix="a plan whose decode role has ep in its label, or planner simulate --autoscale",
            )
        )
    if plan.engine != "vllm":
        issues.append(
            Issue(
                code="elastic.engine",
                what=f"elastic EP with {plan.engine} {plan.engine_version}",
                why="vLLM is the engine whose elastic EP is modelled here",
                fix="a plan for vLLM",
            )
        )
    if len(widths) < 2 or any(w < 1 for w in widths) or sorted(set(widths)) != list(widths):
        issues.append(
            Issue(
                code="elastic.widths",
                what=f"widths {','.join(map(str, widths))}",
                why="two or more different DP sizes are needed, the size at launch first",
                fix=f"--dp-sizes {role.parallelism.dp},{2 * role.parallelism.dp}",
                where="--dp-sizes",
            )
        )
    elif widths[-1] * role.parallelism.tp > 1024:
        issues.append(
            Issue(
                code="elastic.widths",
                what=f"a width of {widths[-1]} ranks of {role.parallelism.tp} GPUs",
                why="groups of more than 1,024 GPUs are beyond every engine",
                fix=f"--dp-sizes {role.parallelism.dp},{2 * role.parallelism.dp}",
                where="--dp-sizes",
            )
        )
    if issues or model.moe is None:
        raise InputError(*issues)
    return model.moe.experts


def even(experts: int, redundant: int, ep: int) -> int:
    """The smallest number of redundant experts, at least `redundant`, that fills every rank equally."""
    return -(-(experts + redundant) // ep) * ep - experts


def _with_role(plan: DeploymentPlan, role: RolePlan) -> DeploymentPlan:
    roles = tuple(role if r.role is role.role else r for r in plan.roles)
    return replace(plan, roles=roles, gpus_owned=max(plan.gpus_owned, sum(r.gpus for r in roles)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layouts:
    """Simulated roles of every width: elastic (experts per rank as launched) and launched at that width."""

    others: tuple[EngineRole, ...]
    elastic: Mapping[int, EngineRole]
    launched: Mapping[int, EngineRole]
    facts: tuple[WidthFacts, ...]


def _lay_out(
    plan: DeploymentPlan, cluster: Cluster, experts: int, widths: Sequence[int], profiles: Path | None
) -> _Layouts:
    base = serving_role(plan)
    tp = base.parallelism.tp
    planned = base.eplb or Eplb()
    local = (experts + even(experts, planned.redundant_experts, tp * widths[0])) // (tp * widths[0])

    def built(width: int, redundant: int, *, dbo: bool) -> EngineRole:
        role = replace(
            base,
            groups=1,
            parallelism=replace(base.parallelism, dp=width),
            eplb=replace(planned, redundant_experts=redundant),
            dbo=dbo,
        )
        laid = cluster_from_plan(
            _with_role(plan, role), profiles=profiles, router=cluster.router, timing=cluster.timing
        )
        return next(r for r in laid.roles if r.role is base.role)

    launched = {w: built(w, even(experts, planned.redundant_experts, tp * w), dbo=base.dbo) for w in widths}
    elastic = {w: built(w, local * tp * w - experts, dbo=False) for w in widths}
    blocks = min(r.kv_blocks for r in elastic.values())
    elastic = {w: replace(r, kv_blocks=blocks) for w, r in elastic.items()}
    return _Layouts(
        others=tuple(r for r in cluster.roles if r.role is not base.role),
        elastic=elastic,
        launched=launched,
        facts=tuple(
            WidthFacts(
                dp=w,
                ep=tp * w,
                redundant_experts=local * tp * w - experts,
                kv_tokens=blocks * base.block_size,
                launched_kv_tokens=launched[w].kv_blocks * base.block_size,
            )
            for w in widths
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fleet:
    name: str
    cluster: Cluster
    actuators: tuple[GroupPool | ElasticGroup, ...]
    control: Control | None


def _fleets(
    cluster: Cluster, layouts: _Layouts, sizing: Sequence[RoleSizing], serving: RoleSizing, ranks_per_group: int,
    *, widths: Sequence[int], behaviour: Behaviour, how: Reconfiguration, cold_s: float, first_ranks: int,
) -> list[_Fleet]:  # fmt: skip
    name = serving.role
    per_rank = serving.policy.target / ranks_per_group
    peak = {s.role: s.peak for s in sizing}
    others = tuple(replace(r, groups=peak[r.name]) for r in layouts.others)
    metrics = {name: serving.policy.metric}

    def fixed(roles: Sequence[EngineRole]) -> tuple[Cluster, list[GroupPool]]:
        room = replace(cluster, roles=(*others, *roles))
        pools = [p for p in pools_of(room, cold_s=cold_s) if p.slots]
        for pool in pools:
            if pool.name in peak and pool.name != name:
                pool.begin(len(pool.slots))
        return room, pools

    def follow(target: float, least: int, most: int, step: int) -> Control:
        policy = RolePolicy(metric=serving.policy.metric, target=target, least=least, most=most)
        own = replace(behaviour, step=step)
        return Control(decider=Independent({name: RoleScaler(policy, own)}), metrics=metrics, behaviour=own)

    out = []
    for width in (widths[-1], widths[0]):
        room, pools = fixed([layouts.launched[width]])
        pools[-1].begin(1)
        out.append(_Fleet(name=f"always dp{width}", cluster=room, actuators=tuple(pools), control=None))
    most = math.ceil(widths[-1] / widths[0])
    room, pools = fixed([replace(layouts.launched[widths[0]], groups=most)])
    pools[-1].begin(min(most, math.ceil(first_ranks / widths[0])))
    out.append(
        _Fleet(
            name=f"1-{most} groups of dp{widths[0]}",
            cluster=room,
            actuators=tuple(pools),
            control=follow(per_rank * widths[0], 1, most, behaviour.step),
        )
    )
    for live, text in ((False, "drained"), (True, "live")):
        roles = [replace(layouts.elastic[w], groups=1 if w == widths[-1] else 0) for w in widths]
        room, pools = fixed(roles)
        pools = pools[: len(others)]
        before = sum(r.groups * r.ranks for r in others)
        elastic = ElasticGroup(
            name=name,
            kind=roles[-1].role,
            group=sum(r.groups * (1 if r.lockstep else r.ranks) for r in others),
            first=before,
            widths=tuple(widths),
            role_of={w: len(others) + i for i, w in enumerate(widths)},
            gpus_per_rank=roles[-1].gpus_per_rank,
            how=replace(how, live=live),
            width=next((w for w in widths if w >= first_ranks), widths[-1]),
        )
        out.append(
            _Fleet(
                name=f"elastic, {text}",
                cluster=room,
                actuators=(*pools, elastic),
                control=follow(per_rank, widths[0], widths[-1], widths[-1]),
            )
        )
    return out


def compare_elastic(
    plan: DeploymentPlan,
    cluster: Cluster,
    model: ModelSpec,
    shape: Shape,
    curve: LoadCurve,
    *,
    asked: Mapping[str, RoleAsked],
    widths: Sequence[int],
    how: Reconfiguration,
    cold_start_s: float,
    behaviour: Behaviour,
    slo: SloTargets,
    profiles: Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> ElasticAnswer:
    """Simulate fixed widths, replicas and the elastic group on the same arrivals. Raises `InputError`, `NotFeasibleError`.

    Prefill keeps the size that the peak needs in every fleet, so that only the serving role differs.
    """
    experts = require_elastic(plan, model, widths)
    base = serving_role(plan)
    layouts = _lay_out(plan, cluster, experts, widths, profiles)
    traffic = curve_traffic(shape, curve, seed=seed)
    metrics = {r.name: asked[r.name].metric for r in cluster.roles}
    capacity = measure_capacity(cluster, shape, concurrency=plan.concurrency, metrics=metrics, seed=seed)
    sizing = size_roles(cluster, capacity, curve, asked)
    serving = next(s for s in sizing if s.role not in {r.name for r in layouts.others})
    per_rank = serving.policy.target / base.parallelism.dp
    per_rps = serving.at_plan * base.groups / capacity.rps
    needed = math.ceil(curve.peak_rps * per_rps / per_rank - 1e-9)
    first = math.ceil(curve.rps[0] * per_rps / per_rank - 1e-9)
    fleets = _fleets(
        cluster, layouts, sizing, serving, base.parallelism.dp, widths=widths, behaviour=behaviour, how=how,
        cold_s=cold_start_s, first_ranks=first,
    )  # fmt: skip

    def one(fleet: _Fleet, report: Progress) -> ScaledFigures:
        run = play_scaled(
            fleet.cluster, traffic, fleet.actuators, control=fleet.control, seed=seed, horizon_s=curve.end_s,
            progress=report,
        )  # fmt: skip
        pools = [a for a in fleet.actuators if isinstance(a, GroupPool)]
        changes = sum(a.changes for a in fleet.actuators if isinstance(a, ElasticGroup))
        return figures(
            fleet.name, run, curve, slo=slo, started=changes + sum(p.started for p in pools),
            removed=sum(p.removed for p in pools),
        )  # fmt: skip

    variants = tuple(play_all(fleets, one, requests=traffic.requests * len(fleets), progress=progress))
    elastic = {f.name: a for f in fleets for a in f.actuators if isinstance(a, ElasticGroup)}
    return ElasticAnswer(
        curve=curve,
        capacity=capacity,
        role=serving.role,
        widths=layouts.facts,
        needed_ranks=needed,
        prefill_groups=sum(s.peak for s in sizing if s.role != serving.role),
        how=how,
        cold_start_s=cold_start_s,
        variants=variants,
        downtimes_s={name: tuple(a.downtimes_s) for name, a in elastic.items()},
        given_up={name: a.given_up for name, a in elastic.items()},
        notes=_notes(base, needed, widths),
    )


def _notes(base: RolePlan, needed: int, widths: Sequence[int]) -> tuple[str, ...]:
    notes = []
    if base.dbo:
        notes.append("DBO is off in the elastic fleets: vLLM refuses it together with elastic EP.")
    if base.eplb is None:
        notes.append("EPLB is on in every fleet: elastic EP requires it; the plan has none.")
    if base.groups > 1:
        notes.append(f"The plan has {base.groups} decode groups; here one group stands for them.")
    if needed > widths[-1]:
        notes.append(
            f"The peak asks for {needed} ranks, the widest group has {widths[-1]}: --dp-sizes up to {needed}, or a lower peak."
        )
    return tuple(notes)
