"""Live state for pages: each topic is read while somebody listens, and sent when it changed.

An event carries the whole state of its topic, so whoever missed some needs only the last one: a stream that resumes with
the id it saw last gets that, or nothing when nothing changed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from console.api.wire import issues_of
from planner.domain.errors import InputError, Issue, PlannerError, did_you_mean

Read: TypeAlias = Callable[[], Awaitable[str]]
MOST_STREAMS: Final = 64


@dataclass(frozen=True, slots=True)
class Event:
    """The state of a topic as one line of JSON, numbered over all topics."""

    topic: str
    id: str
    data: str


@dataclass(slots=True)
class _Topic:
    read: Read
    every_s: float
    last: Event | None = None
    number: int = 0
    listeners: int = 0
    task: asyncio.Task[None] | None = None


class Hub:
    """Reads topics for all listeners together."""

    def __init__(self) -> None:
        self._epoch = secrets.token_hex(4)  # ids of another run of the server mean nothing here
        self._number = 0
        self._topics: dict[str, _Topic] = {}
        self._wakers: set[asyncio.Event] = set()
        self._closed = False

    def add(self, name: str, read: Read, *, every_s: float) -> None:
        """Offer a topic; `read` gives its state as one line of JSON."""
        self._topics[name] = _Topic(read, every_s)

    @property
    def topics(self) -> tuple[str, ...]:
        """Names of all topics."""
        return tuple(self._topics)

    @property
    def streams(self) -> int:
        """Open streams."""
        return len(self._wakers)

    def check(self, names: Sequence[str]) -> None:
        """Raise InputError ``events.topic`` or ``events.streams``."""
        for name in names:
            if name not in self._topics:
                raise InputError(
                    Issue(
                        code="events.topic",
                        what=f"topic '{name[:40]}'",
                        why="there is no such topic",
                        fix=did_you_mean(name, self._topics),
                    )
                )
        if self.streams >= MOST_STREAMS:
            raise InputError(
                Issue(
                    code="events.streams",
                    what=f"{MOST_STREAMS} streams are open",
                    why="each page keeps one",
                    fix="close pages that are not needed",
                )
            )

    async def stream(self, names: Sequence[str], after: str) -> AsyncGenerator[Event, None]:
        """Events of `names` from the one after `after` on, until the listener leaves or the hub closes."""
        waker = asyncio.Event()
        self._wakers.add(waker)
        seen = self._seen(after)
        for name in names:
            self._join(name)
        try:
            while not self._closed:
                waker.clear()
                news = [t for n in names if (t := self._topics[n]).last is not None and t.number > seen]
                for topic in sorted(news, key=lambda t: t.number):
                    seen = topic.number
                    if topic.last is not None:
                        yield topic.last
                if not news:
                    await waker.wait()
        finally:
            self._wakers.discard(waker)
            for name in names:
                self._leave(name)

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        for topic in self._topics.values():
            if topic.task is not None:
                topic.task.cancel()
        self._wake()

    def _seen(self, after: str) -> int:
        epoch, _, number = after.partition("-")
        return int(number) if epoch == self._epoch and number.isdecimal() else 0

    def _join(self, name: str) -> None:
        topic = self._topics[name]
        topic.listeners += 1
        if topic.task is None or topic.task.done():
            topic.task = asyncio.get_running_loop().create_task(self._follow(name, topic))

    def _leave(self, name: str) -> None:
        topic = self._topics[name]
        topic.listeners -= 1
        if topic.listeners == 0 and topic.task is not None:
            topic.task.cancel()
            topic.task = None

    async def _follow(self, name: str, topic: _Topic) -> None:
        while True:
            try:
                data = await topic.read()
            except PlannerError as error:  # a locked store or a lost cluster: said, and tried again
                data = issues_of(*error.issues).model_dump_json()
            if topic.last is None or topic.last.data != data:
                self._number += 1
                topic.number = self._number
                topic.last = Event(name, f"{self._epoch}-{self._number}", data)
                self._wake()
            await asyncio.sleep(topic.every_s)

    def _wake(self) -> None:
        for waker in self._wakers:
            waker.set()
