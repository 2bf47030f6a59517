"""Static plans and autoscalers under the same arrivals: what scaling saves, and what cold starts cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.domain.deployment import Role
from planner.domain.errors import InputError, Issue
from planner.domain.workload import SloTargets
from planner.simulation.cluster import Cluster
from planner.simulation.engine import Progress
from planner.simulation.scaling.figures import ScaledFigures, figures
from planner.simulation.scaling.fleet import pools_of
from planner.simulation.scaling.load import LoadCurve, curve_traffic
from planner.simulation.scaling.parallel import play_all
from planner.simulation.scaling.play import Control, play_scaled
from planner.simulation.scaling.policy import (
    Behaviour,
    Independent,
    Metric,
    RolePolicy,
    RoleScaler,
    Together,
)
from planner.simulation.traffic import Arrival, Shape, make_traffic

HEADROOM = 0.8  # of what the plan carries at its own load, one group is meant to carry while scaling
MOST_GPUS = 4096

STATIC_PEAK = "static for the peak"
STATIC_MEAN = "static for the mean"
TOGETHER = "scaled together"
INDEPENDENT = "scaled per role"
NO_COLD_START = "per role, cold start 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The plan as it is, simulated at its planned concurrency: requests/s, the metric of one group, median latencies."""

    rps: float
    per_group: Mapping[str, float]
    ttft_p50_ms: float
    tpot_p50_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleAsked:
    """What is asked of one role; None is "not said"."""

    metric: Metric
    target: float | None = None
    least: int = 1
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSizing:
    """Groups of one role: its policy, and what that policy wants in the steady state of the peak, mean and first load."""

    role: str
    gpus_per_group: int
    policy: RolePolicy
    at_plan: float  # the metric per group at the plan's own load
    peak: int
    mean: int
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All variants of one comparison; the first is the reference."""

    curve: LoadCurve
    capacity: Capacity
    sizing: tuple[RoleSizing, ...]
    cold_start_s: float
    behaviour: Behaviour
    variants: tuple[ScaledFigures, ...]
    replications: tuple[tuple[ScaledFigures, ...], ...]  # [replication][variant]


def measure_capacity(
    cluster: Cluster, shape: Shape, *, concurrency: int, metrics: Mapping[str, Metric], seed: int
) -> Capacity:
    """Play the plan in a closed loop at its own concurrency and read what an autoscaler would read."""
    sessions = max(300, min(12 * concurrency, 4000), 4 * concurrency) // len(shape.turns) + 1
    traffic = make_traffic(
        shape, sessions=sessions, seed=seed, arrival=Arrival.CLOSED, concurrency=concurrency
    )
    pools = pools_of(cluster, cold_s=0.0)
    for pool in pools:
        pool.begin(len(pool.slots))
    behaviour = Behaviour(sync_s=1.5, average_s=0.5)
    control = Control(decider=Independent({}), metrics=metrics, behaviour=behaviour)
    run = play_scaled(cluster, traffic, pools, control=control, seed=seed, act=False)
    # the middle half of the finishes: without the first wave and the run-down
    req = np.asarray(run.state.req)
    begin, end = np.percentile(req["finish"], (25.0, 75.0))
    middle = (req["finish"] >= begin) & (req["finish"] <= end)
    stay_s = float((req["finish"] - req["arrival"])[middle].mean())
    tpot_ms = (req["finish"] - req["first"])[middle] * 1e3 / np.maximum(req["osl"][middle] - 1, 1)
    per_group = {}
    for role in cluster.roles:
        inside = [v for t, v in run.samples[role.name] if begin <= t <= end]
        if not inside or sum(inside) <= 0.0:
            raise InputError(
                Issue(
                    code="scaling.capacity",
                    what=f"{role.name}: no {metrics[role.name]} to be seen in {end - begin:.1f} s at the plan's load",
                    why="an autoscaler needs a metric that grows with the load",
                    fix=f"another metric for the role: --metric {role.name}=running, or a longer workload",
                )
            )
        per_group[role.name] = sum(inside) / len(inside) / role.groups
    return Capacity(
        rps=concurrency / stay_s,  # Little: the loop keeps so many in flight
        per_group=per_group,
        ttft_p50_ms=float(np.median((req["first"] - req["arrival"])[middle])) * 1e3,
        tpot_p50_ms=float(np.median(tpot_ms)),
    )


def size_roles(
    cluster: Cluster, capacity: Capacity, curve: LoadCurve, asked: Mapping[str, RoleAsked]
) -> tuple[RoleSizing, ...]:
    """Targets and numbers of groups. A group's share of the metric grows with the rate as it did at the plan's load.

    Raises `InputError` for bounds that contradict each other and for fleets beyond reason.
    """
    issues = []
    out = []
    for role in cluster.roles:
        a = asked[role.name]
        at_plan = capacity.per_group[role.name]
        target = HEADROOM * at_plan if a.target is None else a.target
        per_rps = at_plan * role.groups / capacity.rps

        def groups(rps: float, a: RoleAsked = a, per_rps: float = per_rps, target: float = target) -> int:
            return max(a.least, math.ceil(rps * per_rps / target - 1e-9))

        peak = groups(curve.peak_rps)
        most = peak + 1 if a.most is None else a.most
        per_group = role.ranks * role.gpus_per_rank
        if a.least > most or a.least < 1:
            issues.append(
                Issue(
                    code="scaling.bounds",
                    what=f"{role.name}: between {a.least} and {most} groups",
                    why="at least one group must serve, and the most cannot be below the least",
                    fix=f"--min-groups {role.name}=1 --max-groups {role.name}={max(a.least, peak)}",
                )
            )
        elif most * per_group > MOST_GPUS:
            issues.append(
                Issue(
                    code="scaling.bounds",
                    what=f"{role.name}: up to {most} groups of {per_group} GPUs",
                    why=f"a peak of {curve.peak_rps:g} requests/s is {curve.peak_rps / capacity.rps:,.1f} times "
                    f"what the plan serves; more than {MOST_GPUS:,} GPUs are not simulated here",
                    fix="a lower --peak-rps, or plan for more GPUs first: planner recommend --gpus N",
                )
            )
        out.append(
            RoleSizing(
                role=role.name,
                gpus_per_group=per_group,
                policy=RolePolicy(metric=a.metric, target=target, least=a.least, most=most),
                at_plan=at_plan,
                peak=peak,
                mean=groups(curve.mean_rps),
                first=min(groups(curve.rps[0]), most),
            )
        )
    if issues:
        raise InputError(*issues)
    return tuple(out)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variant:
    name: str
    most: Mapping[str, int]
    first: Mapping[str, int]
    cold_s: float
    control: Callable[[], Control | None]


def _variants(
    cluster: Cluster, sizing: Sequence[RoleSizing], behaviour: Behaviour, cold_s: float
) -> list[_Variant]:
    metrics = {s.role: s.policy.metric for s in sizing}
    first = {s.role: s.first for s in sizing}
    most = {s.role: max(s.policy.most, s.first) for s in sizing}

    def independent() -> Control:
        scalers = {s.role: RoleScaler(s.policy, behaviour) for s in sizing}
        return Control(decider=Independent(scalers), metrics=metrics, behaviour=behaviour)

    ratio = _ratio(cluster)

    def copies(groups: Mapping[str, int]) -> int:
        return max(math.ceil(groups[r] / n) for r, n in ratio.items())

    least, top = copies({s.role: s.policy.least for s in sizing}), copies(most)

    def together() -> Control:
        policy = RolePolicy(metric=Metric.RUNNING, target=1.0, least=least, most=top)
        targets = {s.role: s.policy.target for s in sizing}
        return Control(
            decider=Together(RoleScaler(policy, behaviour), ratio, targets),
            metrics=metrics,
            behaviour=behaviour,
        )

    def static(name: str, groups: Mapping[str, int]) -> _Variant:
        return _Variant(name=name, most=groups, first=groups, cold_s=0.0, control=lambda: None)

    out = [
        static(STATIC_PEAK, {s.role: s.peak for s in sizing}),
        static(STATIC_MEAN, {s.role: s.mean for s in sizing}),
    ]
    if len(sizing) > 1:
        start = copies(first)
        out.append(
            _Variant(
                name=TOGETHER,
                most={r: top * n for r, n in ratio.items()},
                first={r: start * n for r, n in ratio.items()},
                cold_s=cold_s,
                control=together,
            )
        )
    out += [
        _Variant(name=INDEPENDENT, most=most, first=first, cold_s=cold_s, control=independent),
        _Variant(name=NO_COLD_START, most=most, first=first, cold_s=0.0, control=independent),
    ]
    return out


def _ratio(cluster: Cluster) -> dict[str, int]:
    """Groups per role in the smallest whole copy of the plan."""
    shared = math.gcd(*(r.groups for r in cluster.roles))
    return {r.name: r.groups // shared for r in cluster.roles}


def compare_scaling(
    cluster: Cluster,
    shape: Shape,
    curve: LoadCurve,
    *,
    asked: Mapping[str, RoleAsked],
    concurrency: int,
    slo: SloTargets,
    behaviour: Behaviour,
    cold_start_s: float,
    seed: int = 0,
    replications: int = 1,
    progress: Progress | None = None,
) -> Answer:
    """Simulate every variant on the same arrivals and lengths. Raises `InputError`, `NotFeasibleError`."""
    traffics = [curve_traffic(shape, curve, seed=seed + i) for i in range(replications)]
    metrics = {r.name: asked[r.name].metric for r in cluster.roles}
    capacity = measure_capacity(cluster, shape, concurrency=concurrency, metrics=metrics, seed=seed)
    sizing = size_roles(cluster, capacity, curve, asked)
    variants = _variants(cluster, sizing, behaviour, cold_start_s)
    jobs = [(i, v) for i in range(replications) for v in variants]

    def one(job: tuple[int, _Variant], report: Progress) -> ScaledFigures:
        i, v = job
        # static sizes may exceed --max-groups: they show what would have been needed
        room = replace(cluster, roles=tuple(replace(r, groups=v.most[r.name]) for r in cluster.roles))
        pools = pools_of(room, cold_s=v.cold_s)
        for pool in pools:
            pool.begin(v.first[pool.name])
        run = play_scaled(
            room,
            traffics[i],
            pools,
            control=v.control(),
            seed=seed + i,
            horizon_s=curve.end_s,
            progress=report,
        )
        return figures(
            v.name, run, curve, slo=slo,
            started=sum(p.started for p in pools), removed=sum(p.removed for p in pools),
        )  # fmt: skip

    total = sum(traffics[i].requests for i, _ in jobs)
    results = play_all(jobs, one, requests=total, progress=progress)
    runs = tuple(tuple(results[i * len(variants) : (i + 1) * len(variants)]) for i in range(replications))
    return Answer(
        curve=curve, capacity=capacity, sizing=sizing, cold_start_s=cold_start_s, behaviour=behaviour,
        variants=runs[0], replications=runs,
    )  # fmt: skip


def default_metric(role: Role) -> Metric:
    """Prompt tokens waiting for prefill, requests for whoever decodes."""
    return Metric.BACKLOG if role is Role.PREFILL else Metric.RUNNING
