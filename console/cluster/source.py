"""Where a cluster's state comes from: a live server, a recording, a simulated cluster. One protocol for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from console.cluster.api import Api
from console.cluster.state import Change, Snapshot


class ClusterSource(Protocol):
    """A source of snapshots."""

    async def start(self) -> None:
        """Begin to follow. Raises ClusterError when nothing can be read at all."""

    async def ready(self, timeout_s: float) -> bool:
        """Wait until every kind was listed, denied or found absent. Returns False after `timeout_s`."""

    async def changed(self, timeout_s: float) -> bool:
        """Wait for a change since the last snapshot. Returns False after `timeout_s`."""

    def snapshot(self) -> Snapshot:
        """The state now."""

    def subscribe(self, listener: Callable[[Change], None]) -> None:
        """Call `listener` after each change."""

    @property
    def api(self) -> Api | None:
        """The server behind it; None for a recording."""

    async def close(self) -> None:
        """Stop following and release connections."""
