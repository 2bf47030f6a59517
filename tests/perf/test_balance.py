"""The hottest expert rank, against the published measurements it was fitted to and its limits."""

from __future__ import annotations

import numpy as np
import pytest

from planner.perf.balance import Phase, hottest_rank_factor

MANY = np.array([1e6])


def factor(ep: int, experts: int, phase: Phase, *, eplb: bool = False, slots: float = 1e6) -> float:
    return float(
        hottest_rank_factor(
            slots=np.array([slots]), ep=ep, experts_local=experts / ep, phase=phase, eplb=eplb
        )[0]
    )


def test_published_imbalance_is_reproduced() -> None:
    """LMSYS, DeepSeek on 96 H100: 1.49x at EP32 in prefill, 2.54x at EP72 in decode (288 experts)."""
    assert factor(32, 256, Phase.PREFILL) == pytest.approx(1.49, rel=0.1)
    assert factor(72, 288, Phase.DECODE) == pytest.approx(2.54, rel=0.1)


def test_width_makes_it_worse_and_balancing_better() -> None:
    widths = [factor(ep, 256, Phase.DECODE) for ep in (4, 8, 16, 32, 64)]
    assert widths == sorted(widths)
    for ep in (8, 32, 64):
        assert 1.0 <= factor(ep, 256, Phase.DECODE, eplb=True) < factor(ep, 256, Phase.DECODE)


def test_few_tokens_spread_unevenly() -> None:
    assert factor(16, 256, Phase.DECODE, slots=4.0) > factor(16, 256, Phase.DECODE, slots=400.0)


def test_one_rank_is_its_own_mean_and_no_factor_exceeds_the_width() -> None:
    assert factor(1, 256, Phase.DECODE) == 1.0
    assert factor(2, 4, Phase.DECODE, slots=0.01) <= 2.0
