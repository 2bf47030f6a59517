"""What is recommended meets the targets in its own whole numbers, not only in the fractional point behind it."""

from __future__ import annotations

import pytest

from planner.search.ask import Request, build_problem
from planner.search.recommend import recommend


@pytest.mark.parametrize(("ttft_ms", "tpot_ms"), [(3000.0, 50.0), (3000.0, 30.0), (2000.0, 60.0)])
def test_every_ranked_plan_meets_the_targets(ttft_ms: float, tpot_ms: float) -> None:
    problem, engine = build_problem(
        Request(
            model="deepseek-r1", gpu="h200-sxm", fabric="ib-ndr400", gpus=32, isl=4000, osl=1000,
            ttft_ms=ttft_ms, tpot_ms=tpot_ms,
        )
    )  # fmt: skip
    answer = recommend(problem, engine)
    assert len(answer.ranked) >= 8
    for entry in answer.ranked:
        assert entry.evaluation.ttft_ms.value <= ttft_ms * 1.00001, entry.plan.label()
        assert entry.evaluation.tpot_ms.value <= tpot_ms * 1.00001, entry.plan.label()
        assert entry.evaluation.concurrency <= entry.plan.concurrency + 0.5
