"""What was learnt from measurements: physical factors, a residual correction and intervals, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

_SAME: Final = 1e-6  # relative; what rounding does to an error that did not change


class Metric(StrEnum):
    """Quantities that are calibrated; residuals are logarithms of measured over predicted."""

    THROUGHPUT = "throughput"  # output tokens/s/GPU of the whole plan
    TPOT = "tpot"  # median over requests, ms
    TTFT = "ttft"  # median over requests, ms


class BandKind(StrEnum):
    """Where an interval comes from."""

    CONFORMAL = "conformal"  # leave-one-out scores of the user's own measurements
    PRIOR = "prior"  # too few measurements: the spread expected of an uncalibrated prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """A multiplier on one part of the step time: exp(log_value). 1 = the model was right."""

    name: str
    log_value: float
    log_sd: float  # posterior standard deviation
    prior_log_sd: float

    @property
    def moved(self) -> bool:
        """Whether the data moved the factor more than two posterior standard deviations from 1."""
        return abs(self.log_value) > 2.0 * self.log_sd


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Interval of one metric at one level: the truth lies within exp(+-log_half_width) of the prediction.

    `needed` is the number of measurements from which a conformal band of this level exists.
    """

    metric: Metric
    level: float
    kind: BandKind
    log_half_width: float
    needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualProcess:
    """Gaussian process (Matern 5/2, one length per dimension) on the log residual of one metric.

    `inputs` are standardised; `weights` = K^-1 y; `cholesky` is the lower factor of K, row by row.
    """

    metric: Metric
    lengths: tuple[float, ...]
    signal_sd: float
    noise_sd: float
    inputs: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    cholesky: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Where the measurements lie, in the calibration's feature space.

    `centre` and `scale` standardise a point; `radius` is the largest distance to the nearest other measurement that
    still counts as inside.
    """

    names: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    points: tuple[tuple[float, ...], ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    radius: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """Mean absolute percentage error of one metric before and after, the latter with each point left out in turn."""

    metric: Metric
    n: int
    mape_before: float
    mape_after_loo: float

    @property
    def worse(self) -> bool:
        """Whether left-out points are predicted worse than without the fit."""
        return self.mape_after_loo > self.mape_before * (1.0 + _SAME)

    @property
    def better(self) -> bool:
        """Whether left-out points are predicted better than without the fit."""
        return self.mape_after_loo < self.mape_before * (1.0 - _SAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationScope:
    """What a calibration may be used for; another GPU or engine version needs its own."""

    model: str
    gpu: str
    engine: str
    engine_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A fitted calibration. `covariance` is the Laplace covariance of the log factors, row by row."""

    scope: CalibrationScope
    factors: tuple[Factor, ...]
    covariance: tuple[tuple[float, ...], ...]
    bands: tuple[Band, ...]
    processes: tuple[ResidualProcess, ...]
    region: Region
    improvements: tuple[Improvement, ...]
    measurements: tuple[str, ...]  # content hashes of the measurements used
    created_at: datetime | None = None

    @property
    def worsened(self) -> tuple[Improvement, ...]:
        """Metrics whose leave-one-out error grew."""
        return tuple(i for i in self.improvements if i.worse)

    @property
    def trusted(self) -> bool:
        """Whether later predictions use it unasked: some metric is predicted better and none worse."""
        return not self.worsened and any(i.better for i in self.improvements)

    @property
    def distrust(self) -> str:
        """Why it is not trusted; empty when it is."""
        if self.trusted:
            return ""
        if not self.worsened:
            return f"{self.n} measurement(s) do not show that left-out ones are predicted better"
        grew = (f"{i.metric.value} {i.mape_before:.1%} to {i.mape_after_loo:.1%}" for i in self.worsened)
        return f"its leave-one-out error grew: {', '.join(grew)}"

    @property
    def log_factors(self) -> dict[str, float]:
        """Log factors by name, on top of the shipped calibration."""
        return {f.name: f.log_value for f in self.factors}

    def band(self, metric: Metric, level: float = 0.80) -> Band | None:
        """The interval of `metric` at `level`, if there is one."""
        return next((b for b in self.bands if b.metric is metric and abs(b.level - level) < 1e-9), None)

    @property
    def n(self) -> int:
        """Measurements used."""
        return len(self.measurements)

    def factor(self, name: str) -> Factor:
        """The factor called `name`; KeyError when there is none."""
        for f in self.factors:
            if f.name == name:
                return f
        raise KeyError(name)
