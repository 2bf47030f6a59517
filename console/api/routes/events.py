"""One stream of server-sent events per page."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from console.api.events import Hub
from console.api.queries import State
from console.api.state import viewer_of

router = APIRouter(prefix="/api/v1", tags=["events"])
KEEP_ALIVE_S = 15.0
RETRY_MS = 2000
REVIEWED_S = 300.0  # then the browser asks again, and so is the API server about the viewer


@router.get("/events", response_class=StreamingResponse)
async def events(
    state: State,
    request: Request,
    topics: Annotated[str, Query(max_length=128)] = "studies",
    after: Annotated[str, Query(max_length=64)] = "",
    last_event_id: Annotated[str, Header(max_length=64)] = "",
) -> StreamingResponse:
    """Events of some topics, separated by commas. A stream resumes after ``Last-Event-ID``, or after `after`."""
    names = tuple(dict.fromkeys(t for t in topics.split(",") if t))
    state.hub.check(names)
    if "cluster" in names and state.reviewer is not None:
        await state.reviewer.may_read(viewer_of(request))
    return StreamingResponse(
        _lines(
            state.hub, names, last_event_id or after, longest_s=REVIEWED_S if state.reviewer else math.inf
        ),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def _lines(
    hub: Hub, names: tuple[str, ...], after: str, *, longest_s: float = math.inf
) -> AsyncGenerator[str, None]:
    ends = time.monotonic() + longest_s
    yield f"retry: {RETRY_MS}\n\n"
    source = hub.stream(names, after)
    waiting = asyncio.ensure_future(anext(source))
    try:
        while time.monotonic() < ends:
            done, _ = await asyncio.wait({waiting}, timeout=KEEP_ALIVE_S)
            if not done:
                yield ": still here\n\n"
                continue
            try:
                event = waiting.result()
            except StopAsyncIteration:
                return
            yield f"id: {event.id}\nevent: {event.topic}\ndata: {event.data}\n\n"
            waiting = asyncio.ensure_future(anext(source))
    finally:
        waiting.cancel()
        with suppress(asyncio.CancelledError, StopAsyncIteration):
            await waiting
        await source.aclose()
