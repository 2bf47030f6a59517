"""How wide the 80 % interval of a prediction is, before any measurement of the user's narrows it.

Widths are relative log half-widths by the weakest source of a significant term. They are *prior* bands: the calibration
pack in `profiles/calibration/` replaces them by conformal ones where it has data.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Final

from planner.domain.provenance import Estimate, Provenance
from planner.perf.calibration import far_half_width


class Metric(StrEnum):
    """Predicted quantities that carry an interval."""

    TTFT = "ttft_ms"
    TPOT = "tpot_ms"
    OUTPUT_RATE = "output_tok_s_per_gpu"


HALF_WIDTH: Final = {
    Provenance.MEASURED: 0.03,
    Provenance.CALIBRATED: 0.12,
    Provenance.SIMULATED: 0.18,
    Provenance.OPERATOR_TABLE: 0.20,
    Provenance.FITTED: 0.25,
    Provenance.DATASHEET: 0.40,
}
METRIC_FACTOR: Final = {Metric.TPOT: 1.0, Metric.OUTPUT_RATE: 1.0, Metric.TTFT: 1.8}
EXTRAPOLATION_FACTOR: Final = 1.5


_COLUMN: Final = {
    Metric.TTFT: "ttft_ms_p50",
    Metric.TPOT: "tpot_ms_p50",
    Metric.OUTPUT_RATE: "output_tok_s_per_gpu",
}


def calibrated_interval(value: float, metric: Metric, *, disaggregated: bool, extrapolates: bool) -> Estimate:
    """`value` with the 80 % band seen on measured rows whose whole (model, GPU, engine) group was left out of the fit.

    Falls back to the prior band of calibrated figures without a pack.
    """
    half = far_half_width(_COLUMN[metric], disaggregated=disaggregated)
    if half is None:
        return prior_interval(value, metric, Provenance.CALIBRATED, extrapolates=extrapolates)
    half *= EXTRAPOLATION_FACTOR if extrapolates else 1.0
    return Estimate(value, value * math.exp(-half), value * math.exp(half))


def prior_interval(value: float, metric: Metric, provenance: Provenance, *, extrapolates: bool) -> Estimate:
    """`value` with its prior 80 % band, symmetric in the logarithm."""
    half = HALF_WIDTH[provenance] * METRIC_FACTOR[metric] * (EXTRAPOLATION_FACTOR if extrapolates else 1.0)
    return Estimate(value, value * math.exp(-half), value * math.exp(half))
