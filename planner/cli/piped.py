"""A console whose reader may leave early."""

from __future__ import annotations

from rich.console import Console

from planner.domain.errors import ExitCode


class PipedConsole(Console):
    """Ends quietly and successfully when the reader of a pipe leaves, as in ``planner recipes list | head``."""

    def on_broken_pipe(self) -> None:
        """Send what is left nowhere and end the program; rich would end it with status 1."""
        try:
            super().on_broken_pipe()
        except SystemExit:
            raise SystemExit(int(ExitCode.OK)) from None
