"""The closed form of a prefill role's share of TTFT against the simulator, and recommended plans in the simulator."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from planner.analytic.closed_loop import prefill_points
from planner.analytic.evaluate import Pricer
from planner.analytic.operating import prefill_ttft_ms
from planner.domain.deployment import DeploymentPlan, Role, RouterPolicy, Scorer, Strategy
from planner.domain.recommendation import RankedPlan
from planner.search.ask import Request, build_problem
from planner.search.from_recipe import with_recipe
from planner.search.reasons import kept_prompts
from planner.search.recommend import recommend
from planner.search.solve import make_pricer
from planner.simulation.collect import trace
from planner.simulation.engine import play, simulate
from planner.simulation.from_plan import cluster_from_plan
from planner.simulation.traffic import Arrival
from planner.simulation.workloads import Asked, traffic_of

RECIPES = ("qwen3-235b-h100x16", "deepseek-r1-h200x32", "gpt-oss-120b-h200x8")


@lru_cache(maxsize=4)
def solved(recipe: str) -> tuple[Pricer, RankedPlan]:
    problem, engine = build_problem(with_recipe(recipe, Request(strategy=Strategy.DISAGGREGATED)))
    pick = recommend(problem, engine).pick
    assert pick is not None
    return make_pricer(problem, engine), pick


def asked(plan: DeploymentPlan, *, osl: int, rate: float, requests: int, cv: float = 0.0) -> Asked:
    return Asked(
        workload=f"{plan.workload.isl}/{osl}", arrival=Arrival.POISSON, concurrency=50, rate_per_s=rate,
        requests=requests, cv=1.0, length_cv=cv, spread_s=None, shared_prefix_tokens=0,
    )  # fmt: skip


@pytest.mark.parametrize("utilisation", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("tokens", [4096, 8192])
@pytest.mark.parametrize("recipe", RECIPES)
def test_prefill_time_follows_the_simulator(recipe: str, tokens: int, utilisation: float) -> None:
    pricer, best = solved(recipe)
    plan = replace(
        best.plan,
        roles=tuple(
            replace(r, max_num_batched_tokens=tokens) if r.role is Role.PREFILL else r
            for r in best.plan.roles
        ),
    )
    role = plan.role(Role.PREFILL)
    assert role is not None
    stack = pricer.role(role, context_tokens=plan.workload.isl).stack
    points = prefill_points(stack, plan.workload)
    ranks = role.groups * role.parallelism.dp
    rate = utilisation * float(points.capacity_per_ms[0, 0]) * ranks * 1000.0
    told = prefill_ttft_ms(points, np.array([[utilisation]]), np.array([[ranks]])) - points.frontend_ms

    traffic = traffic_of(asked(plan, osl=8, rate=rate, requests=1500), seed=3)
    lives = trace(traffic, play(cluster_from_plan(plan), traffic, seed=3).state)[200:]
    seen = np.median([life.prefilled_s - life.arrival_s for life in lives]) * 1000.0
    assert float(told[0, 0]) == pytest.approx(seen, rel=0.45)


def test_a_wide_group_waits_longer_for_its_common_step() -> None:
    """The same utilisation costs more TTFT on ranks that step together than on as many groups of one."""
    pricer, best = solved("qwen3-235b-h100x16")
    role = best.plan.role(Role.PREFILL)
    assert role is not None
    points = prefill_points(pricer.role(role, context_tokens=4000).stack, best.plan.workload)
    assert float(points.ranks[0, 0]) > 1.0
    apart = replace(points, ranks=np.ones_like(points.ranks))
    used, servers = np.array([[0.5]]), points.ranks
    assert float(prefill_ttft_ms(points, used, servers)[0, 0]) > 1.1 * float(
        prefill_ttft_ms(apart, used, servers)[0, 0]
    )


def test_length_spread_costs_ttft_in_a_group() -> None:
    pricer, best = solved("qwen3-235b-h100x16")
    role = best.plan.role(Role.PREFILL)
    assert role is not None
    points = prefill_points(pricer.role(role, context_tokens=4000).stack, best.plan.workload)
    spread = replace(points, length_cv=np.full_like(points.ranks, 0.3))
    used = np.array([[0.5]])
    assert (prefill_ttft_ms(spread, used, points.ranks) > prefill_ttft_ms(points, used, points.ranks)).all()


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recommended_plan_keeps_its_targets_in_the_simulator(recipe: str) -> None:
    _, best = solved(recipe)
    plan, told = best.plan, best.evaluation
    traffic = traffic_of(
        Asked(
            workload=f"{plan.workload.isl}/{plan.workload.osl}", arrival=Arrival.CLOSED,
            concurrency=plan.concurrency, rate_per_s=None, requests=20 * plan.concurrency, cv=1.0, length_cv=0.0,
            spread_s=None, shared_prefix_tokens=0,
        ),
        seed=0,
    )  # fmt: skip
    seen = simulate(cluster_from_plan(plan), [traffic], seed=0)
    assert plan.slo.ttft_ms is not None
    assert seen.ttft_ms.p50.value <= plan.slo.ttft_ms
    assert seen.tpot_ms.p50.value == pytest.approx(told.tpot_ms.value, rel=0.1)
    assert seen.output_tok_s.value / seen.gpus == pytest.approx(told.output_tok_s_per_gpu.value, rel=0.1)


def test_conversations_fit_into_the_prefill_caches_that_must_find_them_again() -> None:
    """A pool short of one prompt of every conversation finds none of them; a prefix common to all is kept once."""
    asked_for = Request(
        model="deepseek-ai/DeepSeek-R1", gpu="h200-sxm", fabric="ib-ndr400", gpus=32, isl=16250, osl=2000,
        prefix_hit=0.77, ttft_ms=2000.0, tpot_ms=50.0, strategy=Strategy.DISAGGREGATED,
    )  # fmt: skip
    own, common = (
        recommend(*build_problem(replace(asked_for, prefix_shared=shared))).pick for shared in (False, True)
    )
    assert own is not None
    assert common is not None
    kept, room = kept_prompts(own.plan, own.evaluation)
    assert 0.0 < kept <= 1.02 * room
    assert kept_prompts(common.plan, common.evaluation) == (0.0, 0.0)
    assert common.evaluation.output_tok_s_per_gpu.value > own.evaluation.output_tok_s_per_gpu.value
    turns = traffic_of(
        Asked(
            workload="seed-talk", arrival=Arrival.CLOSED, concurrency=own.plan.concurrency, rate_per_s=None,
            requests=None, cv=1.0, length_cv=0.0, spread_s=None, shared_prefix_tokens=0,
        ),
        seed=0,
    )  # fmt: skip
    seen = simulate(cluster_from_plan(own.plan), [turns], seed=0)
    assert seen.prefix_hit_rate > 0.65
    assert seen.output_tok_s.value / seen.gpus == pytest.approx(
        own.evaluation.output_tok_s_per_gpu.value, rel=0.15
    )


def test_a_prefix_common_to_all_does_not_hold_them_on_one_rank() -> None:
    problem, engine = build_problem(with_recipe("gpt-oss-120b-h100x16-prefix", Request()))
    best = recommend(problem, engine).pick
    assert best is not None
    plan = best.plan
    traffic = traffic_of(
        Asked(
            workload=f"{plan.workload.isl}/{plan.workload.osl}", arrival=Arrival.CLOSED,
            concurrency=plan.concurrency, rate_per_s=None, requests=8 * plan.concurrency, cv=1.0, length_cv=0.0,
            spread_s=None, shared_prefix_tokens=int(plan.workload.isl * plan.workload.prefix_hit),
        ),
        seed=0,
    )  # fmt: skip
    heavy = RouterPolicy(
        decode_scorers=(
            Scorer(type="prefix-cache-scorer", weight=3.0),
            Scorer(type="active-request-scorer", weight=2.0),
        )
    )
    ours, weighed = (
        simulate(cluster_from_plan(plan, router=policy), [traffic], seed=0).output_tok_s.value
        for policy in (plan.router, heavy)
    )
    assert ours > 1.1 * weighed
