"""Parity plots: measured against predicted, one panel per metric. Interactive page (plotly) and small SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from planner.domain.errors import Issue, MissingDataError
from planner.measurements.points import Metric
from planner.measurements.predictions import Answer, PointPrediction

NAMES: Final = {
    Metric.TPOT: "TPOT, ms",
    Metric.TTFT: "TTFT, ms",
    Metric.OUTPUT: "output tok/s/GPU",
}
COLOURS: Final = {"vllm": "#0072B2", "sglang": "#D55E00", "trtllm": "#009E73", "atom": "#CC79A7"}
SVG_POINTS: Final = 900  # a regular sample keeps the files small


def write_parity_page(answers: Sequence[Answer], path: Path) -> None:
    """Write one HTML page with a log-log panel per metric; hover shows the row and its interval. Needs plotly.

    The page carries its own script: it opens without a network. Raises `MissingDataError` without plotly.
    """
    try:
        import plotly.graph_objects as go
        from plotly.subplots import make_subplots
    except ImportError as error:
        raise MissingDataError(
            Issue(
                code="figures.plotly_missing",
                what="--html needs plotly",
                why="it is not a dependency of the planner itself",
                fix="pip install plotly, or leave --html out",
            )
        ) from error
    figure = make_subplots(rows=1, cols=len(NAMES), subplot_titles=list(NAMES.values()))
    for column, metric in enumerate(NAMES, start=1):
        rows = pairs(answers, metric)
        for engine in sorted({a.point.config.dialect for a, _, _ in rows}):
            own = [(a, m, p) for a, m, p in rows if a.point.config.dialect == engine]
            figure.add_trace(
                go.Scattergl(
                    x=[m for _, m, _ in own],
                    y=[p for _, _, p in own],
                    mode="markers",
                    marker={"size": 4, "opacity": 0.6, "color": COLOURS.get(engine, "#555555")},
                    name=engine,
                    legendgroup=engine,
                    showlegend=column == 1,
                    text=[hover(a, metric) for a, _, _ in own],
                    hovertemplate="%{text}<br>measured %{x:.4g}<br>predicted %{y:.4g}<extra></extra>",
                ),
                row=1,
                col=column,
            )
        if rows:
            low, high = limits(rows)
            figure.add_trace(
                go.Scatter(
                    x=[low, high], y=[low, high], mode="lines", line={"color": "#888888", "width": 1},
                    showlegend=False, hoverinfo="skip",
                ),
                row=1, col=column,
            )  # fmt: skip
        figure.update_xaxes(type="log", title_text="measured", row=1, col=column)
        figure.update_yaxes(type="log", title_text="predicted", row=1, col=column)
    figure.update_layout(height=520, title_text="Predicted against measured", template="plotly_white")
    figure.write_html(path, include_plotlyjs=True, full_html=True)


def hover(answer: PointPrediction, metric: Metric) -> str:
    """Text of one point: row, configuration and interval."""
    c, e = answer.point.config, answer.values[metric]
    return html.escape(
        f"{answer.id}: {c.model} {c.quantization} on {c.gpu}, {c.dialect} {c.mode.value}, {c.isl}/{c.osl}, "
        f"load {answer.point.load or 0:g}; 80 % {e.low:.4g}-{e.high:.4g}"
    )


def pairs(answers: Sequence[Answer], metric: Metric) -> list[tuple[PointPrediction, float, float]]:
    """(answer, measured, predicted) of the rows that are scored and report `metric`."""
    return [
        (a, a.point.measured[metric], a.values[metric].value)
        for a in answers
        if isinstance(a, PointPrediction) and a.point.scored and metric in a.point.measured
    ]


def limits(rows: Sequence[tuple[PointPrediction, float, float]]) -> tuple[float, float]:
    """Smallest and largest value of a panel."""
    values = [v for _, m, p in rows for v in (m, p)]
    return min(values), max(values)


def parity_svg(rows: Sequence[tuple[str, float, float]], title: str, *, size: int = 300) -> str:
    """One log-log panel as SVG text. `rows`: (engine, measured, predicted); positive values only."""
    kept = [r for r in rows if r[1] > 0 and r[2] > 0]
    step = max(len(kept) // SVG_POINTS, 1)
    logs = [(e, math.log10(m), math.log10(p)) for e, m, p in kept[::step]]
    values = [v for _, m, p in logs for v in (m, p)] or [0.0, 1.0]
    low, high = math.floor(min(values)), math.ceil(max(values))
    margin = 34

    def place(x: float) -> float:
        return margin + (x - low) / max(high - low, 1) * (size - margin - 8)

    def dot(engine: str, m: float, p: float) -> str:
        colour = COLOURS.get(engine, "#555555")
        return f'<circle cx="{place(m):.1f}" cy="{size - place(p):.1f}" r="1.4" fill="{colour}" fill-opacity=".5"/>'

    ticks = []
    for power in range(low, high + 1):
        at = place(power)
        label = f"{10.0**power:g}"
        ticks.append(
            f'<text x="{at:.0f}" y="{size - 18}" text-anchor="middle">{label}</text>'
            f'<text x="{margin - 4}" y="{size - at + 3:.0f}" text-anchor="end">{label}</text>'
        )
    a, b = place(low), place(high)
    lines = [
        f'<line x1="{a:.0f}" y1="{size - a:.0f}" x2="{b:.0f}" y2="{size - b:.0f}" stroke="#888"/>',
        f'<rect x="{a:.0f}" y="{size - b:.0f}" width="{b - a:.0f}" height="{b - a:.0f}" fill="none" stroke="#ccc"/>',
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}" viewBox="0 0 {size} {size}" '
        f'font-family="sans-serif" font-size="9" fill="#333"><rect width="{size}" height="{size}" fill="#fff"/>'
        f'<text x="{margin}" y="9">{html.escape(title)} (predicted over measured)</text>'
        + "".join(lines)
        + "".join(ticks)
        + "".join(dot(*row) for row in logs)
        + "</svg>\n"
    )
