"""Bars of parts as text: the step time and the memory of a plan."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from console.tui.themes import Palette
from console.views.metrics import figure
from console.views.plan_detail import Bar

FILLS: Final = ("█", "▓", "▒", "░", "▚", "▞", "▤", "▥")
MIN_LABEL: Final = 3


def bar_lines(bar: Bar, palette: Palette, width: int, *, legend: bool = True) -> Text:
    """`bar` as a title, a line of filled cells and a legend that wraps at `width`.

    Parts differ in fill and colour, so that the bar reads without colour too.
    """
    text = Text()
    text.append(f"{bar.title}: ", "bold")
    text.append(f"{figure(bar.total)} {bar.unit}")
    if bar.note and text.cell_len + len(bar.note) + 2 <= width:
        text.append(f", {bar.note}", palette.muted)
    text.append("\n")
    cells = _cells([s.share for s in bar.segments], width)
    for i, count in enumerate(cells):
        text.append(FILLS[i % len(FILLS)] * count, _colour(palette, i))
    if not legend:
        return text
    line = 0
    text.append("\n")
    for i, segment in enumerate(bar.segments):
        item = (
            f"{FILLS[i % len(FILLS)]} {segment.name} {figure(segment.amount)} ({100.0 * segment.share:.0f} %)"
        )
        if line and line + len(item) + 2 > width:
            text.append("\n")
            line = 0
        elif line:
            text.append("  ")
            line += 2
        text.append(item[:1], _colour(palette, i))
        text.append(item[1:])
        line += len(item)
    return text


def _colour(palette: Palette, i: int) -> str:
    return palette.style(i).replace("bold ", "").replace("bold", "none")


def _cells(shares: list[float], width: int) -> list[int]:
    """Whole cells per share that add up to `width` (largest remainders)."""
    total = sum(shares)
    if not shares or total <= 0.0:
        return [0] * len(shares)
    exact = [s / total * width for s in shares]
    cells = [int(e) for e in exact]
    order = sorted(range(len(shares)), key=lambda i: cells[i] - exact[i])
    for i in order[: width - sum(cells)]:
        cells[i] += 1
    return cells
