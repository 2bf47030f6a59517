"""A plan's details as text."""

from __future__ import annotations

from rich.text import Text

from console.tui.themes import Palette
from console.tui.widgets.bars import bar_lines
from console.views.plan_detail import PlanDetail

SHORT = 4


def figures_text(detail: PlanDetail, *, short: bool) -> Text:
    """The figures, one per line; two lines of the first ones where there is no room."""
    text = Text()
    if short:
        for n, f in enumerate(detail.figures[: SHORT + 1]):
            text.append("  " if n else "")
            text.append(f"{f.name} ", "dim")
            text.append(f.value, "bold")
            text.append(f" [{f.interval}]" if f.interval else "")
        return text
    for f in detail.figures:
        text.append(f"{f.name:<25}", "dim")
        text.append(f"{f.value:>8}", "bold")
        text.append(f"  {f.interval}\n")
    return text


def detail_text(detail: PlanDetail, palette: Palette, width: int) -> Text:
    """Everything, for a page of its own."""
    text = Text()
    text.append(f"{detail.headline}\n\n")
    for line in detail.arithmetic:
        text.append(f"{line}\n")
    text.append("\n")
    text.append_text(figures_text(detail, short=False))
    for bar in (*detail.steps, *detail.memory):
        text.append("\n")
        text.append_text(bar_lines(bar, palette, width))
        text.append("\n")
        sources = [f"{s.name}: {s.source}" for s in bar.segments if s.source]
        if sources:
            text.append(", ".join(sources) + "\n", "dim")
    text.append(f"\n{detail.basis}")
    return text
