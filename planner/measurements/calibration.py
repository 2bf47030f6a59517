"""Calibrate a performance model to measurements: factors, a residual process when it helps, honest bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeVar

import numpy as np

from planner.domain.calibration import (
    Band,
    Calibration,
    CalibrationScope,
    Factor,
    Improvement,
    Metric,
    ResidualProcess,
)
from planner.domain.errors import InputError, Issue
from planner.domain.measurement import Measurement
from planner.measurements.factors import Fit, Observations, fit_factors
from planner.measurements.intervals import (
    LEVELS,
    WIDENING,
    band,
    extrapolates,
    leave_one_out,
    region_of,
    standardised,
)
from planner.measurements.predictor import METRICS, FloatArray, Predictor
from planner.measurements.residual import MIN_POINTS, evaluate_process, fit_process, prior_covariance

KEEP_PROCESS_BELOW: Final = 0.9  # of the leave-one-out error without it

ConfigT = TypeVar("ConfigT")


def observations(measurements: Sequence[Measurement]) -> Observations:
    """Log throughput (output tokens/s per GPU), TPOT and TTFT (median, else mean) of measurements."""

    def log(value: float | None) -> float:
        return float(np.log(value)) if value is not None and value > 0 else float("nan")

    rows = [
        (
            log(m.result.output_tok_s_per_gpu),
            log(m.result.tpot.typical_ms),
            log(m.result.ttft.typical_ms),
        )
        for m in measurements
    ]
    return Observations.of(np.array(rows, dtype=np.float64).reshape(len(rows), len(METRICS)))


def calibrate(
    predictor: Predictor[ConfigT],
    configurations: Sequence[ConfigT],
    observed: Observations,
    *,
    scope: CalibrationScope,
    measurements: tuple[str, ...],
    created_at: datetime | None = None,
) -> Calibration:
    """Fit to `observed`, one row per configuration. `measurements` are their content hashes.

    InputError ``calibration.no_points`` without any usable value.
    """
    known = np.isfinite(observed.log_values)
    if not known.any():
        raise InputError(_no_points(len(observed)))
    fit = fit_factors(predictor, configurations, observed)
    region = region_of(predictor.features, predictor.describe(configurations))
    inputs = standardised(region, predictor.describe(configurations))
    prior = np.diag(predictor.prior_log_sd**2.0)
    left_out = _leave_one_out(fit, prior, processes=())
    processes, left_out = _residual_processes(fit, prior, inputs, left_out=left_out)
    before = observed.log_values - predictor.predict(configurations, np.zeros(len(predictor.factors)))
    return Calibration(
        scope=scope,
        factors=tuple(
            Factor(
                name=name,
                log_value=float(value),
                log_sd=float(np.sqrt(variance)),
                prior_log_sd=float(prior),
            )
            for name, value, variance, prior in zip(
                predictor.factors,
                fit.log_factors,
                np.diag(fit.covariance),
                predictor.prior_log_sd,
                strict=True,
            )
        ),
        covariance=tuple(tuple(map(float, row)) for row in fit.covariance),
        bands=_bands(fit, left_out),
        processes=processes,
        region=region,
        improvements=tuple(
            Improvement(
                metric=metric,
                n=int(known[:, j].sum()),
                mape_before=mape(before[known[:, j], j]),
                mape_after_loo=mape(left_out[known[:, j], j]),
            )
            for j, metric in enumerate(METRICS)
            if known[:, j].any()
        ),
        measurements=measurements,
        created_at=created_at,
    )


def mape(log_residuals: FloatArray) -> float:
    """Mean absolute percentage error of predictions whose log residuals (measured - predicted) these are."""
    return float(np.abs(np.exp(-log_residuals) - 1.0).mean())


def _leave_one_out(fit: Fit, prior: FloatArray, *, processes: tuple[ResidualProcess, ...]) -> FloatArray:
    """Residuals ``[n, 3]`` with each measurement left out, from the model linearised at the optimum."""
    n, m, k = fit.jacobian.shape
    known = np.isfinite(fit.residuals).ravel()
    flat = np.where(np.isfinite(fit.jacobian), fit.jacobian, 0.0).reshape(n * m, k)
    covariance = flat @ prior @ flat.T + np.diag(fit.variances.ravel())
    for process in processes:
        j = METRICS.index(process.metric)
        # the process was fitted on the measurements that have this metric
        index = np.flatnonzero(np.isfinite(fit.residuals[:, j])) * m + j
        covariance[np.ix_(index, index)] += prior_covariance(process)
        covariance[index, index] += process.noise_sd**2 - fit.variances.ravel()[index]
    targets = np.where(np.isfinite(fit.residuals), fit.residuals, 0.0).ravel() + flat @ fit.log_factors
    groups = np.repeat(np.arange(n), m)
    result = np.full(n * m, np.nan)
    result[known] = leave_one_out(covariance[np.ix_(known, known)], targets[known], groups[known])
    return result.reshape(n, m)


def _residual_processes(
    fit: Fit, prior: FloatArray, inputs: FloatArray, *, left_out: FloatArray
) -> tuple[tuple[ResidualProcess, ...], FloatArray]:
    """Processes that lower the leave-one-out error of their metric by more than a tenth, and the residuals with them."""
    kept: list[ResidualProcess] = []
    for j, metric in enumerate(METRICS):
        known = np.isfinite(fit.residuals[:, j])
        if int(known.sum()) < MIN_POINTS:
            continue
        process = fit_process(metric, inputs[known], fit.residuals[known, j])
        tried = _leave_one_out(fit, prior, processes=(process,))
        error, without = (float(np.abs(r[known, j]).mean()) for r in (tried, left_out))
        if error < KEEP_PROCESS_BELOW * without:
            kept.append(process)
    processes = tuple(kept)
    return processes, _leave_one_out(fit, prior, processes=processes) if processes else left_out


def _bands(fit: Fit, left_out: FloatArray) -> tuple[Band, ...]:
    safe = np.where(np.isfinite(fit.jacobian), fit.jacobian, 0.0)
    spread = np.einsum("nmk,kl,nml->nm", safe, fit.covariance, safe) + fit.noise_sd[None, :] ** 2
    return tuple(
        band(
            metric,
            level,
            scores=left_out[np.isfinite(left_out[:, j]), j],
            prior_log_sd=float(np.sqrt(spread[:, j].mean())),
        )
        for j, metric in enumerate(METRICS)
        for level in LEVELS
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedPredictions:
    """Calibrated logs ``[n, 3]`` with the half-width of their band; `extrapolates`: features that leave the region."""

    log_values: FloatArray
    log_half_widths: FloatArray
    extrapolates: tuple[tuple[str, ...], ...]
    band_kinds: tuple[str, ...]  # per metric


class CalibratedModel(Generic[ConfigT]):
    """A predictor with a calibration applied."""

    def __init__(self, calibration: Calibration, predictor: Predictor[ConfigT]) -> None:
        names = tuple(f.name for f in calibration.factors)
        if names != predictor.factors or calibration.region.names != predictor.features:
            raise InputError(_other_model(names, predictor.factors))
        self.calibration = calibration
        self.predictor = predictor
        self.log_factors: FloatArray = np.array([f.log_value for f in calibration.factors])

    def predict(self, configurations: Sequence[ConfigT], *, level: float = 0.80) -> CalibratedPredictions:
        """Predictions with bands of `level` (one of `LEVELS`); bands are doubled outside the calibrated region."""
        values = self.predictor.predict(configurations, self.log_factors)
        features = self.predictor.describe(configurations)
        inputs = standardised(self.calibration.region, features)
        outside = extrapolates(self.calibration.region, features)
        for process in self.calibration.processes:
            mean, _ = evaluate_process(process, inputs)
            values[:, METRICS.index(process.metric)] += mean
        bands = {b.metric: b for b in self.calibration.bands if abs(b.level - level) < 1e-9}
        widths = np.array([bands[m].log_half_width for m in METRICS])
        factor = np.array([WIDENING if o else 1.0 for o in outside])
        return CalibratedPredictions(
            log_values=values,
            log_half_widths=factor[:, None] * widths[None, :],
            extrapolates=outside,
            band_kinds=tuple(bands[m].kind.value for m in METRICS),
        )


def provenance_text(calibration: Calibration) -> str:
    """How a calibrated number is labelled: ``calibrated (n=12)``."""
    return f"calibrated (n={calibration.n})"


def improvement(calibration: Calibration, metric: Metric) -> Improvement | None:
    """The improvement of one metric, if it was measured."""
    return next((i for i in calibration.improvements if i.metric is metric), None)


def _no_points(n: int) -> Issue:
    return Issue(
        code="calibration.no_points",
        what=f"none of {n} measurements has a token rate, a TPOT or a TTFT",
        why="there is nothing to fit to",
        fix="import results of a streaming benchmark: planner measurements import FILE",
    )


def _other_model(stored: tuple[str, ...], current: tuple[str, ...]) -> Issue:
    return Issue(
        code="calibration.other_model",
        what=f"the stored calibration has the factors {', '.join(stored)}",
        why=f"this version of the performance model has {', '.join(current)}",
        fix="fit it again: planner calibrate",
    )
