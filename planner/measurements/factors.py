"""Maximum a posteriori fit of log factors: damped Gauss-Newton, a noise level learnt along, Laplace covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from planner.measurements.predictor import PRIOR_LOG_SD, FloatArray, Predictor

SE_FLOOR: Final = 0.03  # a single benchmark run repeats to about 3 %
NOISE_PRIOR: Final = 0.10  # what configurations deviate from any smooth model, before data
NOISE_PRIOR_WEIGHT: Final = 4.0  # as if that had been seen on this many residuals
_ROUNDS: Final = 4
_ITERATIONS: Final = 40
_TOLERANCE: Final = 1e-9

ConfigT = TypeVar("ConfigT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Measured logs ``[n, 3]`` in the order of `METRICS`; NaN where not measured. `log_se`: replicate standard errors."""

    log_values: FloatArray
    log_se: FloatArray

    @staticmethod
    def of(log_values: FloatArray) -> Observations:
        """Observations of single runs."""
        return Observations(log_values=log_values, log_se=np.zeros_like(log_values))

    def __len__(self) -> int:
        return len(self.log_values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A fit. Arrays: ``[n, 3]`` residuals (measured - predicted log) and variances, ``[n, 3, k]`` Jacobian at the optimum."""

    log_factors: FloatArray
    covariance: FloatArray
    residuals: FloatArray
    variances: FloatArray
    jacobian: FloatArray
    noise_sd: float


def fit_factors(
    predictor: Predictor[ConfigT], configurations: Sequence[ConfigT], observed: Observations
) -> Fit:
    """Factors that balance the data against priors N(0, 0.3^2).

    The residual of each metric has variance max(se, 3 %)^2 + noise^2; the noise is re-estimated from the residuals, with a
    prior that holds it near 10 % while points are few. What the data do not inform stays at its prior.
    """
    k = len(predictor.factors)
    theta = np.zeros(k)
    noise = NOISE_PRIOR
    variances = _variances(observed, noise)
    for _ in range(_ROUNDS):
        theta = _optimum(predictor, configurations, observed, variances=variances, start=theta)
        residuals = observed.log_values - predictor.predict(configurations, theta)
        updated = _noise(residuals, variances, predictor.jacobian(configurations, theta))
        if abs(updated - noise) < 1e-4:
            break
        noise = updated
        variances = _variances(observed, noise)
    jacobian = predictor.jacobian(configurations, theta)
    residuals = observed.log_values - predictor.predict(configurations, theta)
    precision = _information(jacobian, residuals, variances)
    return Fit(
        log_factors=theta,
        covariance=np.asarray(np.linalg.inv(precision), dtype=np.float64),
        residuals=residuals,
        variances=variances,
        jacobian=jacobian,
        noise_sd=noise,
    )


def _variances(observed: Observations, noise: float) -> FloatArray:
    return np.maximum(observed.log_se, SE_FLOOR) ** 2 + noise**2


def _noise(residuals: FloatArray, variances: FloatArray, jacobian: FloatArray) -> float:
    """Noise beyond the replicate error, from residuals corrected for the factors that were fitted to them."""
    known = np.isfinite(residuals)
    if not known.any():
        return NOISE_PRIOR
    information = _information(jacobian, residuals, variances)
    leverage = np.einsum("nmk,kl,nml->nm", jacobian, np.linalg.inv(information), jacobian) / variances
    free = float(np.clip(1.0 - leverage, 0.05, 1.0)[known].sum())
    squares = float((residuals[known] ** 2 - SE_FLOOR**2).sum())
    mean = (NOISE_PRIOR_WEIGHT * NOISE_PRIOR**2 + max(squares, 0.0)) / (NOISE_PRIOR_WEIGHT + free)
    return float(np.sqrt(mean))


def _information(jacobian: FloatArray, residuals: FloatArray, variances: FloatArray) -> FloatArray:
    weights = np.where(np.isfinite(residuals), 1.0 / variances, 0.0)
    safe = np.where(np.isfinite(jacobian), jacobian, 0.0)
    data: FloatArray = np.einsum("nm,nmk,nml->kl", weights, safe, safe)
    return data + np.eye(jacobian.shape[-1]) / PRIOR_LOG_SD**2


def _optimum(
    predictor: Predictor[ConfigT],
    configurations: Sequence[ConfigT],
    observed: Observations,
    *,
    variances: FloatArray,
    start: FloatArray,
) -> FloatArray:
    """Levenberg-Marquardt on the negative log posterior."""

    def residuals_at(theta: FloatArray) -> FloatArray:
        return observed.log_values - predictor.predict(configurations, theta)

    def loss(theta: FloatArray, residuals: FloatArray) -> float:
        known = np.isfinite(residuals)
        return float(
            0.5 * (residuals[known] ** 2 / variances[known]).sum() + 0.5 * (theta**2).sum() / PRIOR_LOG_SD**2
        )

    theta = start.copy()
    residuals = residuals_at(theta)
    current = loss(theta, residuals)
    damping = 1e-3
    for _ in range(_ITERATIONS):
        jacobian = predictor.jacobian(configurations, theta)
        information = _information(jacobian, residuals, variances)
        weighted = np.where(np.isfinite(residuals), residuals / variances, 0.0)
        gradient = np.einsum("nm,nmk->k", weighted, np.where(np.isfinite(jacobian), jacobian, 0.0))
        gradient -= theta / PRIOR_LOG_SD**2
        improved = False
        while damping < 1e6:
            step = np.linalg.solve(information + damping * np.diag(np.diag(information)), gradient)
            candidate = theta + step
            tried = residuals_at(candidate)
            value = loss(candidate, tried)
            if value <= current:
                improved = current - value > _TOLERANCE * max(1.0, abs(current))
                theta, residuals, current = candidate, tried, value
                damping = max(damping / 10.0, 1e-9)
                break
            damping *= 10.0
        if not improved:
            break
    return theta
