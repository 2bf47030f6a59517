"""The cluster that the console follows: one source for all pages, opened in the background, opened again when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from console.cluster.source import ClusterSource
from console.cluster.state import Snapshot
from planner.domain.errors import ClusterError, Issue, PlannerError

AGAIN_S: Final = 10.0
READY_S: Final = 20.0


class Following:
    """Keeps a source open. Reading never waits for the cluster."""

    def __init__(self, make: Callable[[], ClusterSource]) -> None:
        self._make = make
        self._source: ClusterSource | None = None
        self._issues: tuple[Issue, ...] = ()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to follow."""
        self._task = asyncio.get_running_loop().create_task(self._keep())

    async def close(self) -> None:
        """Stop following."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._source is not None:
            await self._source.close()

    @property
    def source(self) -> ClusterSource:
        """The open source. Raises ClusterError ``cluster.connecting``, or why it cannot be opened."""
        if self._source is not None:
            return self._source
        if self._issues:
            raise ClusterError(*self._issues)
        raise ClusterError(
            Issue(
                code="cluster.connecting",
                what="the cluster was not reached yet",
                why="the console has just started to follow it",
                fix="wait a moment",
            )
        )

    def snapshot(self) -> Snapshot:
        """The state now. Raises as `source`."""
        return self.source.snapshot()

    async def _keep(self) -> None:
        while True:
            try:
                source = self._make()
                await source.start()
            except PlannerError as error:
                self._issues = error.issues
                await asyncio.sleep(AGAIN_S)
                continue
            self._source, self._issues = source, ()
            await source.ready(READY_S)
            return
