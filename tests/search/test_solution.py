"""What must hold of every solved space."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.domain.deployment import Role, Strategy
from planner.search.ask import Request, build_problem
from planner.search.plans import plan_of
from planner.search.solve import front_of, meets_slo, solve

SETTINGS = {
    "r1-16xh200": {},
    "qwen3-8xh100": {"model": "Qwen/Qwen3-235B-A22B-FP8", "gpu": "h100-sxm", "gpus": 8},
    "gpt-oss-4xh200": {"model": "openai/gpt-oss-120b", "gpus": 4},
    "gpt-oss-8xmi300x": {"model": "openai/gpt-oss-120b", "gpu": "mi300x", "gpus": 8, "fabric": "roce-400"},
}


@pytest.fixture(params=SETTINGS)
def solution(request, solved):
    return solved(**SETTINGS[request.param])


def test_counts_add_up(solution) -> None:
    pairs = sum(n for code, n in solution.excluded.items() if code.startswith("pair."))
    assert solution.legal + solution.excluded.total() - pairs == solution.role_configurations
    assert solution.evaluated >= sum(len(s.points) for s in solution.strategies) > 0


def test_no_plan_uses_more_gpus_than_owned(solution) -> None:
    for found in solution.strategies:
        assert (found.points.gpus <= solution.problem.gpus).all()


def test_times_and_rates_are_positive_and_finite(solution) -> None:
    for found in solution.strategies:
        for values in (found.points.ttft_ms, found.points.tpot_ms, found.points.output_tok_s):
            assert np.isfinite(values).all()
            assert (values > 0.0).all()


def test_the_front_has_no_dominated_member(solution) -> None:
    for found in solution.strategies:
        points = found.points
        front = front_of(points)
        user, rate = 1000.0 / points.tpot_ms, points.output_tok_s
        for i in front:
            beaten = (user >= user[i]) & (rate >= rate[i]) & ((user > user[i]) | (rate > rate[i]))
            assert not beaten.any()


def test_a_point_and_its_plan_agree(solution) -> None:
    """The array pass and the single-plan pass are the same equations."""
    rng = np.random.default_rng(7)
    for found in solution.strategies:
        points = found.points
        for i in rng.choice(len(points), size=min(6, len(points)), replace=False):
            plan = plan_of(solution, found, int(i))
            # undo the limit that is set for headroom: the point was priced at the role's own limit
            roles = tuple(
                replace(r, max_num_seqs=1024 if r.role is not Role.PREFILL else r.max_num_seqs)
                for r in plan.roles
            )
            evaluation = solution.pricer.evaluate(replace(plan, roles=roles))
            # concurrency is rounded to whole requests, so small loads differ a little
            slack = 0.03 + 1.0 / plan.concurrency
            assert evaluation.tpot_ms.value == pytest.approx(float(points.tpot_ms[i]), rel=slack)
            rate = evaluation.output_tok_s_per_gpu.value * plan.gpus_owned
            assert rate == pytest.approx(float(points.output_tok_s[i]), rel=slack)
            assert evaluation.ttft_ms.value == pytest.approx(float(points.ttft_ms[i]), rel=0.1 + slack)


def test_pruned_configurations_cannot_change_the_front() -> None:
    """Dominance pruning is exact: the unpruned pairing has the same front (a small space, priced in full)."""
    import planner.search.solve as module

    request = Request(
        model="openai/gpt-oss-120b",
        gpu="h200-sxm",
        fabric="ib-ndr400",
        gpus=4,
        isl=1000,
        osl=500,
        strategy=Strategy.DISAGGREGATED,
    )
    problem, engine = build_problem(request)
    pruned = solve(problem, engine)
    keep_p, keep_d = module.prune_prefill, module.prune_decode
    module.prune_prefill = lambda stack, points, keys: np.arange(len(keys))
    module.prune_decode = lambda points, keys: np.arange(len(keys))
    try:
        full = solve(problem, engine)
    finally:
        module.prune_prefill, module.prune_decode = keep_p, keep_d
    assert len(full.strategies[0].points) > len(pruned.strategies[0].points)
    a, b = pruned.strategies[0].points, full.strategies[0].points
    front_a = {(float(a.tpot_ms[i]), float(a.output_tok_s[i])) for i in front_of(a)}
    front_b = {(float(b.tpot_ms[i]), float(b.output_tok_s[i])) for i in front_of(b)}
    assert front_a == front_b


def _best_rate(solution) -> dict[Strategy, float]:
    """Highest rate with TPOT at most 60 ms, by strategy."""
    return {
        s.strategy: float(s.points.output_tok_s[s.points.tpot_ms <= 60.0].max(initial=0.0))
        for s in solution.strategies
    }


def _with_gpu(solution, **changes):
    pool = solution.problem.decode_pool
    better = replace(pool, gpu=replace(pool.gpu, **changes))
    return solve(replace(solution.problem, prefill_pool=better, decode_pool=better), solution.engine)


def test_more_memory_never_hurts(solved) -> None:
    base = solved()
    gpu = base.problem.decode_pool.gpu
    better = _with_gpu(base, memory_gib=gpu.memory_gib * 1.25)
    assert better.legal >= base.legal
    before, after = _best_rate(base), _best_rate(better)
    assert all(after[s] >= before[s] * (1.0 - 1e-6) for s in before)


def test_a_faster_fabric_never_hurts(solved) -> None:
    base = solved()
    pool = base.problem.decode_pool
    fabric = replace(pool.fabric, gbps_per_gpu=pool.fabric.gbps_per_gpu * 2.0)
    better_pool = replace(pool, fabric=fabric)
    better = solve(replace(base.problem, prefill_pool=better_pool, decode_pool=better_pool), base.engine)
    before, after = _best_rate(base), _best_rate(better)
    assert all(after[s] >= before[s] * (1.0 - 1e-6) for s in before)


def test_targets_filter_and_never_add(solved) -> None:
    free = solved()
    tight = replace(free.problem, slo=replace(free.problem.slo, ttft_ms=1500.0, tpot_ms=40.0))
    for found in free.strategies:
        ok = meets_slo(found.points, tight)
        assert ok.sum() < len(found.points)
        assert (found.points.ttft_ms[ok] <= 1500.0).all()
        assert (found.points.tpot_ms[ok] <= 40.0).all()


def test_different_gpus_for_prefill_and_decode() -> None:
    problem, engine = build_problem(
        Request(
            model="deepseek-ai/DeepSeek-R1",
            prefill_gpu="h100-sxm",
            prefill_gpus=16,
            decode_gpu="h200-sxm",
            decode_gpus=16,
            fabric="ib-ndr400",
            isl=4000,
            osl=1000,
            strategy=Strategy.DISAGGREGATED,
        )
    )
    solution = solve(problem, engine)
    found = solution.strategies[0]
    assert {r.gpu for r in found.first} == {"h100-sxm"}
    assert {r.gpu for r in found.second} == {"h200-sxm"}
    points = found.points
    assert (points.gpus <= 32).all()
    prefill_gpus = np.array([r.parallelism.gpus for r in found.first])[points.first] * points.first_groups
    assert (prefill_gpus <= 16).all()
