"""Synthetic truths.

A truth is the model with hidden factors and noise per configuration, known at every point: it measures a search, because
the best possible front is known too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.perf.operators.base import FloatArray
from planner.search.studies.evaluate import Observation
from planner.search.studies.model import FactorModel
from planner.search.studies.space import SearchSpace

HIDDEN: Final = ("compute", "weights", "attention", "communication")


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What happens at every base point of a space, ``[base points]`` each; rates are per owned GPU."""

    rate: FloatArray
    tpot_ms: FloatArray
    ttft_ms: FloatArray

    def observe(self, base: int) -> Observation:
        """The observation of one base point."""
        return Observation(
            output_tok_s_per_gpu=float(self.rate[base]),
            tpot_ms=float(self.tpot_ms[base]),
            ttft_ms=float(self.ttft_ms[base]),
        )

    def objectives(self, space: SearchSpace) -> FloatArray:
        """Throughput and tok/s/user ``[base points, 2]``; zero where a target is missed."""
        slo = space.problem.slo
        met = np.ones(len(self.rate), dtype=bool)
        if slo.ttft_ms is not None:
            met &= self.ttft_ms <= slo.ttft_ms
        if slo.tpot_limit_ms is not None:
            met &= self.tpot_ms <= slo.tpot_limit_ms
        values = np.column_stack([self.rate, 1000.0 / self.tpot_ms])
        result: FloatArray = np.where(met[:, None], values, 0.0)
        return result


def draw_log_factors(rng: np.random.Generator) -> dict[str, float]:
    """Log factors of four kinds of time, each with a standard deviation of its own between 15 and 35 %."""
    sd = rng.uniform(0.15, 0.35, len(HIDDEN))
    return dict(zip(HIDDEN, map(float, sd * rng.standard_normal(len(HIDDEN))), strict=True))


def synthetic_truth(
    space: SearchSpace, log_factors: Mapping[str, float], *, noise_sd: float, rng: np.random.Generator
) -> Truth:
    """The model with `log_factors` and lognormal noise: one draw per layout and metric, the same at all loads.

    A layout is the strategy, the widths and counts of the groups, the backends and DBO. What remains (batch budgets, KV
    format, EPLB, DCP) adds draws a third as strong: near-duplicates misbehave alike.
    """
    at = FactorModel(space).solve(np.arange(space.base_size), log_factors)
    layouts = space.layouts()
    own = rng.standard_normal((len(space.configs), 3))
    shared = rng.standard_normal((int(layouts.max()) + 1, 3))[layouts]
    noise = np.exp(noise_sd * (np.sqrt(8.0) * shared + own) / 3.0)[space.config]
    return Truth(
        rate=at.rate * noise[:, 0], tpot_ms=at.tpot_ms * noise[:, 1], ttft_ms=at.ttft_ms * noise[:, 2]
    )
