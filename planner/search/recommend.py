"""From a problem to a recommendation: front, ranked plans, pick, reasons, or what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.analytic.evaluate import MODEL_VERSION
from planner.analytic.space import MEMORY_TITLES
from planner.domain.deployment import DeploymentPlan, Strategy
from planner.domain.engine import EngineProfile
from planner.domain.evaluation import Evaluation
from planner.domain.legality import rule_title
from planner.domain.problem import PlanningProblem
from planner.domain.recommendation import (
    Exclusion,
    FrontierPoint,
    RankedPlan,
    Recommendation,
    SpaceCounts,
)
from planner.search.plans import plan_key, plan_of
from planner.search.reasons import explain_pick, loses_against, shortfall_of
from planner.search.solve import Solution, StrategyPoints, front_of, meets_slo, solve

RANKED_PER_STRATEGY = 5
FRONT_LABELS = 400
ROUNDING = 1e-6  # points are stored as 32-bit floats


def recommend(problem: PlanningProblem, engine: EngineProfile) -> Recommendation:
    """Answer `problem` exactly for the analytic model. Same inputs give the same recommendation, byte for byte."""
    solution = solve(problem, engine)
    ok = {s.strategy: meets_slo(s.points, problem) for s in solution.strategies}
    ranked = _ranked(solution, ok)
    pick = ranked[0] if ranked else None
    return Recommendation(
        name=problem.name,
        question=question(problem),
        assumptions=problem.assumptions,
        space=_counts(solution, ok),
        frontier=tuple(_frontier(solution)),
        ranked=tuple(ranked),
        pick=pick,
        reasons=explain_pick(solution, ranked) if pick else (),
        shortfall=None if pick else shortfall_of(solution),
        model_version=MODEL_VERSION,
    )


def question(problem: PlanningProblem) -> str:
    """One line that says what was asked."""
    pools = (
        [problem.decode_pool] if not problem.heterogeneous else [problem.prefill_pool, problem.decode_pool]
    )
    hardware = " + ".join(f"{p.gpus} x {p.gpu.name} over {p.fabric.name}" for p in pools)
    w = problem.workload
    slo = [f"TTFT <= {problem.slo.ttft_ms:g} ms" if problem.slo.ttft_ms is not None else ""]
    slo.append(f"TPOT <= {problem.slo.tpot_ms:g} ms" if problem.slo.tpot_ms is not None else "")
    slo.append(f">= {problem.slo.tok_s_user:g} tok/s/user" if problem.slo.tok_s_user is not None else "")
    targets = ", ".join(s for s in slo if s) or "no targets"
    return f"{problem.model.id} on {hardware}; {w.isl} in / {w.osl} out; {targets} (medians)"


def _counts(solution: Solution, ok: dict[Strategy, NDArray[np.bool_]]) -> SpaceCounts:
    exclusions = tuple(
        Exclusion(code=code, title=_title(code), count=count)
        for code, count in sorted(solution.excluded.items(), key=lambda item: (-item[1], item[0]))
    )
    return SpaceCounts(
        role_configurations=solution.role_configurations,
        legal=solution.legal,
        dominated=solution.dominated,
        points=solution.evaluated,
        reachable=sum(len(s.points) for s in solution.strategies),
        meeting_slo=int(sum(m.sum() for m in ok.values())),
        exclusions=exclusions,
        sampled=any(s.sampled for s in solution.strategies),
    )


def _title(code: str) -> str:
    title = MEMORY_TITLES.get(code) or rule_title(code)
    return f"{title} (kinds of pairs)" if code.startswith("pair.") else title


def _frontier(solution: Solution) -> Iterator[FrontierPoint]:
    """Each strategy's own front among points that meet the TTFT target (all points when there is none)."""
    owned = solution.problem.gpus
    limit = solution.problem.slo.ttft_ms
    for found in solution.strategies:
        points = found.points
        within = np.flatnonzero(points.ttft_ms <= limit) if limit is not None else np.arange(len(points))
        candidates = points.take(within)
        for i in front_of(candidates)[:FRONT_LABELS]:
            plan = plan_of(solution, found, int(within[i]))
            yield FrontierPoint(
                strategy=found.strategy,
                label=plan.label(),
                tok_s_user=1000.0 / float(candidates.tpot_ms[i]),
                output_tok_s_per_gpu=float(candidates.output_tok_s[i]) / owned,
                ttft_ms=float(candidates.ttft_ms[i]),
                tpot_ms=float(candidates.tpot_ms[i]),
                concurrency=float(candidates.concurrency[i]),
                gpus_used=int(candidates.gpus[i]),
            )


def best_plans(
    solution: Solution, found: StrategyPoints, ok: NDArray[np.bool_], count: int
) -> list[tuple[DeploymentPlan, Evaluation]]:
    """The `count` plans of one strategy with the highest throughput among points in `ok`, one per configuration."""
    points = found.points
    index = np.flatnonzero(ok)
    # highest rate first; then fewer GPUs, then lower TTFT: the order is total, so the result is reproducible
    order = np.lexsort((index, points.ttft_ms[index], points.gpus[index], -points.output_tok_s[index]))
    chosen: list[tuple[DeploymentPlan, Evaluation]] = []
    seen: set[tuple[object, ...]] = set()
    for i in index[order[: 200 * count]]:
        plan = plan_of(solution, found, int(i))
        key = plan_key(plan)
        if key in seen:
            continue
        priced = _within_targets(solution, plan)
        if priced is None:
            continue  # a lighter load of this configuration comes later in the order
        seen.add(key)
        chosen.append(priced)
        if len(chosen) == count:
            break
    return chosen


def _within_targets(solution: Solution, plan: DeploymentPlan) -> tuple[DeploymentPlan, Evaluation] | None:
    """`plan` with its numbers, at one request less if need be; None when it misses a target.

    A point's load is fractional, a plan's is whole. Near saturation one request more costs hundreds of milliseconds of
    TTFT, so a point within the targets may round to a plan that is not.
    """
    slo = solution.problem.slo
    limit = slo.tpot_limit_ms
    for fewer in (0, 1):
        tried = replace(plan, concurrency=max(plan.concurrency - fewer, 1))
        evaluation = solution.pricer.evaluate(tried)
        if (slo.ttft_ms is None or evaluation.ttft_ms.value <= slo.ttft_ms * (1.0 + ROUNDING)) and (
            limit is None or evaluation.tpot_ms.value <= limit * (1.0 + ROUNDING)
        ):
            return tried, evaluation
    return None


def _ranked(solution: Solution, ok: dict[Strategy, NDArray[np.bool_]]) -> list[RankedPlan]:
    plans = [
        pair
        for found in solution.strategies
        for pair in best_plans(solution, found, ok[found.strategy], RANKED_PER_STRATEGY)
    ]
    plans.sort(key=lambda p: (-p[1].output_tok_s_per_gpu.value, p[0].gpus_used, p[0].label()))
    if not plans:
        return []
    first_plan, first = plans[0]
    return [
        RankedPlan(
            rank=rank,
            plan=plan,
            evaluation=evaluation,
            meets_slo=True,
            distinguishable=rank == 1
            or not evaluation.output_tok_s_per_gpu.overlaps(first.output_tok_s_per_gpu),
            loses="" if rank == 1 else loses_against(first_plan, first, plan, evaluation),
        )
        for rank, (plan, evaluation) in enumerate(plans, start=1)
    ]
