"""A search in a process of its own: it goes on when the app blocks or dies, and the app only watches the store."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from console.views.problem_form import command_of
from planner.domain.errors import InputError, Issue
from planner.search.ask import Request


def search_arguments(request: Request, *, name: str, trials: int) -> list[str]:
    """Arguments of `planner search` for `request`. Raises InputError ``search.two-pools`` for two GPU types."""
    if request.prefill_gpu is not None or request.decode_gpu is not None:
        raise InputError(
            Issue(
                code="search.two-pools",
                what="a search over two GPU types from here",
                why="planner search takes them from a recipe only",
                fix="save the question as a recipe and run: planner search ./FILE.yaml",
            )
        )
    words = shlex.split(command_of(request))[2:]
    return ["search", *words, "--name", name, "--trials", str(trials)]


class SearchProcess:
    """One running `planner search` or `planner studies resume` that this app started."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process; a pipe would fill up
        self._process = subprocess.Popen(  # noqa: S603 - our own program with checked arguments
            [sys.executable, "-m", "planner.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self._process.poll() is None

    def pause(self) -> None:
        """End it as Ctrl-C does: finished trials are kept and the study can be resumed."""
        if self.running:
            self._process.send_signal(signal.SIGINT)

    def last_words(self) -> str:
        """What it said last, once it has ended."""
        if self.running:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return "\n".join(lines[-3:])
