"""Work that takes longer than an answer may: our own commands in processes of their own.

A process can be stopped, cannot take the console down, and compiles its kernels without holding up other readers.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from sqlalchemy.engine import URL

from planner.domain.errors import InputError, Issue, NotFeasibleError
from planner.storage.database import URL_VARIABLE

AT_ONCE: Final = 2
LONGEST_S: Final = 600.0
GRACE_S: Final = 20.0
_KEPT_LINES: Final = 12


class Children:
    """Starts and ends child processes; `close` leaves none behind."""

    def __init__(self, store: URL | None) -> None:
        self._environment = dict(os.environ)
        if store is not None:
            self._environment[URL_VARIABLE] = store.render_as_string(hide_password=False)
        self._studies: dict[str, asyncio.subprocess.Process] = {}
        self._room = asyncio.Semaphore(AT_ONCE)

    async def command(self, *arguments: str) -> Any:
        """The JSON document that ``planner ARGUMENTS --json`` prints; see `document`."""
        return await self.document("planner.cli.main", *arguments, "--json")

    async def document(self, module: str, *arguments: str) -> Any:
        """The JSON document that a module of ours prints.

        Raises InputError with the command's own issues, NotFeasibleError ``command.time`` after ten minutes.
        """
        async with self._room:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", module, *arguments,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env=self._environment,
            )  # fmt: skip
            try:
                out, err = await asyncio.wait_for(process.communicate(), LONGEST_S)
            except TimeoutError:
                raise NotFeasibleError(_too_long(arguments)) from None
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        if not out.strip():
            raise InputError(*_issues(err.decode("utf-8", "replace")))
        return json.loads(out)

    async def start_study(self, name: str, *, trials: int | None = None) -> None:
        """Run a stored study to its budget, or to `trials` in all. It goes on when the reader leaves."""
        more = [] if trials is None else [str(trials)]
        self._studies[name] = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "console.api.study_process", name, *more,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            env=self._environment,
        )  # fmt: skip

    def runs(self, name: str) -> bool:
        """Whether a process of ours works on the study."""
        process = self._studies.get(name)
        return process is not None and process.returncode is None

    async def close(self) -> None:
        """Interrupt running studies; each records what it finished and can be resumed."""
        running = [p for p in self._studies.values() if p.returncode is None]
        for process in running:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
        if running:
            _, late = await asyncio.wait([asyncio.ensure_future(p.wait()) for p in running], timeout=GRACE_S)
            for task in late:
                task.cancel()
            for process in running:
                if process.returncode is None:
                    process.kill()


def _issues(err: str) -> Sequence[Issue]:
    """The issues that a command printed, or its last lines."""
    found: list[Issue] = []
    lines = err.splitlines()
    for i, line in enumerate(lines):
        if line.startswith("error[") and "]: " in line:
            code, _, what = line.removeprefix("error[").partition("]: ")
            rest = [x.strip() for x in lines[i + 1 : i + 3]]
            why = next((x.removeprefix("why: ") for x in rest if x.startswith("why: ")), "")
            fix = next((x.removeprefix("fix: ") for x in rest if x.startswith("fix: ")), "")
            found.append(Issue(code=code, what=what, why=why, fix=fix))
    return found or [
        Issue(
            code="command.failed",
            what="the command gave no answer",
            why=" ".join(lines[-_KEPT_LINES:])[-400:] or "it printed nothing",
            fix="run the same with planner in a terminal",
        )
    ]


def _too_long(arguments: Sequence[str]) -> Issue:
    return Issue(
        code="command.time",
        what=f"planner {arguments[0]} took longer than {LONGEST_S:.0f} s",
        why="the console stops what takes that long",
        fix="ask for fewer requests or replications, or run it in a terminal",
    )
