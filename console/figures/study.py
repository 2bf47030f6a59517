"""A study as figures: what was tried, and how the best rate and the hypervolume grew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from console.figures.plain import plain
from console.figures.theme import colour
from planner.perf.operators.base import FloatArray

MOST_POINTS = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialColumns:
    """Finished trials as columns of equal length. Rates are output tokens/s per GPU owned, speeds tokens/s of a user."""

    number: FloatArray
    rate: FloatArray
    user: FloatArray
    feasible: np.ndarray[Any, np.dtype[np.bool_]]

    def __len__(self) -> int:
        return int(self.number.size)


def front_of(columns: TrialColumns) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Indexes of the feasible trials that no other beats on both rates; O(n log n)."""
    index = np.flatnonzero(columns.feasible)
    order = index[np.lexsort((-columns.rate[index], -columns.user[index]))]
    best = np.maximum.accumulate(columns.rate[order]) if order.size else columns.rate[order]
    new = np.ones(order.size, dtype=bool)
    new[1:] = best[1:] > best[:-1]
    return order[new]


def trials_figure(columns: TrialColumns) -> dict[str, Any]:
    """All trials by what a user and a GPU get, coloured by when they were tried; dominated ones thinned to 3,000."""
    front = front_of(columns)
    others = np.setdiff1d(np.arange(len(columns)), front)
    others = others[:: max(1, -(-others.size // MOST_POINTS))]
    figure = go.Figure()
    for kept, name, shape in (
        (others[~columns.feasible[others]], "misses the targets", "x-thin-open"),
        (others[columns.feasible[others]], "meets the targets", "circle"),
    ):
        figure.add_trace(_points(columns, kept, name, shape, size=6, scale=shape == "circle"))
    edge = front[np.argsort(columns.user[front])]
    figure.add_trace(
        go.Scatter(
            x=columns.user[edge], y=columns.rate[edge], mode="lines", line={"shape": "vh", "color": colour(1), "width": 2},
            hoverinfo="skip", showlegend=False,
        )
    )  # fmt: skip
    figure.add_trace(_points(columns, front, "frontier", "diamond", size=10, scale=False))
    figure.update_layout(
        xaxis={"title": {"text": "tok/s/user"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "output tok/s/GPU owned"}, "rangemode": "tozero"},
        margin={"l": 64, "r": 16, "t": 36, "b": 56},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        hovermode="closest",
        uirevision="trials",
    )
    return plain(figure)


def _points(
    c: TrialColumns,
    index: np.ndarray[Any, np.dtype[np.intp]],
    name: str,
    shape: str,
    *,
    size: int,
    scale: bool,
) -> go.Scatter:
    marker: dict[str, Any] = {"size": size, "symbol": shape, "color": colour(1 if shape == "diamond" else 7)}
    if scale:
        marker |= {"color": c.number[index], "colorscale": "Cividis", "showscale": True, "opacity": 0.8,
                   "colorbar": {"title": {"text": "trial"}, "thickness": 12}}  # fmt: skip
    return go.Scatter(
        x=c.user[index], y=c.rate[index], mode="markers", name=name, marker=marker, customdata=c.number[index],
        hovertemplate="trial %{customdata}<br>%{y:.4g} tok/s/GPU<br>%{x:.4g} tok/s/user<extra></extra>",
    )  # fmt: skip


def history_figure(columns: TrialColumns) -> dict[str, Any]:
    """The best feasible rate so far, over the trials."""
    order = np.argsort(columns.number)
    rate = np.where(columns.feasible[order], columns.rate[order], 0.0)
    best = np.maximum.accumulate(rate) if rate.size else rate
    keep = np.ones(best.size, dtype=bool)
    if best.size > 2:
        keep[1:-1] = (best[1:-1] != best[:-2]) | (best[1:-1] != best[2:])
    figure = go.Figure(
        go.Scatter(
            x=columns.number[order][keep],
            y=best[keep],
            mode="lines",
            line={"shape": "hv", "color": colour(0), "width": 2},
            hovertemplate="after trial %{x}: %{y:.4g} tok/s/GPU<extra></extra>",
        )
    )
    figure.update_layout(
        xaxis={"title": {"text": "trial"}},
        yaxis={"title": {"text": "best output tok/s/GPU so far"}, "rangemode": "tozero"},
        margin={"l": 64, "r": 16, "t": 16, "b": 56},
        showlegend=False,
        uirevision="history",
    )
    return plain(figure)
