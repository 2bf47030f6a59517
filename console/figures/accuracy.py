"""Measured against predicted, one logarithmic panel per metric, with the diagonal and bands of 10 % and 20 %."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from console.figures.plain import plain
from console.figures.theme import colour, symbol
from planner.measurements.points import Metric

TITLES: Final = {
    Metric.TTFT.value: "TTFT p50, ms",
    Metric.TPOT.value: "TPOT p50, ms",
    Metric.OUTPUT.value: "output tok/s/GPU",
}
MOST: Final = 900  # points of one panel; a regular sample of more


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One metric of one measured point."""

    metric: str
    engine: str
    label: str
    measured: float
    predicted: float


def parity_figure(pairs: Sequence[Pair]) -> dict[str, Any]:
    """One panel per metric that was measured."""
    metrics = tuple(dict.fromkeys(p.metric for p in pairs))
    engines = sorted({p.engine for p in pairs})
    figure = make_subplots(
        rows=1, cols=max(len(metrics), 1), subplot_titles=[TITLES.get(m, m) for m in metrics],
        horizontal_spacing=0.09,
    )  # fmt: skip
    for column, metric in enumerate(metrics, start=1):
        rows = [p for p in pairs if p.metric == metric]
        values = [v for p in rows for v in (p.measured, p.predicted)]
        ends = [min(values), max(values)]
        for factor, dash in (
            (1.0, "solid"),
            (1.1, "dash"),
            (1 / 1.1, "dash"),
            (1.2, "dot"),
            (1 / 1.2, "dot"),
        ):
            figure.add_trace(
                go.Scatter(x=ends, y=[v * factor for v in ends], mode="lines", hoverinfo="skip", showlegend=False,
                           line={"color": "#808890", "width": 1, "dash": dash}),
                row=1, col=column,
            )  # fmt: skip
        rows = rows[:: max(1, -(-len(rows) // MOST))]
        for number, engine in enumerate(engines):
            own = [p for p in rows if p.engine == engine]
            figure.add_trace(
                go.Scatter(
                    x=[p.predicted for p in own], y=[p.measured for p in own], mode="markers", name=engine,
                    legendgroup=engine, showlegend=column == 1, text=[escape(p.label) for p in own],
                    marker={"color": colour(number), "symbol": symbol(number), "size": 6, "opacity": 0.65},
                    hovertemplate="%{text}<br>predicted %{x:.4g}<br>measured %{y:.4g}<extra></extra>",
                ),
                row=1, col=column,
            )  # fmt: skip
    figure.update_xaxes(type="log", title_text="predicted")
    figure.update_yaxes(type="log", title_text="measured")
    figure.update_layout(
        margin={"l": 56, "r": 16, "t": 56, "b": 48},
        legend={"orientation": "h", "y": 1.1, "yanchor": "bottom", "x": 0},
        hovermode="closest",
    )
    return plain(figure)
