"""A simulated cluster as a source: a cluster in a box in this process, followed over loopback like a real one.

The same client, reflectors and scraper run as against a real server, so what works here works there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from console.cluster.api import Api
from console.cluster.connect import connect
from console.cluster.fake.box import Box, cluster_in_a_box
from console.cluster.fake.engines import Load
from console.cluster.live import LiveOptions, LiveSource
from console.cluster.state import Change, Identity, Snapshot

NAMESPACE = "default"


class SimulatedSource:
    """Starts its box with `start` and stops it with `close`. `objects` are manifests, applied at once."""

    def __init__(
        self,
        objects: Iterable[Mapping[str, Any]] = (),
        *,
        nodes: int = 4,
        loads: Mapping[str, Load] | None = None,
        period_s: float = 2.0,
    ) -> None:
        self._objects = tuple(objects)
        self._nodes = nodes
        self._loads = loads
        self._period_s = period_s
        self._stack = AsyncExitStack()
        self._live: LiveSource | None = None
        self._listeners: list[Callable[[Change], None]] = []
        self.box: Box | None = None

    @property
    def api(self) -> Api | None:
        """The server in the box, once started."""
        return self._live.api if self._live is not None else None

    async def start(self) -> None:
        """Start the box and follow it."""
        self.box = await self._stack.enter_async_context(
            cluster_in_a_box(nodes=self._nodes, objects=self._objects, loads=self._loads)
        )
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="wideplan-"))
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(self.box.kubeconfig(namespace=NAMESPACE), encoding="utf-8")
        api = connect(kubeconfig=str(kubeconfig))
        self._live = LiveSource(
            api,
            LiveOptions(namespace=NAMESPACE, period_s=self._period_s),
            identity=Identity(
                source="simulated", context=api.target.context, server=api.server, namespace=NAMESPACE
            ),
        )
        for listener in self._listeners:
            self._live.subscribe(listener)
        self._stack.push_async_callback(self._live.close)
        await self._live.start()

    def _started(self) -> LiveSource:
        if self._live is None:
            msg = "the simulated cluster was not started"
            raise RuntimeError(msg)
        return self._live

    def subscribe(self, listener: Callable[[Change], None]) -> None:
        """Call `listener` after each change."""
        self._listeners.append(listener)
        if self._live is not None:
            self._live.subscribe(listener)

    async def ready(self, timeout_s: float) -> bool:
        """Wait until every kind is settled."""
        return await self._started().ready(timeout_s)

    async def changed(self, timeout_s: float) -> bool:
        """Wait for a change since the last snapshot."""
        return await self._started().changed(timeout_s)

    def snapshot(self) -> Snapshot:
        """The state now."""
        return self._started().snapshot()

    async def close(self) -> None:
        """Stop following, then the box."""
        await self._stack.aclose()
