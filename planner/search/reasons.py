"""Why a plan was picked, what the others lose, and what is missing when nothing fits."""

from __future__ import annotations

import numpy as np

from planner.domain.deployment import DeploymentPlan, Role, Strategy
from planner.domain.evaluation import Evaluation, StepTerm
from planner.domain.recommendation import RankedPlan, Shortfall
from planner.search.plans import plan_of, role_of
from planner.search.solve import Solution, StrategyPoints

TOP_TERMS = 3


def explain_pick(solution: Solution, ranked: list[RankedPlan]) -> tuple[str, ...]:
    """Binding constraint, step time, KV room, the best of the other strategy, idle GPUs."""
    pick = ranked[0]
    lines = [binding_of(solution, pick.plan, pick.evaluation)]
    lines.extend(step_shares(pick.evaluation))
    lines.extend(_kv_lines(pick.plan, pick.evaluation))
    kept, room = kept_prompts(pick.plan, pick.evaluation)
    if kept:
        lines.append(
            f"prefix cache: {pick.plan.concurrency} conversations need {kept / 1e6:.1f} M of {room / 1e6:.1f} M tokens on the "
            "prefill ranks to find their prompts again"
        )
    other = next((r for r in ranked[1:] if r.plan.strategy is not pick.plan.strategy), None)
    runner = next((r for r in ranked[1:] if r.plan.strategy is pick.plan.strategy), None)
    for label, entry in (("best of the other strategy", other), ("next best", runner)):
        if entry is not None:
            lines.append(f"{label}: {entry.plan.label()} — {entry.loses}")
    same = sum(1 for r in ranked[1:] if not r.distinguishable)
    if same:
        lines.append(
            f"{same} of {len(ranked) - 1} alternatives are not distinguishable: their intervals overlap the pick's"
        )
    idle = pick.plan.gpus_owned - pick.plan.gpus_used
    lines.append("every GPU is used" if idle == 0 else f"{idle} of {pick.plan.gpus_owned} GPUs stay unused")
    return tuple(lines)


def binding_of(solution: Solution, plan: DeploymentPlan, evaluation: Evaluation) -> str:
    """What stops this configuration from serving more, found by raising its load."""
    problem = solution.problem
    slo = problem.slo
    found = next(s for s in solution.strategies if s.strategy is plan.strategy)
    more = _next_load(found, plan)
    if more is None:
        role = role_of(plan, Role.DECODE)
        memory = next(m for m in evaluation.memory if m.role is role.role)
        held = role.concurrency * problem.workload.mean_context
        if held > 0.75 * memory.kv_tokens_per_rank:
            return f"binding: KV capacity — {held:,.0f} of {memory.kv_tokens_per_rank:,} tokens per rank are held"
        kept, room = kept_prompts(plan, evaluation)
        if kept and kept > 0.9 * room:
            return f"binding: prefix cache — prefill ranks have room for {room:,.0f} tokens of conversations"
        if plan.strategy is Strategy.DISAGGREGATED:
            return "binding: prefill rate — the next load step would need more prompts than the prefill groups finish"
        return f"binding: engine limits — no larger batch fits max_num_batched_tokens {role.max_num_batched_tokens}"
    ttft, tpot = more
    limit = slo.tpot_limit_ms
    if limit is not None and tpot > limit:
        return f"binding: TPOT target — the next load step would take {tpot:.1f} ms of {limit:g} ms"
    if slo.ttft_ms is not None and ttft > slo.ttft_ms:
        return f"binding: TTFT target — the next load step would take {ttft:,.0f} ms of {slo.ttft_ms:g} ms"
    return "binding: none of the targets — more load gives no more throughput on this configuration"


def kept_prompts(plan: DeploymentPlan, evaluation: Evaluation) -> tuple[float, float]:
    """Tokens of conversations that the prefill ranks must keep, and their room; nothing without a prefill role."""
    role = plan.role(Role.PREFILL)
    if role is None or not plan.workload.kept_tokens:
        return 0.0, 0.0
    memory = next(m for m in evaluation.memory if m.role is Role.PREFILL)
    room = float(memory.kv_tokens_per_rank) * role.groups * role.parallelism.dp
    return float(plan.concurrency * plan.workload.kept_tokens), room


def _next_load(found: StrategyPoints, plan: DeploymentPlan) -> tuple[float, float] | None:
    """(TTFT, TPOT) of the same configuration at the next higher load, None when there is no such point."""
    points = found.points
    firsts = [i for i, r in enumerate(found.first) if _same(r, plan.roles[0])]
    mask = np.isin(points.first, firsts) & (points.first_groups == plan.roles[0].groups)
    if plan.strategy is Strategy.DISAGGREGATED:
        seconds = [i for i, r in enumerate(found.second) if _same(r, plan.roles[1])]
        mask &= np.isin(points.second, seconds) & (points.second_groups == plan.roles[1].groups)
    higher = np.flatnonzero(mask & (points.concurrency > plan.concurrency * 1.001 + 1.0))
    if higher.size == 0:
        return None
    best = higher[np.argmin(points.concurrency[higher])]
    return float(points.ttft_ms[best]), float(points.tpot_ms[best])


def _same(a: object, b: object) -> bool:
    from dataclasses import replace

    from planner.domain.deployment import RolePlan

    if not isinstance(a, RolePlan) or not isinstance(b, RolePlan):
        return False
    return replace(a, groups=b.groups, max_num_seqs=b.max_num_seqs, concurrency=b.concurrency) == b


def step_shares(evaluation: Evaluation) -> list[str]:
    """One line per role: the largest parts of its step."""
    lines = []
    for step in evaluation.steps:
        gross = sum(t.ms for t in step.terms if t.ms > 0.0)
        largest = sorted((t for t in step.terms if t.ms > 0.0), key=lambda t: -t.ms)[:TOP_TERMS]
        shares = ", ".join(f"{t.term.value} {100.0 * t.ms / gross:.0f} %" for t in largest)
        dbo = next((t for t in step.terms if t.term is StepTerm.DBO), None)
        saved = f"; DBO hides {-dbo.ms:.1f} ms" if dbo else ""
        lines.append(
            f"{step.role.value} step {step.total_ms:.1f} ms at {step.tokens:.0f} tokens per rank: {shares}{saved}"
        )
    return lines


def _kv_lines(plan: DeploymentPlan, evaluation: Evaluation) -> list[str]:
    return [
        f"{m.role.value}: {m.kv_tokens_per_rank:,} KV tokens per rank ({m.kv_gib:.1f} GiB left of {m.total_gib:.1f}, "
        f"experts take {m.weights_experts_gib:.1f} GiB)"
        for m in evaluation.memory
        if m.role in {r.role for r in plan.roles}
    ]


def loses_against(
    best_plan: DeploymentPlan, best: Evaluation, plan: DeploymentPlan, evaluation: Evaluation
) -> str:
    """What `plan` gives up (and gains) against the best plan, in words."""
    rate = evaluation.output_tok_s_per_gpu.value / best.output_tok_s_per_gpu.value - 1.0
    parts = [f"{100.0 * rate:+.1f} % tok/s/GPU"]
    for name, mine, theirs in (
        ("TTFT", evaluation.ttft_ms.value, best.ttft_ms.value),
        ("TPOT", evaluation.tpot_ms.value, best.tpot_ms.value),
    ):
        change = mine / theirs - 1.0
        if abs(change) >= 0.02:
            parts.append(f"{name} {100.0 * change:+.0f} %")
    if plan.gpus_used != best_plan.gpus_used:
        parts.append(f"{plan.gpus_used} instead of {best_plan.gpus_used} GPUs")
    return ", ".join(parts)


def shortfall_of(solution: Solution) -> Shortfall:
    """The binding limit, the nearest plan and what would be needed, when nothing meets the targets."""
    problem = solution.problem
    candidates = [s for s in solution.strategies if len(s.points)]
    if not candidates:
        return Shortfall(binding=_no_configuration(solution), nearest=None, needed=needed_memory(solution))
    slo = problem.slo
    limit = slo.tpot_limit_ms
    best: tuple[float, StrategyPoints, int] | None = None
    for found in candidates:
        points = found.points
        over = np.ones(len(points))
        if slo.ttft_ms is not None:
            over = np.maximum(over, points.ttft_ms / slo.ttft_ms)
        if limit is not None:
            over = np.maximum(over, points.tpot_ms / limit)
        index = int(np.lexsort((-points.output_tok_s, over))[0])
        if best is None or over[index] < best[0]:
            best = (float(over[index]), found, index)
    assert best is not None  # noqa: S101 - candidates is not empty
    _, found, index = best
    plan = plan_of(solution, found, index)
    evaluation = solution.pricer.evaluate(plan)
    nearest = RankedPlan(
        rank=1, plan=plan, evaluation=evaluation, meets_slo=False, distinguishable=True, loses=""
    )
    lowest_ttft = min(float(s.points.ttft_ms.min()) for s in candidates)
    lowest_tpot = min(float(s.points.tpot_ms.min()) for s in candidates)
    needed = []
    binding = []
    if slo.ttft_ms is not None and evaluation.ttft_ms.value > slo.ttft_ms:
        binding.append(f"TTFT {evaluation.ttft_ms.value:,.0f} ms against a target of {slo.ttft_ms:g} ms")
        needed.append(
            f"--ttft-ms {np.ceil(float(found.points.ttft_ms[index])):.0f} is met by the nearest plan"
        )
    if limit is not None and evaluation.tpot_ms.value > limit:
        binding.append(f"TPOT {evaluation.tpot_ms.value:.1f} ms against a target of {limit:.3g} ms")
        needed.append(
            f"--tpot-ms {np.ceil(10.0 * float(found.points.tpot_ms[index])) / 10.0:.1f} is met by the nearest plan"
        )
    needed.append(
        f"lowest anywhere in the space: TTFT {lowest_ttft:,.0f} ms, TPOT {lowest_tpot:.1f} ms (not together)"
    )
    return Shortfall(
        binding="; ".join(binding) or "the targets together", nearest=nearest, needed=tuple(needed)
    )


def _no_configuration(solution: Solution) -> str:
    top = solution.excluded.most_common(1)
    reason = (
        f"; most were left out by {top[0][0]} ({top[0][1]} of {solution.role_configurations})" if top else ""
    )
    return f"no legal configuration fits{reason}"


def needed_memory(solution: Solution) -> tuple[str, ...]:
    """How many GPUs hold the weights with a tenth of the memory left for KV."""
    problem = solution.problem
    gpu = problem.decode_pool.gpu
    usable = gpu.memory_bytes * solution.engine.gpu_memory_utilization * 0.9
    node = problem.decode_pool.gpus_per_node
    gpus = int(np.ceil(problem.model.weight_bytes / usable))
    rounded = (
        node * int(np.ceil(gpus / node))
        if gpus > node
        else next(g for g in range(gpus, node + 1) if node % g == 0)
    )
    return (f"--gpus {rounded}: the weights are {problem.model.weight_bytes / 2**30:,.0f} GiB",)
