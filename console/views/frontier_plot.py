"""The plot of the frontier page in drawn coordinates: axes, series, cloud, staircase, intervals, targets."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from console.views.axes import AxisView, axis_view, drawn
from console.views.frontier_model import Band, FrontierOptions, Index, Series, SloLine
from console.views.frontier_table import SAMPLE, groups_of
from console.views.metrics import METRICS, Axis, figure
from console.views.points import PlanPoints
from planner.domain.evaluation import Evaluation
from planner.perf.operators.base import FloatArray

MAX_CLOUD: Final = 3000
MAX_BANDS: Final = 24
CLOUD_CELLS: Final = (240, 120)


def axes_of(points: PlanPoints, options: FrontierOptions, members: Index) -> tuple[AxisView, AxisView]:
    """Axes fit the fronts, with a little room for the cloud below them."""
    result = []
    for axis, log in ((options.x, options.log_x), (options.y, options.log_y)):
        result.append(axis_view(METRICS[axis].label, points.values(axis, members), log=log))
    return result[0], result[1]


def _coordinates(points: PlanPoints, options: FrontierOptions, index: Index) -> tuple[FloatArray, FloatArray]:
    return (
        drawn(points.values(options.x, index), log=options.log_x),
        drawn(points.values(options.y, index), log=options.log_y),
    )


def series_of(
    points: PlanPoints,
    options: FrontierOptions,
    index: Index,
    code: NDArray[np.int64],
    names: tuple[str, ...],
) -> tuple[Series, ...]:
    """`index` as one series per group, without points that a logarithmic axis cannot show."""
    x, y = _coordinates(points, options, index)
    series = []
    for group in np.unique(code):
        mask = (code == group) & np.isfinite(x) & np.isfinite(y)
        if mask.any():
            series.append(
                Series(
                    label=names[group],
                    group=int(group),
                    points=tuple(index[mask].tolist()),
                    x=tuple(x[mask].tolist()),
                    y=tuple(y[mask].tolist()),
                )
            )
    return tuple(series)


def cloud_of(
    points: PlanPoints,
    options: FrontierOptions,
    index: Index,
    x_axis: AxisView,
    y_axis: AxisView,
    names: tuple[str, ...],
) -> tuple[Series, ...]:
    """Dominated points inside the axes, at most one per cell of a fine grid and MAX_CLOUD in all."""
    index = index[:: index.size // SAMPLE + 1]
    x, y = _coordinates(points, options, index)
    inside = (x >= x_axis.low) & (x <= x_axis.high) & (y >= y_axis.low) & (y <= y_axis.high)
    index, x, y = index[inside], x[inside], y[inside]
    columns, lines = CLOUD_CELLS
    cell = np.floor((x - x_axis.low) / (x_axis.high - x_axis.low) * columns).astype(np.int64) * (lines + 1)
    cell += np.floor((y - y_axis.low) / (y_axis.high - y_axis.low) * lines).astype(np.int64)
    _, kept = np.unique(cell, return_index=True)
    kept = kept[:: max(1, -(-kept.size // MAX_CLOUD))]
    _, code = groups_of(points, options.colour_by, index[kept])
    return series_of(points, options, index[kept], code, names)


def staircase_of(
    points: PlanPoints, options: FrontierOptions, overall: Index
) -> tuple[tuple[float, float], ...]:
    """The edge of the region that is dominated: no interpolation between points."""
    x, y = _coordinates(points, options, overall)
    usable = np.isfinite(x) & np.isfinite(y)
    order = np.argsort(x[usable], kind="stable")
    xs, ys = x[usable][order], y[usable][order]
    same = METRICS[options.x].higher_is_better
    corners: list[tuple[float, float]] = []
    for i in range(xs.size):
        if i:
            corner = (xs[i - 1], ys[i]) if same else (xs[i], ys[i - 1])
            corners.append((float(corner[0]), float(corner[1])))
        corners.append((float(xs[i]), float(ys[i])))
    return tuple(corners)


def bands_of(points: PlanPoints, options: FrontierOptions, overall: Index) -> tuple[Band, ...]:
    """Intervals of at most MAX_BANDS front points, evenly chosen; none for an axis that is an input."""
    chosen = overall[:: overall.size // MAX_BANDS + 1]
    x, _ = _coordinates(points, options, chosen)
    bands = []
    for at, i in zip(x.tolist(), chosen.tolist(), strict=True):
        limits = interval_on(points.evaluation_at(i), options.y)
        if limits is not None and np.isfinite(at):
            low, high = drawn(np.array(limits), log=options.log_y).tolist()
            bands.append(Band(point=i, x=at, low=low, high=high))
    return tuple(bands)


def interval_on(evaluation: Evaluation, axis: Axis) -> tuple[float, float] | None:
    """The 80 % interval of a metric; those of derived metrics follow from what they are derived from."""
    rate, tpot = evaluation.output_tok_s_per_gpu, evaluation.tpot_ms
    if axis is Axis.RATE:
        return rate.low, rate.high
    if axis is Axis.TTFT:
        return evaluation.ttft_ms.low, evaluation.ttft_ms.high
    if axis is Axis.TPOT:
        return tpot.low, tpot.high
    if axis is Axis.TOK_S_USER:
        return 1000.0 / tpot.high, 1000.0 / tpot.low
    cost = evaluation.usd_per_m_output_tokens
    if axis is Axis.COST and cost is not None:
        return cost * rate.value / rate.high, cost * rate.value / rate.low
    return None


def slo_lines_of(options: FrontierOptions) -> tuple[SloLine, ...]:
    """The targets that limit an axis shown."""
    slo = options.slo
    limit = slo.tpot_limit_ms
    limits = {
        Axis.TTFT: slo.ttft_ms,
        Axis.TPOT: limit,
        Axis.TOK_S_USER: 1000.0 / limit if limit is not None else None,
    }
    lines = []
    for axis, log, vertical in ((options.x, options.log_x, True), (options.y, options.log_y, False)):
        value = limits.get(axis)
        if value is not None:
            sign = "≥" if METRICS[axis].higher_is_better else "≤"
            at = float(drawn(np.array([value]), log=log)[0])
            lines.append(
                SloLine(vertical=vertical, at=at, label=f"{METRICS[axis].short} {sign} {figure(value)}")
            )
    return tuple(lines)
