"""Turn a point of the solution into a deployment plan."""

from __future__ import annotations

import math
from dataclasses import replace

from planner.analytic.closed_loop import PrefillPoints, prefill_points
from planner.domain.deployment import (
    DeploymentPlan,
    Role,
    RolePlan,
    RouterPolicy,
    Scorer,
    Strategy,
)
from planner.domain.problem import PlanningProblem
from planner.domain.workload import Workload
from planner.search.solve import Solution, StrategyPoints

SEQS_HEADROOM = 1.25  # running requests fluctuate around their mean
MODEL_LEN_HEADROOM = 1.1
MODEL_LEN_STEP = 1024


def plan_of(solution: Solution, found: StrategyPoints, index: int) -> DeploymentPlan:
    """The plan behind point `index`, with the limits an engine needs at that load."""
    problem = solution.problem
    points = found.points
    batch = float(points.batch[index])
    first = found.first[int(points.first[index])]
    groups = int(points.first_groups[index])
    concurrency = max(round(float(points.concurrency[index])), 1)
    peak: float | None = None
    if found.strategy is Strategy.AGGREGATED:
        roles: tuple[RolePlan, ...] = (at_load(first, groups, concurrency / (groups * first.parallelism.dp)),)
    else:
        second = found.second[int(points.second[index])]
        priced = solution.pricer.role(first, context_tokens=problem.workload.isl)
        peak = peak_prefill_tok_s(prefill_points(priced.stack, problem.workload), 0, problem.workload)
        roles = (
            replace(first, groups=groups),
            at_load(second, int(points.second_groups[index]), batch),
        )
    return plan_for(problem, roles, concurrency=concurrency, peak_prefill_tok_s=peak)


def plan_for(
    problem: PlanningProblem,
    roles: tuple[RolePlan, ...],
    *,
    concurrency: int,
    gpus_owned: int | None = None,
    name: str | None = None,
    peak_prefill_tok_s: float | None = None,
) -> DeploymentPlan:
    """The deployment of `roles` that answers `problem`, on all of its GPUs and under its name unless said otherwise."""
    strategy = Strategy.AGGREGATED if len(roles) == 1 else Strategy.DISAGGREGATED
    return DeploymentPlan(
        name=problem.name if name is None else name,
        model=problem.model.id,
        strategy=strategy,
        roles=roles,
        router=default_router(strategy, peak_prefill_tok_s=peak_prefill_tok_s),
        engine=problem.engine,
        engine_version=problem.engine_version,
        fabric=problem.decode_pool.fabric.id,
        workload=problem.workload,
        slo=problem.slo,
        concurrency=concurrency,
        gpus_owned=problem.gpus if gpus_owned is None else gpus_owned,
        max_model_len=max_model_len(problem.workload, problem.model.max_position),
        peak_prefill_tok_s_per_rank=peak_prefill_tok_s,
    )


def peak_prefill_tok_s(points: PrefillPoints, row: int, workload: Workload) -> float:
    """Prompt tokens/s that a full rank of prefill configuration `row` computes; cached ones cost it nothing."""
    return round(float(points.capacity_per_ms[row, 0]) * workload.new_tokens * 1000.0, 1)


def at_load(role: RolePlan, groups: int, per_rank: float, *, most: float | None = None) -> RolePlan:
    """The role at `per_rank` mean requests, with `max_num_seqs` for `most` of them (default: as many).

    The limit is the next multiple of 8 above the headroom.
    """
    wanted = int(math.ceil((per_rank if most is None else most) * SEQS_HEADROOM / 8.0) * 8)
    return replace(
        role,
        groups=groups,
        max_num_seqs=min(max(wanted, 8), role.max_num_seqs),
        concurrency=round(per_rank, 2),
    )


def max_model_len(workload: Workload, max_position: int) -> int:
    """Longest request the engine must accept, with headroom, in steps of 1024, within the model's context.

    Where prompts are found in the cache the mean hides conversations: prompts that grow evenly from turn to turn end at
    up to twice their mean.
    """
    prompt = workload.isl * (2 if workload.prefix_hit > 0.0 else 1)
    wanted = math.ceil((prompt + workload.osl) * MODEL_LEN_HEADROOM / MODEL_LEN_STEP) * MODEL_LEN_STEP
    return min(wanted, max_position)


def default_router(strategy: Strategy, *, peak_prefill_tok_s: float | None = None) -> RouterPolicy:
    """llm-d endpoint-picker plugins: the cache by a filter, the load by counts the router keeps itself.

    Where prompts are computed, requests stay on ranks that hold their prefix while those are not swamped, and go to the
    rank with the fewest prompt tokens in flight; where tokens are decoded, to the one with the fewest requests. A scorer
    that weighs prefix against load fails both ways: heavy, a prefix common to all requests holds them all on one rank;
    light, busy ranks lose the conversations they hold (docs/simulation.md). Scraped metrics herd (same page).
    `peak_prefill_tok_s` of a rank tells the filter when a rank is swamped.
    """
    peak = {} if peak_prefill_tok_s is None else {"peakPrefillThroughput": round(peak_prefill_tok_s)}
    computing = (
        Scorer(type="prefix-cache-affinity-filter", parameters=peak),
        Scorer(type="token-load-scorer"),
    )
    if strategy is Strategy.AGGREGATED:
        return RouterPolicy(decode_scorers=computing)
    return RouterPolicy(prefill_scorers=computing, decode_scorers=(Scorer(type="active-request-scorer"),))


def plan_key(plan: DeploymentPlan) -> tuple[object, ...]:
    """Plans that differ only in load, batched-token budget or formats share a key (shown once in tables)."""
    return (
        plan.strategy,
        tuple((r.role, r.groups, r.parallelism, r.all2all, r.dbo) for r in plan.roles),
    )


def role_of(plan: DeploymentPlan, role: Role) -> RolePlan:
    """The role that decodes: `role` itself, or the aggregated one."""
    return plan.role(role) or plan.roles[0]
