"""A small world with a known truth: an analytic model, and a reality whose parts are off by some factors plus noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from planner.measurements.predictor import FloatArray, Parts, PartsPredictor

FACTORS = ("compute", "weights", "kv", "communication", "host")
FEATURES = ("batch per rank", "context", "EP width", "disaggregated")


@dataclass(frozen=True, slots=True)
class Point:
    """One configuration: requests per rank, prompt and output tokens, EP width, and whether prefill is apart."""

    batch: int
    isl: int
    osl: int
    ep: int
    disaggregated: bool


def space() -> list[Point]:
    return [
        Point(b, isl, osl, ep, d)
        for b, (isl, osl), ep, d in product(
            (8, 16, 32, 64, 96, 128, 192, 256),
            ((1024, 1024), (2048, 512), (4096, 1024), (8192, 1024), (2048, 2048)),
            (8, 16, 32, 64),
            (False, True),
        )
    ]


def parts(points: Sequence[Point]) -> Parts:
    b = np.array([p.batch for p in points], dtype=float)
    isl = np.array([p.isl for p in points], dtype=float)
    osl = np.array([p.osl for p in points], dtype=float)
    ep = np.array([p.ep for p in points], dtype=float)
    apart = np.array([p.disaggregated for p in points], dtype=float)
    zero = np.zeros_like(b)
    step = np.stack(
        [
            0.02 * b + (1.0 - apart) * 0.012 * isl * b / osl,
            4.0 + 96.0 / ep,
            b * (isl + osl / 2.0) * 3.0e-5,
            0.8 + 0.03 * b * np.log2(ep) / 2.0,
            zero + 2.5,
        ],
        axis=1,
    )
    prefill = np.stack(
        [0.05 * isl, 3.0 + 30.0 / ep, 1e-7 * isl**2, 0.004 * isl * np.log2(ep), zero + 5.0], axis=1
    )
    return Parts(
        prefill_ms=prefill,
        step_ms=step,
        fixed_ttft_ms=20.0 + (1.0 - apart) * 0.6 * b,
        tokens_per_step=zero + 1.0,
        osl=osl,
        concurrency_per_gpu=b * (1.0 - 0.3 * apart),
    )


def features(points: Sequence[Point]) -> FloatArray:
    return np.array(
        [[np.log(p.batch), np.log(p.isl + p.osl / 2), np.log(p.ep), float(p.disaggregated)] for p in points]
    )


def predictor() -> PartsPredictor[Point]:
    return PartsPredictor(parts, describe=features, factors=FACTORS, features=FEATURES)


@dataclass(frozen=True)
class Truth:
    """A reality: log factors, and log noise of every point of the space that no smooth model explains."""

    log_factors: FloatArray
    noise: FloatArray

    @staticmethod
    def draw(rng: np.random.Generator, n: int, *, factor_sd: float = 0.33, noise_sd: float = 0.08) -> Truth:
        return Truth(
            log_factors=rng.normal(0.0, factor_sd, len(FACTORS)), noise=rng.normal(0.0, noise_sd, (n, 3))
        )

    def values(self, points: Sequence[Point]) -> FloatArray:
        """Log values of the whole space."""
        return predictor().predict(points, self.log_factors) + self.noise
