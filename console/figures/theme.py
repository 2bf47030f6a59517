"""Colours, markers and layouts of all figures: one palette that reads on white and on dark, shapes beside colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

# Okabe-Ito hues, darkened until each has 3:1 against both backgrounds (tests/api/test_figures.py holds it to that)
PALETTE: Final = ("#0072B2", "#C05A00", "#008562", "#B4608F", "#6E6BC4", "#8A7300", "#2A86A8", "#C2483C")
SYMBOLS: Final = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "cross",
    "star",
    "hexagon",
    "triangle-down",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Colours of one appearance."""

    name: str
    background: str
    text: str
    muted: str
    grid: str


LIGHT: Final = Theme(name="light", background="#ffffff", text="#1a2027", muted="#55606c", grid="#e3e7eb")
DARK: Final = Theme(name="dark", background="#14181d", text="#e8ebee", muted="#a3adb8", grid="#2b323a")
THEMES: Final = (LIGHT, DARK)


def colour(group: int) -> str:
    """The colour of a group; it never changes under filters."""
    return PALETTE[group % len(PALETTE)]


def symbol(group: int) -> str:
    """The marker of a group."""
    return SYMBOLS[group % len(SYMBOLS)]


def template(theme: Theme) -> dict[str, Any]:
    """What the client lays under every figure of one appearance (plotly's ``layout.template``)."""
    axis = {
        "gridcolor": theme.grid,
        "linecolor": theme.muted,
        "zerolinecolor": theme.grid,
        "tickcolor": theme.muted,
        "tickfont": {"color": theme.muted},
        "title": {"font": {"color": theme.text}},
        "automargin": True,
    }
    return {
        "layout": {
            "paper_bgcolor": theme.background,
            "plot_bgcolor": theme.background,
            "font": {"color": theme.text, "family": "system-ui, sans-serif", "size": 13},
            "colorway": list(PALETTE),
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"bgcolor": theme.background, "font": {"color": theme.text}},
            "annotationdefaults": {"font": {"color": theme.muted}},
            "shapedefaults": {"line": {"color": theme.muted}},
            "colorscale": {"sequential": "Viridis"},
        }
    }


# Shared by all charts. Without showSendToCloud, plotly.js 4 offers to post the chart to a foreign host.
CONFIG: Final[dict[str, Any]] = {
    "displaylogo": False,
    "showSendToCloud": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["autoScale2d"],
    "toImageButtonOptions": {"format": "png", "scale": 2},
}
