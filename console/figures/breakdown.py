"""Where the step and the memory of a plan go: stacked bars, one per role."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from console.figures.plain import plain
from console.figures.theme import colour
from console.views.plan_detail import Bar, PlanDetail


def breakdown_figure(detail: PlanDetail) -> dict[str, Any]:
    """Step time above, device memory below; the same part has the same colour in every bar."""
    figure = make_subplots(
        rows=2,
        cols=1,
        vertical_spacing=0.3,
        subplot_titles=("Time of one step, ms", "Device memory of one rank, GiB"),
    )
    for row, bars in ((1, detail.steps), (2, detail.memory)):
        for trace in _stack(bars):
            figure.add_trace(trace, row=row, col=1)
    figure.update_layout(
        barmode="stack",
        bargap=0.35,
        margin={"l": 80, "r": 16, "t": 32, "b": 40},
        showlegend=False,
        hovermode="closest",
    )
    return plain(figure)


def _stack(bars: tuple[Bar, ...]) -> list[go.Bar]:
    names = list(dict.fromkeys(s.name for b in bars for s in b.segments))
    traces = []
    for number, name in enumerate(names):
        parts = [next((s for s in b.segments if s.name == name), None) for b in bars]
        traces.append(
            go.Bar(
                orientation="h",
                name=name,
                y=[b.title for b in bars],
                x=[p.amount if p else 0.0 for p in parts],
                text=[name if p and p.share > 0.09 else "" for p in parts],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                constraintext="both",
                marker={"color": colour(number), "line": {"width": 1, "color": "rgba(255,255,255,0.6)"}},
                insidetextfont={"color": "#ffffff"},
                customdata=[[f"{100.0 * p.share:.0f} %", p.source] if p else ["", ""] for p in parts],
                hovertemplate="%{y}: "
                + name
                + "<br>%{x:.3g} (%{customdata[0]})<br>%{customdata[1]}<extra></extra>",
            )
        )
    return traces
