"""What every command prints: results on stdout, everything else on stderr, errors as what / why / fix."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from planner.domain.errors import PlannerError

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 100


def stdout() -> Console:
    """Console for results; at most 100 columns wide so that tables paste well."""
    from planner.cli.piped import PipedConsole

    return PipedConsole(width=min(WIDTH, _terminal_width()), highlight=False, soft_wrap=False)


def stderr() -> Console:
    """Console for progress and messages."""
    from rich.console import Console

    return Console(stderr=True, width=min(WIDTH, _terminal_width()), highlight=False)


def _terminal_width() -> int:
    import shutil

    return shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH


def print_lines(text: str, *, indent: int = 2) -> None:
    """Print `text` wrapped to 100 columns; continuation lines hang four columns deeper."""
    import textwrap

    pad = " " * indent
    sys.stdout.write(
        textwrap.fill(
            text,
            WIDTH,
            initial_indent=pad,
            subsequent_indent=pad + "    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
    )


def emit_json(schema: str, payload: Mapping[str, object]) -> None:
    """Print one JSON document ``{"schema": "wideplan.<schema>/v1", ...}`` on stdout, byte-stable for equal input."""
    document = {"schema": f"wideplan.{schema}/v1", **payload}
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    right: Iterable[int] = (),
) -> None:
    """Print a table that fits 100 columns; `right` lists the indexes of right-aligned columns."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    aligned = set(right)
    for index, header in enumerate(headers):
        table.add_column(header, justify="right" if index in aligned else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    stdout().print(table)


def print_error(error: PlannerError) -> None:
    """Print every issue of an error on stderr as what, why and fix."""
    lines: list[str] = []
    for issue in error.issues:
        where = f" ({issue.where})" if issue.where else ""
        lines += [f"error[{issue.code}]: {issue.what}{where}", f"  why: {issue.why}", f"  fix: {issue.fix}"]
    sys.stderr.write("\n".join(lines) + "\n")
