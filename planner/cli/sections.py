"""The commands by what a user wants to do; ``planner --help`` lists them so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from typer.core import TyperGroup

SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Start here": ("demo", "doctor", "completion"),
    "Plan": ("recommend", "size", "estimate", "why-not", "encoder"),
    "Try": ("simulate", "compare", "experiments", "search", "studies"),
    "Deploy": ("export", "lint", "import", "diff", "apply"),
    "Watch": ("cluster", "tui", "serve"),
    "Measure": ("campaign", "measurements", "calibrate", "validate"),
    "Look up": ("recipes", "models", "profiles", "explain", "schemas"),
}


class SectionedGroup(TyperGroup):
    """A command group whose help has one list per section."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the base class names it
        """Write every section under its own heading, all in one column width."""
        width = max(len(name) for name in self.commands)
        for title, names in SECTIONS.items():
            limit = formatter.width - 6 - width
            rows = [(name.ljust(width), self.commands[name].get_short_help_str(limit)) for name in names]
            with formatter.section(title):
                formatter.write_dl(rows)
