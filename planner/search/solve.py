"""Solve a planning problem exactly at L1: enumerate, price every (configuration, load) point, keep the front."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.analytic.closed_loop import decode_points, prefill_points
from planner.analytic.evaluate import Pricer
from planner.analytic.front import pareto_indexes
from planner.analytic.points import (
    Pairing,
    Points,
    aggregated_plan_points,
    disaggregated_plan_points,
    prune_decode,
    prune_prefill,
)
from planner.analytic.space import LOADS, Candidate, RoleSpace, enumerate_role
from planner.analytic.stack import RoleStack
from planner.domain.deployment import Role, RolePlan, Strategy
from planner.domain.engine import EngineProfile
from planner.domain.hardware import Pool
from planner.domain.legality import pair_codes
from planner.domain.problem import PREFILL_HEADROOM, PlanningProblem
from planner.perf.components import Components
from planner.perf.operators.library import load_operators
from planner.perf.step import build_tables
from planner.perf.transfer import kv_transfer_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyPoints:
    """All points of one strategy with the roles they index."""

    strategy: Strategy
    points: Points
    priced: int
    first: tuple[RolePlan, ...]
    second: tuple[RolePlan, ...]
    sampled: bool = False  # the group counts of a very large pool were sampled


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Points, counts and everything needed to turn a point into a plan."""

    problem: PlanningProblem
    engine: EngineProfile
    pricer: Pricer
    strategies: tuple[StrategyPoints, ...]
    excluded: Counter[str]
    role_configurations: int
    legal: int
    dominated: int

    @property
    def evaluated(self) -> int:
        """(configuration x load) points that were priced."""
        return sum(s.priced for s in self.strategies)


def make_pricer(problem: PlanningProblem, engine: EngineProfile) -> Pricer:
    """A pricer for the problem's model on its pools."""
    pools: dict[str, Pool] = {
        problem.prefill_pool.gpu.id: problem.prefill_pool,
        problem.decode_pool.gpu.id: problem.decode_pool,
    }
    components = {
        gpu: Components(problem.model, load_operators(pool.gpu, pool.fabric, engine.engine))
        for gpu, pool in pools.items()
    }
    return Pricer(
        model=problem.model,
        pools=pools,
        components=components,
        engine=engine,
        usd_per_gpu_hour=problem.usd_per_gpu_hour,
        calibration=problem.calibration,
    )


def solve(problem: PlanningProblem, engine: EngineProfile) -> Solution:
    """Price the whole legal space of `problem`."""
    pricer = make_pricer(problem, engine)
    excluded: Counter[str] = Counter()
    strategies: list[StrategyPoints] = []
    totals = Counter[str]()
    if Strategy.AGGREGATED in problem.bounds.strategies:
        strategies.append(_aggregated(problem, engine, pricer, excluded, totals))
    if Strategy.DISAGGREGATED in problem.bounds.strategies:
        found = _disaggregated(problem, engine, pricer, excluded, totals)
        if found is not None:
            strategies.append(found)
    return Solution(
        problem=problem,
        engine=engine,
        pricer=pricer,
        strategies=tuple(strategies),
        excluded=excluded,
        role_configurations=totals["all"],
        legal=totals["legal"],
        dominated=totals["dominated"],
    )


def meets_slo(points: Points, problem: PlanningProblem) -> NDArray[np.bool_]:
    """Which points meet every target."""
    ok = np.ones(len(points), dtype=bool)
    if problem.slo.ttft_ms is not None:
        ok &= points.ttft_ms <= problem.slo.ttft_ms
        # a prefill role this close to its capacity meets a TTFT target on paper only
        ok &= (points.second < 0) | (points.utilisation <= PREFILL_HEADROOM)
    limit = problem.slo.tpot_limit_ms
    if limit is not None:
        ok &= points.tpot_ms <= limit
    return ok


def front_of(points: Points) -> NDArray[np.intp]:
    """Indexes of the exact front: tok/s/user against output tok/s."""
    rate = points.output_tok_s.astype(np.float64)
    return pareto_indexes(1000.0 / points.tpot_ms.astype(np.float64), rate)


def role_space(
    role: Role, problem: PlanningProblem, engine: EngineProfile, excluded: Counter[str], totals: Counter[str]
) -> RoleSpace:
    """All candidates of `role` on its pool; counts go to `excluded` and `totals`."""
    workload = problem.workload
    pool = problem.prefill_pool if role is Role.PREFILL else problem.decode_pool
    needed = workload.isl if role is Role.PREFILL else workload.context_at_end
    space = enumerate_role(
        role,
        model=problem.model,
        pool=pool,
        engine=engine,
        bounds=problem.bounds,
        min_tokens=needed,
        context_tokens=needed,
        speculation=problem.speculation,
    )
    excluded.update(space.excluded)
    totals["all"] += space.total
    totals["legal"] += len(space.candidates)
    return space


def role_stack(
    candidates: tuple[Candidate, ...], pool: Pool, engine: EngineProfile, pricer: Pricer
) -> RoleStack:
    """Step tables of `candidates`, stacked."""
    components = pricer.components[pool.gpu.id]
    added = pricer.added_factors
    tables = [build_tables(components, c.role, pool, engine, added=added) for c in candidates]
    return RoleStack([c.role for c in candidates], tables, [float(c.kv_tokens) for c in candidates])


def _aggregated(
    problem: PlanningProblem,
    engine: EngineProfile,
    pricer: Pricer,
    excluded: Counter[str],
    totals: Counter[str],
) -> StrategyPoints:
    pool = problem.decode_pool
    space = role_space(Role.AGGREGATED, problem, engine, excluded, totals)
    roles = tuple(c.role for c in space.candidates)
    if not roles:
        return StrategyPoints(
            strategy=Strategy.AGGREGATED, points=Points.empty(), priced=0, first=(), second=()
        )
    stack = role_stack(space.candidates, pool, engine, pricer)
    points, priced = aggregated_plan_points(stack, problem.workload, LOADS, pool.gpus)
    return StrategyPoints(strategy=Strategy.AGGREGATED, points=points, priced=priced, first=roles, second=())


def _disaggregated(
    problem: PlanningProblem,
    engine: EngineProfile,
    pricer: Pricer,
    excluded: Counter[str],
    totals: Counter[str],
) -> StrategyPoints | None:
    prefill_space = role_space(Role.PREFILL, problem, engine, excluded, totals)
    decode_space = role_space(Role.DECODE, problem, engine, excluded, totals)
    if not prefill_space.candidates or not decode_space.candidates:
        return None
    prefill = role_stack(prefill_space.candidates, problem.prefill_pool, engine, pricer)
    decode = role_stack(decode_space.candidates, problem.decode_pool, engine, pricer)
    kept_p = prune_prefill(
        prefill,
        prefill_points(prefill, problem.workload),
        [pair_key(c.role) for c in prefill_space.candidates],
    )
    kept_d = prune_decode(
        decode_points(decode, problem.workload, LOADS[None, :]),
        [pair_key(c.role) for c in decode_space.candidates],
    )
    totals["dominated"] += len(prefill) + len(decode) - len(kept_p) - len(kept_d)
    chosen_p = tuple(prefill_space.candidates[i] for i in kept_p)
    chosen_d = tuple(decode_space.candidates[i] for i in kept_d)
    pairing = _pairing(problem, tuple(c.role for c in chosen_p), tuple(c.role for c in chosen_d), excluded)
    points, priced, sampled = disaggregated_plan_points(
        role_stack(chosen_p, problem.prefill_pool, engine, pricer),
        role_stack(chosen_d, problem.decode_pool, engine, pricer),
        problem.workload,
        LOADS,
        pairing,
    )
    return StrategyPoints(
        strategy=Strategy.DISAGGREGATED,
        points=points,
        priced=priced,
        first=tuple(c.role for c in chosen_p),
        second=tuple(c.role for c in chosen_d),
        sampled=sampled,
    )


def pair_key(role: RolePlan) -> tuple[object, ...]:
    """What pairing rules and the KV transfer can see of a role: only equals may replace one another."""
    p = role.parallelism
    return (p.gpus, p.tp, p.dcp, role.kv_dtype, role.block_size, role.speculation)


def _pairing(
    problem: PlanningProblem,
    prefill: tuple[RolePlan, ...],
    decode: tuple[RolePlan, ...],
    excluded: Counter[str],
) -> Pairing:
    verdicts: dict[tuple[object, ...], bool] = {}
    moved: dict[tuple[object, ...], float] = {}
    model = problem.model
    fabric = problem.decode_pool.fabric

    def legal(p: int, d: int) -> bool:
        key = (*pair_key(prefill[p]), *pair_key(decode[d]))
        if key not in verdicts:
            codes = pair_codes(
                model,
                prefill[p],
                decode[d],
                prefill_pool=problem.prefill_pool,
                decode_pool=problem.decode_pool,
            )
            verdicts[key] = not codes
            if codes:
                excluded[codes[0]] += 1
        return verdicts[key]

    def transfer(p: int, d: int) -> float:
        key = (*pair_key(prefill[p]), *pair_key(decode[d]))
        if key not in moved:
            moved[key] = kv_transfer_ms(
                model, problem.workload, prefill=prefill[p], decode=decode[d], fabric=fabric
            )
        return moved[key]

    return Pairing(
        legal=legal,
        transfer_ms=transfer,
        prefill_gpus=problem.prefill_pool.gpus,
        decode_gpus=problem.decode_pool.gpus,
        shared=problem.prefill_pool is problem.decode_pool,
    )
