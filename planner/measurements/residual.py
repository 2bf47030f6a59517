"""Gaussian process on what the factors leave over: Matern 5/2, one length per feature, numpy only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from planner.domain.calibration import Metric, ResidualProcess
from planner.measurements.predictor import FloatArray

MIN_POINTS: Final = 20
_JITTER: Final = 1e-10
# weak log-normal priors: effects reach over about one standard deviation of a feature and are about 8 % strong
_LOG_LENGTH: Final = (np.log(1.5), 0.7)
_LOG_SIGNAL: Final = (np.log(0.08), 0.7)
_LOG_NOISE: Final = (np.log(0.06), 0.5)
_SEARCH_STEPS: Final = (0.8, 0.4, 0.2, 0.1, 0.05)


def matern52(a: FloatArray, b: FloatArray, lengths: FloatArray) -> FloatArray:
    """Correlation ``[len(a), len(b)]`` of points with features ``[., d]``."""
    difference = (a[:, None, :] - b[None, :, :]) / lengths
    r = np.sqrt(5.0 * (difference**2).sum(axis=-1))
    result: FloatArray = (1.0 + r + r**2 / 3.0) * np.exp(-r)
    return result


def fit_process(metric: Metric, inputs: FloatArray, residuals: FloatArray) -> ResidualProcess:
    """Process for standardised `inputs` ``[n, d]`` and log `residuals` ``[n]`` without gaps.

    Hyperparameters maximise marginal likelihood times weak priors, by a deterministic pattern search in logs.
    """
    d = inputs.shape[1]
    start = np.array([_LOG_LENGTH[0]] * d + [_LOG_SIGNAL[0], _LOG_NOISE[0]])
    centre = start.copy()
    spread = np.array([_LOG_LENGTH[1]] * d + [_LOG_SIGNAL[1], _LOG_NOISE[1]])

    def score(p: FloatArray) -> float:
        prior = -0.5 * float((((p - centre) / spread) ** 2).sum())
        return prior + _log_likelihood(p, inputs, residuals)

    best = _pattern_search(score, start)
    lengths, signal, noise = np.exp(best[:d]), float(np.exp(best[d])), float(np.exp(best[d + 1]))
    lower = np.linalg.cholesky(_covariance(inputs, lengths, signal, noise))
    weights = np.linalg.solve(lower.T, np.linalg.solve(lower, residuals))
    return ResidualProcess(
        metric=metric,
        lengths=tuple(map(float, lengths)),
        signal_sd=signal,
        noise_sd=noise,
        inputs=tuple(tuple(map(float, row)) for row in inputs),
        weights=tuple(map(float, weights)),
        cholesky=tuple(tuple(map(float, row)) for row in lower),
    )


def evaluate_process(process: ResidualProcess, inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of the correction, ``[m]`` each, at standardised `inputs` ``[m, d]``."""
    known = np.array(process.inputs)
    cross = process.signal_sd**2 * matern52(inputs, known, np.array(process.lengths))
    mean = cross @ np.array(process.weights)
    half = np.linalg.solve(np.array(process.cholesky), cross.T)
    variance = np.maximum(process.signal_sd**2 - (half**2).sum(axis=0), 0.0)
    return mean, np.sqrt(variance)


def prior_covariance(process: ResidualProcess) -> FloatArray:
    """Covariance of the correction at the process's own inputs, before data and without noise."""
    inputs = np.array(process.inputs)
    return process.signal_sd**2 * matern52(inputs, inputs, np.array(process.lengths))


def isotonic(values: FloatArray, *, increasing: bool = True) -> FloatArray:
    """Closest monotone sequence in least squares (pool adjacent violators).

    Used on a calibrated curve over load: TPOT must never fall when concurrency rises, whatever the process says.
    """
    sign = 1.0 if increasing else -1.0
    means: list[float] = []
    counts: list[int] = []
    for v in sign * values:
        means.append(float(v))
        counts.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            total = counts[-2] + counts[-1]
            merged = (means[-2] * counts[-2] + means[-1] * counts[-1]) / total
            means[-2:], counts[-2:] = [merged], [total]
    return sign * np.repeat(means, counts)


def _covariance(inputs: FloatArray, lengths: FloatArray, signal: float, noise: float) -> FloatArray:
    n = len(inputs)
    return signal**2 * matern52(inputs, inputs, lengths) + (noise**2 + _JITTER) * np.eye(n)


def _log_likelihood(p: FloatArray, inputs: FloatArray, residuals: FloatArray) -> float:
    d = inputs.shape[1]
    covariance = _covariance(inputs, np.exp(p[:d]), float(np.exp(p[d])), float(np.exp(p[d + 1])))
    lower = np.linalg.cholesky(covariance)
    half = np.linalg.solve(lower, residuals)
    return -0.5 * float(half @ half) - float(np.log(np.diag(lower)).sum())


def _pattern_search(score: Callable[[FloatArray], float], start: FloatArray) -> FloatArray:
    best, value = start, score(start)
    for step in _SEARCH_STEPS:
        moved = True
        while moved:
            moved = False
            for j in range(len(best)):
                for direction in (step, -step):
                    candidate = best.copy()
                    candidate[j] += direction
                    tried = score(candidate)
                    if tried > value + 1e-6:
                        best, value, moved = candidate, tried, True
    return best
