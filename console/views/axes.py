"""Ticks of linear and logarithmic axes. A logarithmic axis is drawn by plotting log10; labels stay in the unit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from planner.perf.operators.base import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisView:
    """One axis as drawn: range and ticks in drawn coordinates, labels in the metric's unit."""

    label: str
    log: bool
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]


def drawn(values: FloatArray, *, log: bool) -> FloatArray:
    """Values in drawn coordinates; what a logarithmic axis cannot show becomes NaN."""
    if not log:
        return values
    with np.errstate(divide="ignore", invalid="ignore"):
        result: FloatArray = np.where(values > 0.0, np.log10(np.where(values > 0.0, values, 1.0)), np.nan)
    return result


def axis_view(label: str, values: FloatArray, *, log: bool, count: int = 6) -> AxisView:
    """Axis that fits the finite `values` (in the metric's unit) with about `count` round ticks."""
    usable = values[np.isfinite(values) & ((values > 0.0) | (not log))]
    if usable.size == 0:
        return AxisView(label=label, log=log, low=0.0, high=1.0, ticks=())
    low, high = float(usable.min()), float(usable.max())
    if log:
        return _log_axis(label, low, high, count)
    if high == low:
        low, high = low - abs(low) * 0.1 - 1e-9, high + abs(high) * 0.1 + 1e-9
    pad = 0.03 * (high - low)
    low, high = (0.0 if 0.0 <= low < 0.35 * high else low - pad), high + pad
    step = _step(low, high, count)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    ticks = tuple((i * step, _label(i * step, step)) for i in range(first, last + 1))
    return AxisView(label=label, log=False, low=low, high=high, ticks=ticks)


def _log_axis(label: str, low: float, high: float, count: int) -> AxisView:
    pad = 0.03 * max(math.log10(high / low), 0.1)
    start, stop = math.log10(low) - pad, math.log10(high) + pad
    decades = range(math.floor(start), math.ceil(stop) + 1)
    for multiples in ((1.0, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        values = [m * 10.0**d for d in decades for m in multiples]
        shown = [v for v in values if start <= math.log10(v) <= stop]
        if len(shown) <= count + 2:
            break
    ticks = tuple((math.log10(v), _label(v, v)) for v in shown)
    return AxisView(label=f"{label} (log)", log=True, low=start, high=stop, ticks=ticks)


def _step(low: float, high: float, count: int) -> float:
    raw = (high - low) / max(count, 1)
    size = 10.0 ** math.floor(math.log10(raw))
    return next(m * size for m in (1.0, 2.0, 5.0, 10.0) if m * size >= raw * 0.999)


def _label(value: float, step: float) -> str:
    if abs(value) >= 10_000.0:
        return f"{value / 1000.0:g}k"
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    return f"{value:,.{digits}f}"
