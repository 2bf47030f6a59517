"""A simulation as figures: occupancy over time, one panel per quantity and role, and what each rank did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from console.figures.plain import plain
from console.figures.theme import colour

DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
QUANTITIES: Final = (
    ("waiting", "requests waiting"),
    ("running", "requests running"),
    ("kv_share", "KV in use"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One quantity of one role of one simulation over time (seconds)."""

    simulation: str
    role: str
    quantity: str
    seconds: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBars:
    """What each DP rank of one role of one simulation did; `work` says what is counted."""

    simulation: str
    role: str
    work: str
    counts: Sequence[int]
    hit_rate: Sequence[float]
    busy_share: Sequence[float]


def series_figure(lines: Sequence[Line]) -> dict[str, Any]:
    """Rows are quantities, columns roles; a simulation keeps its colour and dash everywhere."""
    roles = tuple(dict.fromkeys(x.role for x in lines))
    names = tuple(dict.fromkeys(x.simulation for x in lines))
    figure = make_subplots(
        rows=len(QUANTITIES),
        cols=max(len(roles), 1),
        shared_xaxes=True,
        vertical_spacing=0.09,
        horizontal_spacing=0.09,
        subplot_titles=[f"{title}, {role}" for _, title in QUANTITIES for role in roles],
    )
    for line in lines:
        row = [q for q, _ in QUANTITIES].index(line.quantity) + 1
        number = names.index(line.simulation)
        figure.add_trace(
            go.Scatter(
                x=list(line.seconds),
                y=list(line.values),
                mode="lines",
                name=line.simulation,
                legendgroup=line.simulation,
                showlegend=row == 1 and line.role == roles[0],
                line={"color": colour(number), "dash": DASHES[number % len(DASHES)], "width": 1.6},
                hovertemplate="%{x:.1f} s: %{y:.4g}<extra></extra>",
            ),
            row=row,
            col=roles.index(line.role) + 1,
        )
    figure.update_yaxes(rangemode="tozero")
    for column in range(1, max(len(roles), 1) + 1):
        figure.update_xaxes(title_text="s", row=len(QUANTITIES), col=column)
    figure.update_layout(
        margin={"l": 56, "r": 16, "t": 56, "b": 40},
        legend={"orientation": "h", "y": 1.06, "yanchor": "bottom", "x": 0},
        hovermode="closest",
    )
    return plain(figure)


def ranks_figure(bars: Sequence[RankBars]) -> dict[str, Any]:
    """Work per rank, one panel per role: unequal bars are what a router should avoid."""
    roles = tuple(dict.fromkeys(b.role for b in bars))
    names = tuple(dict.fromkeys(b.simulation for b in bars))
    figure = make_subplots(
        rows=1,
        cols=max(len(roles), 1),
        subplot_titles=[f"{next(b.work for b in bars if b.role == r)} per rank, {r}" for r in roles],
    )
    for bar in bars:
        number = names.index(bar.simulation)
        figure.add_trace(
            go.Bar(
                x=list(range(len(bar.counts))),
                y=list(bar.counts),
                name=bar.simulation,
                legendgroup=bar.simulation,
                showlegend=bar.role == roles[0],
                marker={
                    "color": colour(number),
                    "pattern": {"shape": ("", "/", "x", ".", "\\", "+")[number % 6], "solidity": 0.25},
                },
                customdata=[
                    [100.0 * h, 100.0 * b] for h, b in zip(bar.hit_rate, bar.busy_share, strict=True)
                ],
                hovertemplate=f"rank %{{x}}: %{{y}} {bar.work}"
                "<br>prefix hits %{customdata[0]:.0f} %"
                "<br>busy %{customdata[1]:.0f} %<extra></extra>",
            ),
            row=1,
            col=roles.index(bar.role) + 1,
        )
    figure.update_layout(
        barmode="group",
        margin={"l": 56, "r": 16, "t": 56, "b": 40},
        legend={"orientation": "h", "y": 1.08, "yanchor": "bottom", "x": 0},
    )
    return plain(figure)
