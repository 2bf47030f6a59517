"""Drive the app by key presses, without a clock: every step waits for the app's own workers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input

from console.tui.app import PlannerApp
from console.tui.services import Services, real_services
from console.tui.settings import Settings
from planner.search.ask import Request
from tests.views.cluster_samples import StillSource
from tests.views.samples import REQUEST, sample_solved

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
SIZES = ((80, 24), (120, 36), (200, 50))
KEYS = {" ": "space", "/": "slash", "(": "left_parenthesis", ")": "right_parenthesis", ",": "comma", ":": "colon",
        "<": "less_than_sign", ">": "greater_than_sign", "!": "exclamation_mark", "-": "minus", ".": "full_stop",
        "_": "underscore", "%": "percent_sign"}  # fmt: skip

PAUSE_S = 0.04  # longer than the app waits for more typing under test

Script = Callable[[Pilot[Any]], Awaitable[None]]


def sample_services(folder: Path = Path("/tmp"), **changes: Any) -> Services:  # noqa: S108 - shown, never written
    """Services whose answer is the made-up sample."""
    base = replace(
        real_services(),
        solve=sample_solved,
        now=lambda: NOW,
        folder=folder,
        open_cluster=lambda _: StillSource(),
    )
    return replace(base, **changes)


def sample_app(
    *, request: Request | None = REQUEST, services: Services | None = None, **changes: Any
) -> PlannerApp:
    """The app on the sample."""
    settings = changes.pop("settings", Settings())
    return PlannerApp(services or sample_services(), request=request, origin="sample", settings=settings)


async def settle(pilot: Pilot[Any]) -> None:
    """Until workers are done and what they changed is drawn; a worker that was replaced by a later one does not count."""
    for _ in range(2):
        await pilot.pause(PAUSE_S)
        while any(not w.is_finished for w in pilot.app.workers):
            await pilot.pause(0.01)
    await pilot.pause()
    for line in pilot.app.screen.query(Input):
        line.cursor_blink = False


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys one after the other; text in quotes is typed."""
    for key in keys:
        if key.startswith("'"):
            await pilot.press(*(KEYS.get(c, c) for c in key.strip("'")))
        else:
            await pilot.press(key)
        await settle(pilot)


def drive(app: PlannerApp, script: Script, *, size: tuple[int, int] = (120, 36)) -> None:
    """Run `script` on the mounted app."""

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            await script(pilot)

    asyncio.run(run())


def before(*keys: str) -> Callable[[Pilot[Any]], Awaitable[None]]:
    """For snapshots: settle, then press keys."""

    async def run(pilot: Pilot[Any]) -> None:
        await settle(pilot)
        await press(pilot, *keys)

    return run


def text_of(app: PlannerApp) -> str:
    """What is on the screen, as lines of text."""
    return "\n".join("".join(s.text for s in strip) for strip in app.screen._compositor.render_strips())


def notes_of(app: PlannerApp) -> str:
    """What was notified, as text."""
    return "\n".join(n.message for n in app._notifications)


async def until(pilot: Pilot[Any], done: Callable[[], bool], *, tries: int = 250) -> None:
    """Wait for another thread of the app."""
    for _ in range(tries):
        if done():
            await settle(pilot)
            return
        await pilot.pause(0.02)
    msg = f"never happened; on screen:\n{text_of(pilot.app)}"
    raise AssertionError(msg)
