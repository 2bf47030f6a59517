"""The endless part of `planner cluster watch`: at most four updates a second, however many events there are."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING

from planner.cli.render_cluster import overview_json, print_overview

if TYPE_CHECKING:
    from console.cluster.source import ClusterSource

COALESCE_S = 0.25
IDLE_S = 5.0


async def follow(source: ClusterSource, *, updates: int | None, json: bool) -> None:
    """Print the overview after each change, and every few seconds so that ages move."""
    from console.cluster.recording import RecordedSource
    from console.views.cluster import overview

    shown = 0
    while updates is None or shown < updates:
        started = time.monotonic()
        view = overview(source.snapshot())
        if json:
            _line(overview_json(view))
        else:
            if sys.stdout.isatty():
                sys.stdout.write("\x1b[H\x1b[2J")
            print_overview(view)
            sys.stdout.flush()
        shown += 1
        if isinstance(source, RecordedSource) and source.ended and not await source.changed(0.0):
            return
        shown_s = time.monotonic() - started
        await source.changed(IDLE_S)
        # A big cluster takes a while to show; events must not wait for it more than a third of the time.
        await asyncio.sleep(max(COALESCE_S, 2.0 * shown_s))


def _line(payload: object) -> None:
    body = payload if isinstance(payload, dict) else {}
    sys.stdout.write(json.dumps({"schema": "wideplan.cluster-status/v1", **body}, allow_nan=False) + "\n")
    sys.stdout.flush()
