"""Maximum a posteriori fit of log factors: damped Gauss-Newton, a noise level learnt along, Laplace covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from planner.measurements.predictor import FloatArray, Predictor

SE_FLOOR: Final = 0.03  # a single benchmark run repeats to about 3 %
NOISE_PRIOR: Final = 0.10  # what configurations deviate from any smooth model, before data
NOISE_PRIOR_WEIGHT: Final = 4.0  # as if that had been seen on this many residuals
TAIL: Final = 5.0  # degrees of freedom of the residuals: runs that went wrong count less
_ROUNDS: Final = 8
_ITERATIONS: Final = 8  # per round; the next one starts where this one stopped
_SETTLED: Final = 1e-4  # gain in log posterior below which a step is not worth another Jacobian
# of a metric's log per log factor: from where on, and how much of the excess, a straight line may be wrong by
STEEP: Final = 1.5
CURVATURE: Final = 0.2
_STILL: Final = 2e-2  # move of the log factors between rounds that counts as none

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
    noise_sd: FloatArray  # [3]


def fit_factors(
    predictor: Predictor[ConfigT], configurations: Sequence[ConfigT], observed: Observations
) -> Fit:
    """Factors that balance the data against the predictor's priors, N(0, 0.3^2) each unless it says otherwise.

    The residual of each metric has variance max(se, 3 %)^2 + noise^2. The noise is re-estimated per metric from the
    residuals, with a prior that holds it near 10 % while points are few: a metric the model explains badly (TTFT in a
    queue) must not bend the factors of one it explains well. Residuals have the tails of a Student t, so that a run that
    went wrong loses weight. What the data do not inform stays at its prior.
    """
    prior = np.diag(predictor.prior_log_sd**-2.0)
    theta = np.zeros(len(predictor.factors))
    noise = _first_noise(observed.log_values - predictor.predict(configurations, theta))
    bent = bend_sd(predictor.jacobian(configurations, theta)) ** 2
    variances = _variances(observed, noise) + bent
    for _ in range(_ROUNDS):
        previous = theta
        theta, residuals, jacobian = _optimum(
            predictor, configurations, observed, variances=variances, prior=prior, start=theta
        )
        plain = _variances(observed, noise)
        noise = _noise(residuals, variances / plain, variances, jacobian=jacobian, prior=prior)
        bent = bend_sd(jacobian) ** 2
        variances = _tailed(residuals, _variances(observed, noise) + bent)
        if np.abs(theta - previous).max() < _STILL:
            break
    jacobian = predictor.jacobian(configurations, theta)
    return Fit(
        log_factors=theta,
        covariance=np.asarray(np.linalg.inv(_information(jacobian, residuals, variances, prior=prior))),
        residuals=residuals,
        variances=variances,
        jacobian=jacobian,
        noise_sd=noise,
    )


def _first_noise(residuals: FloatArray) -> FloatArray:
    """A start for the noise: the median residual before any fit, so that a bad metric does not lead the first round."""
    return np.array(
        [
            max(NOISE_PRIOR, float(np.median(np.abs(column[np.isfinite(column)]))))
            if np.isfinite(column).any()
            else NOISE_PRIOR
            for column in residuals.T
        ]
    )


def _tailed(residuals: FloatArray, variances: FloatArray) -> FloatArray:
    """Variances with those of outliers raised: the Gaussian that a Student t acts like at its residual."""
    squares = np.where(np.isfinite(residuals), residuals**2 / variances, 0.0)
    # never below the plain variance: small residuals are no reason to trust a run more than its repeatability
    result: FloatArray = variances * np.maximum((TAIL + squares) / (TAIL + 1.0), 1.0)
    return result


def _variances(observed: Observations, noise: FloatArray) -> FloatArray:
    result: FloatArray = np.maximum(observed.log_se, SE_FLOOR) ** 2 + noise[None, :] ** 2
    return result


def bend_sd(jacobian: FloatArray) -> FloatArray:
    """Deviation ``[…, 3]`` of what a straight line leaves out, from the Jacobian ``[…, 3, k]``.

    Near saturation TTFT changes many times faster than a factor.

    Without it a run in a long queue would pin a factor to the third digit, and to a wrong value.
    """
    steep = np.linalg.norm(np.where(np.isfinite(jacobian), jacobian, 0.0), axis=-1)
    result: FloatArray = CURVATURE * np.maximum(steep - STEEP, 0.0)
    return result


def _noise(
    residuals: FloatArray,
    excess: FloatArray,
    variances: FloatArray,
    *,
    jacobian: FloatArray,
    prior: FloatArray,
) -> FloatArray:
    """Noise beyond the replicate error ``[3]``, from residuals corrected for the factors that were fitted to them.

    `excess` ``[n, 3]``: by how much the variance of each residual is raised as an outlier; its square counts less by that.
    """
    known = np.isfinite(residuals)
    information = _information(jacobian, residuals, variances, prior=prior)
    safe = np.where(np.isfinite(jacobian), jacobian, 0.0)
    leverage = np.einsum("nmk,kl,nml->nm", safe, np.linalg.inv(information), safe) / variances
    free = np.where(known, np.clip(1.0 - leverage, 0.05, 1.0), 0.0).sum(axis=0)
    squares = np.where(known, residuals**2 / excess - SE_FLOOR**2, 0.0).sum(axis=0)
    mean = (NOISE_PRIOR_WEIGHT * NOISE_PRIOR**2 + np.maximum(squares, 0.0)) / (NOISE_PRIOR_WEIGHT + free)
    result: FloatArray = np.sqrt(mean)
    return result


def _information(
    jacobian: FloatArray, residuals: FloatArray, variances: FloatArray, *, prior: FloatArray
) -> FloatArray:
    weights = np.where(np.isfinite(residuals), 1.0 / variances, 0.0)
    safe = np.where(np.isfinite(jacobian), jacobian, 0.0)
    data: FloatArray = np.einsum("nm,nmk,nml->kl", weights, safe, safe)
    return data + prior


def _optimum(
    predictor: Predictor[ConfigT],
    configurations: Sequence[ConfigT],
    observed: Observations,
    *,
    variances: FloatArray,
    prior: FloatArray,
    start: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Levenberg-Marquardt on the negative log posterior: optimum, residuals there, Jacobian a last small step before."""

    def residuals_at(theta: FloatArray) -> FloatArray:
        return observed.log_values - predictor.predict(configurations, theta)

    def loss(theta: FloatArray, residuals: FloatArray) -> float:
        known = np.isfinite(residuals)
        return float(0.5 * (residuals[known] ** 2 / variances[known]).sum() + 0.5 * theta @ prior @ theta)

    theta = start.copy()
    residuals = residuals_at(theta)
    current = loss(theta, residuals)
    damping = 1e-3
    for _ in range(_ITERATIONS):
        jacobian = predictor.jacobian(configurations, theta)
        information = _information(jacobian, residuals, variances, prior=prior)
        weighted = np.where(np.isfinite(residuals), residuals / variances, 0.0)
        gradient = np.einsum("nm,nmk->k", weighted, np.where(np.isfinite(jacobian), jacobian, 0.0))
        gradient -= prior @ theta
        improved = False
        while damping < 1e6:
            step = np.linalg.solve(information + damping * np.diag(np.diag(information)), gradient)
            candidate = theta + step
            tried = residuals_at(candidate)
            value = loss(candidate, tried)
            if value <= current:
                improved = current - value > _SETTLED
                theta, residuals, current = candidate, tried, value
                damping = max(damping / 10.0, 1e-9)
                break
            damping *= 10.0
        if not improved:
            break
    return theta, residuals, jacobian
