"""The stream: whole states, resumed by the last id, nothing repeated, nothing read while nobody listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from console.api.events import MOST_STREAMS, Event, Hub
from console.api.routes.events import _lines
from planner.domain.errors import InputError, Issue


class Counter:
    """A topic whose state is set by the test."""

    def __init__(self) -> None:
        self.state = "a"
        self.reads = 0

    async def read(self) -> str:
        self.reads += 1
        return self.state


async def _next(stream: AsyncGenerator[Event, None]) -> Event:
    return await asyncio.wait_for(anext(stream), 2.0)


async def _silent(stream: AsyncGenerator[Event, None]) -> bool:
    waiting = asyncio.ensure_future(anext(stream))
    done, _ = await asyncio.wait({waiting}, timeout=0.08)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    return not done


def _hub(**topics: Counter) -> Hub:
    hub = Hub()
    for name, counter in topics.items():
        hub.add(name, counter.read, every_s=0.01)
    return hub


def test_first_the_state_then_each_change_once() -> None:
    async def run() -> None:
        topic = Counter()
        stream = _hub(t=topic).stream(("t",), "")
        assert (await _next(stream)).data == "a"
        topic.state = "b"
        assert (await _next(stream)).data == "b"
        assert await _silent(stream)

    asyncio.run(run())


def test_a_stream_that_resumes_gets_only_what_it_missed() -> None:
    async def run() -> None:
        topic = Counter()
        hub = _hub(t=topic)
        stream = hub.stream(("t",), "")
        first = await _next(stream)
        await stream.aclose()
        again = hub.stream(("t",), first.id)
        assert await _silent(again)
        await again.aclose()
        topic.state = "b"
        third = hub.stream(("t",), first.id)
        assert (await _next(third)).data == "b"
        await third.aclose()

    asyncio.run(run())


@pytest.mark.parametrize("after", ["", "other-7", "nonsense", "-", "x-1e9", "\u0661-\u0661"])
def test_an_id_of_another_run_gives_the_whole_state(after: str) -> None:
    async def run() -> None:
        stream = _hub(t=Counter()).stream(("t",), after)
        assert (await _next(stream)).data == "a"

    asyncio.run(run())


def test_listeners_share_one_reader_and_the_last_one_stops_it() -> None:
    async def run() -> None:
        topic = Counter()
        hub = _hub(t=topic)
        streams = [hub.stream(("t",), "") for _ in range(10)]
        for s in streams:
            await _next(s)
        assert topic.reads <= 4
        for s in streams:
            await s.aclose()
        reads = topic.reads
        await asyncio.sleep(0.05)
        assert topic.reads == reads
        assert hub.streams == 0

    asyncio.run(run())


def test_several_topics_in_one_stream_in_order_of_their_changes() -> None:
    async def run() -> None:
        one, two = Counter(), Counter()
        stream = _hub(one=one, two=two).stream(("one", "two"), "")
        got = [await _next(stream), await _next(stream)]
        assert {e.topic for e in got} == {"one", "two"}
        two.state = "c"
        assert (await _next(stream)).topic == "two"

    asyncio.run(run())


def test_an_error_is_said_and_the_topic_goes_on() -> None:
    async def run() -> None:
        broken = True

        async def read() -> str:
            if broken:
                raise InputError(Issue(code="x.y", what="w", why="y", fix="f"))
            return "fine"

        hub = Hub()
        hub.add("t", read, every_s=0.01)
        stream = hub.stream(("t",), "")
        assert '"x.y"' in (await _next(stream)).data
        broken = False
        assert (await _next(stream)).data == "fine"

    asyncio.run(run())


def test_closing_ends_every_stream() -> None:
    async def run() -> None:
        hub = _hub(t=Counter())
        stream = hub.stream(("t",), "")
        await _next(stream)
        ended = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.02)
        hub.close()
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(ended, 1.0)

    asyncio.run(run())


def test_lines_on_the_wire() -> None:
    async def run() -> None:
        hub = _hub(t=Counter())
        lines = _lines(hub, ("t",), "")
        assert (await anext(lines)).startswith("retry: ")
        event = await asyncio.wait_for(anext(lines), 1.0)
        assert event.endswith("event: t\ndata: a\n\n")
        await lines.aclose()
        assert hub.streams == 0

    asyncio.run(run())


def test_unknown_topics_and_too_many_streams_are_refused(console: Any) -> None:
    answer = console.get("/api/v1/events", topics="studeis")
    assert answer.status_code == 422
    assert "studies" in answer.json()["issues"][0]["fix"]

    async def crowd() -> None:
        hub = _hub(t=Counter())
        streams = [hub.stream(("t",), "") for _ in range(MOST_STREAMS)]
        for s in streams:
            await _next(s)
        with pytest.raises(InputError):
            hub.check(("t",))
        for s in streams:
            await s.aclose()

    asyncio.run(crowd())
