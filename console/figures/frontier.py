"""The frontier as a figure: the front's edge by strategy, front points, dominated points, intervals, targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

from console.figures.plain import plain
from console.figures.theme import colour, symbol
from console.views.axes import AxisView
from console.views.frontier_model import FrontierView, Series
from console.views.metrics import METRICS

FRONT_SIZE = 9
CLOUD_SIZE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredMark:
    """A measured point in the metrics of the two axes, with what to say about it."""

    x: float
    y: float
    label: str


def frontier_figure(view: FrontierView, measured: Sequence[MeasuredMark] = ()) -> dict[str, Any]:
    """The plotly figure of `view` as plain data, with measured points over it. Points carry their number as ``customdata``.

    Axes are in the metric's own unit, logarithmic where asked, so zooming keeps round ticks.
    """
    log_x, log_y = view.options.log_x, view.options.log_y
    figure = go.Figure()
    for series in view.cloud:
        figure.add_trace(_markers(series, log_x, log_y, front=False))
    for segment in _edge(view):
        figure.add_trace(segment)
    if view.bands:
        figure.add_trace(_bands(view))
    for series in view.fronts:
        figure.add_trace(_markers(series, log_x, log_y, front=True))
    if view.best is not None:
        figure.add_trace(_ring(view))
    if measured:
        figure.add_trace(_measured(measured))
    figure.update_layout(_layout(view))
    return plain(figure)


def _unit(values: Sequence[float], log: bool) -> np.ndarray[Any, np.dtype[np.float32]]:
    array = np.asarray(values, dtype=np.float64)
    return (10.0**array if log else array).astype(np.float32)


def _markers(series: Series, log_x: bool, log_y: bool, *, front: bool) -> go.Scatter:
    return go.Scatter(
        x=_unit(series.x, log_x),
        y=_unit(series.y, log_y),
        customdata=np.asarray(series.points, dtype=np.int32),
        mode="markers",
        name=series.label,
        legendgroup=series.label,
        showlegend=front,
        hoverinfo="none",
        meta="front" if front else "dominated",
        marker={
            "color": colour(series.group),
            "symbol": symbol(series.group),
            "size": FRONT_SIZE if front else CLOUD_SIZE,
            "opacity": 1.0 if front else 0.28,
            "line": {"width": 0},
        },
    )


def _edge(view: FrontierView) -> list[go.Scatter]:
    """The staircase in the colour of the plan that serves each stretch: the strategies' territories."""
    log_x, log_y = view.options.log_x, view.options.log_y
    group_at = {(x, y): s.group for s in view.fronts for x, y in zip(s.x, s.y, strict=True)}
    corners = view.staircase
    traces: list[go.Scatter] = []
    run: list[tuple[float, float]] = []
    current: int | None = None
    for i in range(1, len(corners) - 1, 2):
        before, corner, after = corners[i - 1], corners[i], corners[i + 1]
        owner = group_at.get(after if corner[1] == after[1] else before, 0)
        if owner != current and run:
            traces.append(_stretch(run, current or 0, log_x, log_y))
            run = []
        current = owner
        run += [before, corner, after] if not run else [corner, after]
    if run:
        traces.append(_stretch(run, current or 0, log_x, log_y))
    return traces


def _stretch(run: list[tuple[float, float]], group: int, log_x: bool, log_y: bool) -> go.Scatter:
    return go.Scatter(
        x=_unit([p[0] for p in run], log_x),
        y=_unit([p[1] for p in run], log_y),
        mode="lines",
        showlegend=False,
        hoverinfo="skip",
        meta="edge",
        line={"color": colour(group), "width": 2},
    )


def _bands(view: FrontierView) -> go.Scatter:
    log_x, log_y = view.options.log_x, view.options.log_y
    x = _unit([b.x for b in view.bands], log_x)
    low = _unit([b.low for b in view.bands], log_y)
    high = _unit([b.high for b in view.bands], log_y)
    middle = (low + high) / 2.0
    return go.Scatter(
        x=x,
        y=middle,
        mode="markers",
        name="80 % interval",
        hoverinfo="skip",
        meta="interval",
        marker={"size": 1, "opacity": 0.0, "color": "#808890"},
        error_y={"type": "data", "array": high - middle, "arrayminus": middle - low,
                 "color": "#808890", "thickness": 1.2, "width": 4},
    )  # fmt: skip


def _ring(view: FrontierView) -> go.Scatter:
    best = view.best
    if best is None:
        raise AssertionError
    return go.Scatter(
        x=[best.value(view.options.x)],
        y=[best.value(view.options.y)],
        customdata=[best.point],
        mode="markers",
        name="best under the targets",
        hoverinfo="none",
        meta="best",
        marker={"symbol": "circle-open", "size": 19, "line": {"width": 2.5}, "color": "#C2483C"},
    )


def _measured(marks: Sequence[MeasuredMark]) -> go.Scatter:
    return go.Scatter(
        x=[m.x for m in marks],
        y=[m.y for m in marks],
        text=[escape(m.label) for m in marks],
        mode="markers",
        name="measured",
        meta="measured",
        marker={"symbol": "star", "size": 11, "color": "#B4608F", "line": {"width": 0}},
        hovertemplate="measured: %{text}<br>%{x:.4g}, %{y:.4g}<extra></extra>",
    )


def _layout(view: FrontierView) -> dict[str, Any]:
    shapes, notes = [], []
    for line in view.slo_lines:
        log = view.options.log_x if line.vertical else view.options.log_y
        at = 10.0**line.at if log else line.at
        along, across = ("x", "y") if line.vertical else ("y", "x")
        shapes.append(
            {"type": "line", f"{along}0": at, f"{along}1": at, f"{across}ref": "paper", f"{across}0": 0,
             f"{across}1": 1, "line": {"width": 1.5, "dash": "dash"}}
        )  # fmt: skip
        # annotations on logarithmic axes are placed by the logarithm
        notes.append(
            {"text": line.label, "showarrow": False, along: line.at, f"{across}ref": "paper",
             across: 1.0, "xanchor": "left", "yanchor": "top" if line.vertical else "bottom"}
        )  # fmt: skip
    return {
        "xaxis": _axis(view.x_axis, METRICS[view.options.x].label),
        "yaxis": _axis(view.y_axis, METRICS[view.options.y].label),
        "shapes": shapes,
        "annotations": notes,
        "margin": {"l": 64, "r": 16, "t": 40, "b": 64},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "dragmode": "zoom",
        "hovermode": "closest",
        "uirevision": f"{view.options.x}/{view.options.y}/{view.options.log_x}/{view.options.log_y}",
        "selectionrevision": 0,
    }


def _axis(axis: AxisView, title: str) -> dict[str, Any]:
    return {
        "title": {"text": title},
        "type": "log" if axis.log else "linear",
        "range": [axis.low, axis.high],
        "showline": True,
        "ticks": "outside",
    }
