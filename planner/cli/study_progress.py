"""The progress line of a study on stderr: redrawn in place on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from planner.search.studies.progress import Progress

EVERY_S: Final = 5.0  # between lines when stderr is not a terminal
_REDRAW_S: Final = 0.1


class ProgressLine:
    """Shows progress; `close` leaves the last state on its own line."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._shown_at = -1e9
        self._last: Progress | None = None
        self._width = 0

    def __call__(self, progress: Progress) -> None:
        """Show `progress` unless something was shown a moment ago."""
        self._last = progress
        now = time.monotonic()
        if now - self._shown_at < (_REDRAW_S if self._live else EVERY_S):
            return
        self._shown_at = now
        self._write(line_of(progress))

    def close(self) -> None:
        """Write the last state and end the line."""
        if self._last is not None:
            self._write(line_of(self._last))
            if self._live:
                sys.stderr.write("\n")
                sys.stderr.flush()
        self._last = None

    def _write(self, text: str) -> None:
        if not self._live:
            sys.stderr.write(text + "\n")
        else:
            import shutil

            room = shutil.get_terminal_size((100, 24)).columns - 1
            shown = text if len(text) <= room else text[: room - 1] + "…"
            sys.stderr.write("\r" + shown.ljust(min(self._width, room)))
            self._width = len(shown)
        sys.stderr.flush()


def line_of(p: Progress) -> str:
    """One line: done, rate, time left, best, hypervolume, what was excluded and why."""
    total = "" if p.total is None else f"/{p.total}"
    left = "" if p.left_s is None else f", {duration(p.left_s)} left"
    best = "" if p.best_rate is None else f" | best {p.best_rate:,.0f} tok/s/GPU: {p.best}"
    excluded = ", ".join(f"{n} {reason}" for reason, n in sorted(p.excluded.items(), key=lambda i: -i[1]))
    return f"{p.stage} {p.done}{total}, {p.per_s:.1f}/s{left} | hypervolume {p.hypervolume:,.4g}{best}" + (
        f" | {excluded}" if excluded else ""
    )


def duration(seconds: float) -> str:
    """``42 s``, ``3 min``, ``1.5 h``."""
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    if seconds < 5400.0:
        return f"{seconds / 60.0:.0f} min"
    return f"{seconds / 3600.0:.1f} h"
