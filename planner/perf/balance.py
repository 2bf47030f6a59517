"""How unevenly tokens fall on experts, and what that does to the hottest rank of an EP group.

The hottest rank's load relative to the mean is modelled as two independent spreads, each times the expected maximum
of `ep` normal deviates: popularity of experts (averaged over the experts a rank holds) and chance (slots per rank).
Popularity spread is fitted to LMSYS' DeepSeek deployment on 96 H100 (2025-05): without balancing 1.49x at EP32 in
prefill and 2.54x at EP72 in decode (256 experts + 32 redundant); EPLB leaves about a fifth of it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import numpy as np

from planner.perf.operators.base import FloatArray


class Phase(StrEnum):
    """Which traffic an engine step serves; routing is more even over long prompts."""

    PREFILL = "prefill"
    DECODE = "decode"


POPULARITY_CV: Final = {Phase.PREFILL: 0.53, Phase.DECODE: 1.05}
EPLB_RESIDUAL: Final = 0.2
CHANCE_WEIGHT: Final = (
    0.35  # slots of one token batch are spread over layers and steps; only part hits one step
)


def expected_max_deviate(ranks: int) -> float:
    """Expected maximum of `ranks` standard normal deviates, Gaussian tail approximation; 0 for one rank."""
    return float(np.sqrt(2.0 * np.log(ranks))) if ranks > 1 else 0.0


def hottest_rank_factor(
    *,
    slots: FloatArray,
    ep: int,
    experts_local: float,
    phase: Phase,
    eplb: bool,
    popularity_cv: float | None = None,
) -> FloatArray:
    """Load of the hottest rank over the mean, >= 1, for `slots` token-expert pairs per rank (any shape).

    `popularity_cv` overrides the phase's spread, e.g. 0 for benchmarks that force balanced routing.
    """
    if ep <= 1:
        return np.ones_like(slots)
    peak = expected_max_deviate(ep)
    cv = POPULARITY_CV[phase] if popularity_cv is None else popularity_cv
    if eplb:
        cv *= EPLB_RESIDUAL
    popularity = cv * peak / np.sqrt(max(experts_local, 1.0))
    chance = CHANCE_WEIGHT * peak / np.sqrt(np.maximum(slots, 1.0))
    factor: FloatArray = np.minimum(1.0 + np.hypot(popularity, chance), float(ep))
    return factor


def popularity_factor(
    *, ep: int, experts_local: float, phase: Phase, eplb: bool, popularity_cv: float | None = None
) -> float:
    """`hottest_rank_factor` without chance: what popular experts alone put on one rank's link, >= 1."""
    endless = np.array([1e18])
    factor = hottest_rank_factor(
        slots=endless, ep=ep, experts_local=experts_local, phase=phase, eplb=eplb, popularity_cv=popularity_cv
    )
    return round(float(factor[0]), 6)
