"""Why a configuration is not legal, does not fit, or is not on the frontier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from planner.analytic.space import LOADS
from planner.domain.deployment import DeploymentPlan, Role
from planner.domain.engine import EngineProfile
from planner.domain.errors import Issue
from planner.domain.evaluation import Binding, Evaluation
from planner.domain.hardware import Pool
from planner.domain.legality import check_plan
from planner.domain.problem import PlanningProblem
from planner.search.plans import plan_of
from planner.search.price import no_room
from planner.search.reasons import loses_against
from planner.search.solve import Solution, meets_slo, solve

ON_FRONT = 0.995  # share of the front's rate from which a plan counts as on it (the load grids differ)


class Verdict(StrEnum):
    """The answer of `planner why-not`."""

    ILLEGAL = "not legal"
    DOES_NOT_FIT = "does not fit"
    MISSES_TARGETS = "misses the targets"
    DOMINATED = "dominated"
    ON_FRONT = "on the frontier"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot:
    """Verdict with its reasons. `issues`: broken rules or missing memory, each with what would mend it.

    `evaluation` is the plan at its best load; `better` the front's plan at the same or higher tok/s/user.
    """

    plan: DeploymentPlan
    verdict: Verdict
    issues: tuple[Issue, ...] = ()
    evaluation: Evaluation | None = None
    better: DeploymentPlan | None = None
    better_evaluation: Evaluation | None = None
    explanation: tuple[str, ...] = ()


def why_not(plan: DeploymentPlan, problem: PlanningProblem, engine: EngineProfile) -> WhyNot:
    """Answer for `plan`, a member of the problem's space or not."""
    pools = {r.role: _pool(problem, r.role) for r in plan.roles}
    violations = check_plan(problem.model, plan, pools, engine)
    if violations:
        return WhyNot(plan=plan, verdict=Verdict.ILLEGAL, issues=tuple(v.issue() for v in violations))
    solution = solve(problem, engine)
    missing = [i for r in plan.roles if (i := no_room(solution.pricer, plan, r)) is not None]
    if missing:
        return WhyNot(plan=plan, verdict=Verdict.DOES_NOT_FIT, issues=tuple(missing))
    best = _best_load(plan, solution, problem)
    if best is None:
        return _misses(plan, solution, problem)
    loaded, evaluation = best
    found = _better(evaluation, solution, problem)
    if found is None:
        return WhyNot(
            plan=loaded,
            verdict=Verdict.ON_FRONT,
            evaluation=evaluation,
            explanation=(f"no plan serves more at {evaluation.tok_s_user:.1f} tok/s/user or faster",),
        )
    better, better_evaluation = found
    return WhyNot(
        plan=loaded,
        verdict=Verdict.DOMINATED,
        evaluation=evaluation,
        better=better,
        better_evaluation=better_evaluation,
        explanation=(
            f"against {better.label()}: {loses_against(better, better_evaluation, loaded, evaluation)}",
            *_differences(evaluation, better_evaluation),
        ),
    )


def _pool(problem: PlanningProblem, role: Role) -> Pool:
    return problem.prefill_pool if role is Role.PREFILL else problem.decode_pool


def _loads(plan: DeploymentPlan) -> list[DeploymentPlan]:
    last = plan.roles[-1]
    ranks = last.groups * last.parallelism.dp
    return [replace(plan, concurrency=max(int(b * ranks), 1)) for b in LOADS]


def _best_load(
    plan: DeploymentPlan, solution: Solution, problem: PlanningProblem
) -> tuple[DeploymentPlan, Evaluation] | None:
    """The load with the highest rate that meets the targets."""
    limit = problem.slo.tpot_limit_ms
    best: tuple[DeploymentPlan, Evaluation] | None = None
    for loaded in _loads(plan):
        evaluation = solution.pricer.evaluate(loaded)
        if limit is not None and evaluation.tpot_ms.value > limit:
            break
        if problem.slo.ttft_ms is not None and evaluation.ttft_ms.value > problem.slo.ttft_ms:
            continue
        if best is None or evaluation.output_tok_s_per_gpu.value > best[1].output_tok_s_per_gpu.value:
            best = loaded, evaluation
        if evaluation.binding is not Binding.LOAD:
            break
    return best


def _misses(plan: DeploymentPlan, solution: Solution, problem: PlanningProblem) -> WhyNot:
    lightest = _loads(plan)[0]
    evaluation = solution.pricer.evaluate(lightest)
    lines = []
    slo = problem.slo
    if slo.ttft_ms is not None and evaluation.ttft_ms.value > slo.ttft_ms:
        lines.append(
            f"TTFT is {evaluation.ttft_ms.value:,.0f} ms even at the lightest load, target {slo.ttft_ms:g} ms"
        )
    limit = slo.tpot_limit_ms
    if limit is not None and evaluation.tpot_ms.value > limit:
        lines.append(
            f"TPOT is {evaluation.tpot_ms.value:.1f} ms even at the lightest load, target {limit:.3g} ms"
        )
    if not lines:
        lines.append("TTFT and TPOT are never met at the same load")
    return WhyNot(
        plan=lightest, verdict=Verdict.MISSES_TARGETS, evaluation=evaluation, explanation=tuple(lines)
    )


def _better(
    evaluation: Evaluation, solution: Solution, problem: PlanningProblem
) -> tuple[DeploymentPlan, Evaluation] | None:
    """The plan of the space with the highest rate at this tok/s/user or faster, if it clearly serves more."""
    found = None
    top = evaluation.output_tok_s_per_gpu.value * problem.gpus / ON_FRONT
    for strategy in solution.strategies:
        points = strategy.points
        ok = meets_slo(points, problem) & (points.tpot_ms <= evaluation.tpot_ms.value)
        if not ok.any():
            continue
        index = int(np.argmax(np.where(ok, points.output_tok_s, -1.0)))
        if points.output_tok_s[index] > top:
            top = float(points.output_tok_s[index])
            found = strategy, index
    if found is None:
        return None
    plan = plan_of(solution, *found)
    return plan, solution.pricer.evaluate(plan)


def _differences(mine: Evaluation, better: Evaluation) -> list[str]:
    """Where the decode step differs most, and the KV room."""
    a, b = mine.steps[-1], better.steps[-1]
    ms = {t.term: t.ms / max(a.tokens, 1.0) for t in a.terms}
    gap = {t: ms.get(t, 0.0) - x.ms / max(b.tokens, 1.0) for x in b.terms for t in [x.term]}
    lines = [
        f"decode step {a.total_ms:.1f} ms at {a.tokens:.0f} tokens per rank against {b.total_ms:.1f} ms at {b.tokens:.0f}",
        f"KV tokens per decode rank: {mine.memory[-1].kv_tokens_per_rank:,} against {better.memory[-1].kv_tokens_per_rank:,}",
    ]
    if gap:
        worst = max(gap, key=lambda t: gap[t])
        if gap[worst] > 0.0:
            lines.append(f"costs most per token in: {worst.value}")
    return lines
