"""Keeps one kind in step with the server: list in pages, watch, bookmarks, 410, list again.

`step` is one request chain (a full list, or one watch until it ends) and says how long to wait before the next; `run` is
the endless loop around it and holds no logic. Invariants: after a list the sink holds exactly what the server listed
(objects that vanished meanwhile are deleted by name); a line cut in half is never applied; the version watched from is
always one the server gave, compared for equality only; a failing server sees exponentially rarer requests with jitter.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Protocol

from console.cluster.api import Api, ApiError
from console.cluster.kinds import Served
from console.cluster.objects import View
from planner.export.values import Json, Table, rows, table

PAGE = 500
MAX_RESTARTS_IN_PAGES = 3
# A watch refused like this is not worth repeating from the same version: the kind was removed, or the server does not
# know the version (restored from a backup, say).
RELIST_AFTER = (400, 404, 500, 504)


class Sink(Protocol):
    """Where a reflector writes."""

    def listed(self, views: list[View]) -> None:
        """Replace the whole kind: a fresh list."""

    def upsert(self, view: View) -> None:
        """An object was added or changed."""

    def delete(self, key: str) -> None:
        """An object is gone."""

    def contact(self) -> None:
        """The server was heard from: the state is as of now."""

    def failed(self, error: ApiError) -> None:
        """The last request failed; what is held may be old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Waits and deadlines in seconds. A watch is asked to end after `watch_s` to 1.25 `watch_s`."""

    watch_s: float = 60.0
    grace_s: float = 10.0  # after the server should have ended the watch it counts as stalled
    first_backoff_s: float = 0.5
    max_backoff_s: float = 30.0
    denied_backoff_s: float = 60.0
    relist_s: float = 900.0  # a full list at least this often: a restored server may stay silent for ever
    quick_s: float = 1.0  # a watch shorter than this without an event counts as a failure


class Outcome(StrEnum):
    """What a step did."""

    LISTED = "listed"
    WATCHED = "watched"
    EXPIRED = "expired"
    FAILED = "failed"


@dataclass(slots=True)
class Reflector:
    """Mirror of one kind in one namespace (None = all). `clock` is monotonic seconds; randomness is injected."""

    api: Api
    served: Served
    namespace: str | None
    sink: Sink
    clock: Callable[[], float]
    random: Random
    timing: Timing = field(default_factory=Timing)
    page: int = PAGE
    version: str | None = None  # to watch from; None = list first
    failures: int = 0
    listed_at: float = 0.0

    async def run(self) -> None:
        """Follow the server until cancelled."""
        while True:
            await asyncio.sleep((await self.step())[1])

    async def step(self) -> tuple[Outcome, float]:
        """One list or one watch. Returns what happened and the seconds to wait before the next step."""
        try:
            if self.version is None or self.clock() - self.listed_at >= self.timing.relist_s:
                await self._list()
                outcome = Outcome.LISTED
            elif await self._watch():
                outcome = Outcome.WATCHED
            else:
                self.failures += 1  # ended at once: fine as such, but not to be repeated at full speed
                return Outcome.WATCHED, self._backoff()
        except ApiError as error:
            return self._after(error)
        self.failures = 0
        return outcome, 0.0

    def _after(self, error: ApiError) -> tuple[Outcome, float]:
        self.failures += 1
        if error.gone:
            # Held objects stay visible, marked as reconnecting, until the new list replaces them.
            self.version = None
            self.sink.failed(error)
            return Outcome.EXPIRED, self._backoff() if self.failures > 1 else 0.0
        if error.status in RELIST_AFTER:
            self.version = None
        self.sink.failed(error)
        if error.denied:
            return Outcome.FAILED, self.timing.denied_backoff_s * self.random.uniform(0.75, 1.0)
        return Outcome.FAILED, max(self._backoff(), error.retry_after_s or 0.0)

    def _backoff(self) -> float:
        ceiling = min(self.timing.max_backoff_s, self.timing.first_backoff_s * 2.0 ** (self.failures - 1))
        return self.random.uniform(ceiling / 2.0, ceiling)

    async def _list(self) -> None:
        for _ in range(MAX_RESTARTS_IN_PAGES):
            try:
                views, version = await self._pages()
            except ApiError as error:
                if not error.gone:
                    raise
                continue  # the continue token expired between pages: start over from the present
            self.sink.listed(views)
            self.sink.contact()
            self.version, self.listed_at = version, self.clock()
            return
        raise ApiError(410, "Expired", "the list changed faster than its pages could be read")

    async def _pages(self) -> tuple[list[View], str]:
        path, views = self.served.path(self.namespace), list[View]()
        token = ""
        while True:
            query = {"limit": str(self.page)} | ({"continue": token} if token else {})
            answer = table(await self.api.get(path, query))
            meta = table(answer.get("metadata"))
            views += [v for raw in rows(answer.get("items")) if (v := self._parse(raw)) is not None]
            token = str(meta.get("continue") or "")
            if not token:
                version = meta.get("resourceVersion")
                if not isinstance(version, str) or not version:
                    raise ApiError(0, "NoVersion", "the list carries no resourceVersion")
                return views, version

    def _parse(self, raw: Json) -> View | None:
        return self.served.info.parse(table(raw))

    async def _watch(self) -> bool:
        """Apply events until the server ends the watch. Returns False when it ended at once without any."""
        assert self.version is not None  # noqa: S101 - step() lists first
        seconds = self.timing.watch_s * self.random.uniform(1.0, 1.25)
        query = {
            "watch": "true",
            "resourceVersion": self.version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(seconds))),
        }
        started, seen = self.clock(), False
        path = self.served.path(self.namespace)
        async with self.api.lines(path, query, timeout_s=seconds + self.timing.grace_s) as lines:
            self.sink.contact()
            async for event in _events(lines):
                self._apply(event)
                seen = True
        return seen or self.clock() - started >= self.timing.quick_s

    def _apply(self, event: Table) -> None:
        kind, raw = event.get("type"), table(event.get("object"))
        if kind == "ERROR":
            raise ApiError.of_status(raw, fallback=500)
        version = table(raw.get("metadata")).get("resourceVersion")
        if kind in ("ADDED", "MODIFIED"):
            view = self._parse(raw)
            if view is None:
                self.sink.delete(_key(raw))  # no longer one of ours
            else:
                self.sink.upsert(view)
        elif kind == "DELETED":
            self.sink.delete(_key(raw))
        if isinstance(version, str) and version:
            self.version = version
        self.sink.contact()


def _key(raw: Table) -> str:
    meta = table(raw.get("metadata"))
    name, namespace = str(meta.get("name") or ""), str(meta.get("namespace") or "")
    return f"{namespace}/{name}" if namespace else name


async def _events(lines: AsyncIterator[bytes]) -> AsyncIterator[Table]:
    async for line in lines:
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except ValueError as error:
            raise ApiError(0, "BadEvent", f"a watch line is not JSON: {error}") from error
        yield table(event)
