"""A cluster followed in a thread of its own, so that parsing thousands of pods never holds up a key press.

At most four pictures a second are handed over, fewer when making one takes long. A source that cannot start is tried
again with growing pauses; what was known stays on screen with its age.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from console.cluster.api import Api
from console.cluster.source import ClusterSource
from console.cluster.state import Snapshot
from console.views.cluster import ClusterOverview, overview
from planner.domain.errors import Issue, PlannerError

COALESCE_S: Final = 0.25
IDLE_S: Final = 2.0
READY_S: Final = 10.0
RETRY_S: Final = (0.5, 1.0, 2.0, 5.0, 15.0, 30.0)


@dataclass(frozen=True, slots=True)
class Picture:
    """One state with its tables."""

    snapshot: Snapshot
    overview: ClusterOverview


class ClusterFeed:
    """Follows a source until stopped. Callbacks run in the feed's thread."""

    def __init__(
        self,
        make_source: Callable[[], ClusterSource],
        *,
        on_picture: Callable[[Picture], None],
        on_trouble: Callable[[tuple[Issue, ...]], None],
    ) -> None:
        self._make_source = make_source
        self._on_picture = on_picture
        self._on_trouble = on_trouble
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._source: ClusterSource | None = None
        self._thread = threading.Thread(target=self._run, name="cluster-feed", daemon=True)
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """Stop following and wait until connections are closed, at most two seconds."""
        self._stopping.set()
        loop, task = self._loop, self._task
        if loop is not None and task is not None and loop.is_running():
            loop.call_soon_threadsafe(task.cancel)
        if self._thread.is_alive():
            self._thread.join(2.0)

    @property
    def api(self) -> Api | None:
        """The server behind the source, if there is one."""
        return self._source.api if self._source is not None else None

    def ask(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run `work` on the feed's loop and wait for it; to be called from a worker thread."""
        if self._loop is None:
            work.close()
            return None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        attempt = 0
        try:
            while not self._stopping.is_set():
                try:
                    attempt = await self._follow(attempt)
                except PlannerError as error:
                    self._on_trouble(error.issues)
                await asyncio.sleep(RETRY_S[min(attempt, len(RETRY_S) - 1)])
                attempt += 1
        except asyncio.CancelledError:
            return

    async def _follow(self, attempt: int) -> int:
        source = self._make_source()
        try:
            await source.start()
            self._source = source
            attempt = 0
            await source.ready(READY_S)
            loop = asyncio.get_running_loop()
            while not self._stopping.is_set():
                began = loop.time()
                snapshot = source.snapshot()
                # handing over includes what the screen builds from it, so a large cluster is shown less often
                self._on_picture(Picture(snapshot, overview(snapshot)))
                cost = loop.time() - began
                await source.changed(IDLE_S)
                await asyncio.sleep(max(COALESCE_S, 2.0 * cost))
            return attempt
        finally:
            self._source = None
            await source.close()
