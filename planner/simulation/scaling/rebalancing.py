"""EPLB with and without a stall of the step, while the load of the experts drifts between rebalances.

A synchronous rearrangement stops the group: 0.91 s on average (0.65 to 1.70 s) for DeepSeek-R1 on 32 GB200, up to 15 s in
an early version (vllm PR 43219 of 2026-05, issue 24116 of 2025-09). The asynchronous one moves experts layer by layer in
the background; it became vLLM's default with that PR. Its own slowdown is not modelled: published gap percentiles were
76.9 ms against 74.9 ms under light load, and better than the synchronous ones under heavy load.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from planner.domain.deployment import DeploymentPlan, Eplb, Role
from planner.domain.errors import InputError, Issue
from planner.domain.model import ModelSpec
from planner.domain.workload import SloTargets
from planner.perf.tables import TOKENS, StepTables
from planner.simulation.cluster import Cluster, EngineRole
from planner.simulation.engine import Progress, simulate
from planner.simulation.from_plan import SYNC_PAUSE_S, cluster_from_plan
from planner.simulation.result import SimulationResult
from planner.simulation.scaling.elastic_compare import even, serving_role
from planner.simulation.scaling.parallel import play_all
from planner.simulation.traffic import Arrival, Shape, make_traffic

INTERVALS = 4.0  # a run covers so many rearrangement intervals
_WARMUP_INTERVALS = 0.5  # the first rearrangement comes after a quarter of an interval
MOST_REQUESTS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalanced:
    """One way to balance experts. `drift_steps` infinite: the load of the experts stays as it was measured."""

    name: str
    interval_steps: int
    drift_steps: float
    asynchronous: bool
    result: SimulationResult
    slowdown: float  # of experts and exchange, mean over an interval; 1 right after a rearrangement


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancingAnswer:
    """All ways; the first is without EPLB. `pause_s`: stall of a synchronous rearrangement."""

    role: str
    redundant_experts: int
    pause_s: float
    hottest_load: float  # of a rank without EPLB, against the hottest with it
    slowdown_before: float  # of experts and exchange that this load causes at the plan's batch
    step_ms: float  # of the serving role, balanced
    ways: tuple[Rebalanced, ...]
    notes: tuple[str, ...]


def time_ratio(tables: StepTables, *, tokens: float, load: float) -> float:
    """How much longer experts and their exchange take when the hottest rank has `load` times its balanced share.

    Where reading the experts' weights dominates, a busier rank takes hardly longer: that is why balancing gains little
    at small batches. `tokens`: of one rank in a balanced step.
    """
    parts = tables.experts_ms + tables.dispatch_ms + tables.combine_ms
    hot, even_ms = (float(np.interp(np.log1p(x), np.log1p(TOKENS), parts)) for x in (tokens * load, tokens))
    return max(hot / even_ms, 1.0)


def mean_imbalance(*, before: float, interval_steps: int, drift_steps: float) -> float:
    """Mean slowdown of the experts over one interval that starts at 1 and drifts towards `before`."""
    if drift_steps == float("inf"):
        return 1.0
    x = interval_steps / drift_steps
    return float(1.0 + (before - 1.0) * (1.0 + np.expm1(-x) / x))


def compare_rebalancing(
    plan: DeploymentPlan,
    cluster: Cluster,
    model: ModelSpec,
    shape: Shape,
    *,
    slo: SloTargets,
    pause_s: float = SYNC_PAUSE_S,
    requests: int | None = None,
    profiles: Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> RebalancingAnswer:
    """Play the plan at its own concurrency with every way of balancing, on the same requests. Raises `InputError`."""
    base = serving_role(plan)
    if model.moe is None or not base.parallelism.expert_parallel:
        raise InputError(
            Issue(
                code="elastic.no_ep",
                what=f"{base.label()} of {model.id} has no expert parallelism",
                why="EPLB balances experts over ranks",
                fix="a plan whose decode role has ep in its label",
            )
        )
    planned = base.eplb or Eplb()
    wanted = planned.redundant_experts if base.eplb else base.parallelism.ep
    redundant = even(model.moe.experts, wanted, base.parallelism.ep)
    eplb = replace(planned, redundant_experts=redundant)

    def serving(eplb: Eplb | None) -> EngineRole:
        role = replace(base, eplb=eplb)
        roles = tuple(role if r.role is base.role else r for r in plan.roles)
        laid = cluster_from_plan(
            replace(plan, roles=roles), profiles=profiles, router=cluster.router, timing=cluster.timing
        )
        return next(r for r in laid.roles if r.role is base.role)

    without, balanced = serving(None), serving(eplb)
    load = balanced.experts.before
    tokens = max(plan.concurrency / (base.groups * base.parallelism.dp), 1.0)
    before = time_ratio(balanced.tables, tokens=tokens, load=load)

    def variant(interval: int, drift: float, *, asynchronous: bool) -> EngineRole:
        experts = replace(
            balanced.experts, before=before, drift_steps=drift, pause_s=0.0 if asynchronous else pause_s
        )
        return replace(
            balanced, experts=experts, eplb=replace(eplb, step_interval=interval, use_async=asynchronous)
        )

    usual = eplb.step_interval
    asked: list[tuple[str, EngineRole, int, float, bool]] = [("no EPLB", without, 0, float("inf"), True)]
    for drift, text in ((float("inf"), "no drift"), (4.0 * usual, "slow drift"), (0.5 * usual, "fast drift")):
        for asynchronous in (False, True):
            way = "async" if asynchronous else "sync"
            asked.append(
                (
                    f"{way}, {text}",
                    variant(usual, drift, asynchronous=asynchronous),
                    usual,
                    drift,
                    asynchronous,
                )
            )
    short = max(usual // 6, 1)
    for asynchronous in (False, True):
        way = "async" if asynchronous else "sync"
        asked.append(
            (
                f"{way}, fast drift, every {short}",
                variant(short, 0.5 * usual, asynchronous=asynchronous),
                short,
                0.5 * usual,
                asynchronous,
            )
        )
    step_s = _step_s(cluster, balanced, base.role, shape, concurrency=plan.concurrency, seed=seed)
    turns = len(shape.turns)
    stay_steps = sum(t.answer_tokens for t in shape.turns) / turns
    # in a closed loop, `concurrency` requests leave every `stay_steps` steps
    enough = int(INTERVALS * usual / stay_steps * plan.concurrency) + 2 * plan.concurrency
    count = enough if requests is None else requests
    if count > MOST_REQUESTS:
        raise InputError(
            Issue(
                code="scaling.too_long",
                what=f"{count:,} requests",
                why=f"{INTERVALS:g} intervals of {usual} steps take so many; at most {MOST_REQUESTS:,} are simulated",
                fix="--requests 50000, or longer answers",
            )
        )
    traffic = make_traffic(
        shape,
        sessions=max(count // turns, 1),
        seed=seed,
        arrival=Arrival.CLOSED,
        concurrency=plan.concurrency,
        spread_s=step_s * stay_steps,
        warmup_share=_WARMUP_INTERVALS / INTERVALS,
    )

    def one(way: tuple[str, EngineRole, int, float, bool], report: Progress) -> Rebalanced:
        name, role, interval, drift, asynchronous = way
        roles = tuple(role if r.role is base.role else r for r in cluster.roles)
        result = simulate(replace(cluster, roles=roles), traffic, seed=seed, slo=slo, progress=report)
        slowdown = (
            before
            if interval == 0
            else mean_imbalance(before=before, interval_steps=interval, drift_steps=drift)
        )
        return Rebalanced(
            name=name,
            interval_steps=interval,
            drift_steps=drift,
            asynchronous=asynchronous,
            result=result,
            slowdown=slowdown,
        )

    ways = tuple(play_all(asked, one, requests=traffic.requests * len(asked), progress=progress))
    notes = []
    if base.eplb is None:
        notes.append(
            f"The plan has no EPLB; here it gets {redundant} redundant experts, one or more per rank, which cost KV space."
        )
    if traffic.requests < enough:
        notes.append(f"{traffic.requests:,} requests do not cover {INTERVALS:g} intervals; {enough:,} would.")
    return RebalancingAnswer(
        role=balanced.name,
        redundant_experts=redundant,
        pause_s=pause_s,
        hottest_load=load,
        slowdown_before=before,
        step_ms=step_s * 1e3,
        ways=ways,
        notes=tuple(notes),
    )


def _step_s(
    cluster: Cluster, role: EngineRole, kind: Role, shape: Shape, *, concurrency: int, seed: int
) -> float:
    """Mean step of the serving role at the plan's load, from a short run."""
    roles = tuple(role if r.role is kind else r for r in cluster.roles)
    sessions = max(2 * concurrency // len(shape.turns), 1)
    traffic = make_traffic(
        shape, sessions=sessions, seed=seed, arrival=Arrival.CLOSED, concurrency=concurrency
    )
    result = simulate(replace(cluster, roles=roles), traffic, seed=seed)
    return next(r for r in result.roles if r.role is kind).step_ms * 1e-3
