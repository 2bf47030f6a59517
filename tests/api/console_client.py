"""A console on a database of its own, asked in process; no network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy.engine import URL

from console.api.access import Access
from console.api.app import create_app
from console.api.settings import Settings

BASE = "http://127.0.0.1:8765"


@dataclass
class Console:
    """The application, its secrets, and requests against it from plain functions."""

    app: Any
    access: Access
    settings: Settings
    loop: asyncio.AbstractEventLoop

    def client(self, **headers: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app, raise_app_exceptions=False),
            base_url=BASE,
            headers=headers,
        )

    def ask(self, method: str, path: str, *, login: bool = True, **kwargs: Any) -> httpx.Response:
        async def run() -> httpx.Response:
            headers = {"authorization": f"Bearer {self.access.bearer}"} if login else {}
            async with self.client(**headers) as client:
                return await client.request(method, path, **kwargs)

        return self.loop.run_until_complete(run())

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.ask("GET", path, params=query)

    def run(self, work: Callable[[], Any]) -> Any:
        return self.loop.run_until_complete(work())


@asynccontextmanager
async def started(app: Any) -> AsyncIterator[None]:
    async with app.inner.router.lifespan_context(app.inner):
        yield


def make_console(
    folder: Path,
    *,
    before: Callable[[], Any] | None = None,
    ready: Callable[[Any], object] | None = None,
    **changes: Any,
) -> Iterator[Console]:
    """A started console; `before` gives an asynchronous context that is entered first, `ready` is told what it gave."""
    settings = Settings(
        store=URL.create("sqlite", database=str(folder / "store.db")), uploads=folder / "uploads", **changes
    )
    access = Access(user="tester")
    app = create_app(settings, access=access)
    loop = asyncio.new_event_loop()
    outer = before() if before is not None else None
    if outer is not None:
        given = loop.run_until_complete(outer.__aenter__())
        if ready is not None:
            ready(given)
    context = started(app)
    loop.run_until_complete(context.__aenter__())
    try:
        yield Console(app, access, settings, loop)
    finally:
        loop.run_until_complete(context.__aexit__(None, None, None))
        if outer is not None:
            loop.run_until_complete(outer.__aexit__(None, None, None))
        loop.close()
