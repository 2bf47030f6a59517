"""A fake server and a live source that follows it, for tests of faults."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from console.cluster.connect import connect
from console.cluster.fake.access import Access
from console.cluster.fake.box import node
from console.cluster.fake.engines import Engines
from console.cluster.fake.server import FakeServer
from console.cluster.fake.store import Store
from console.cluster.kinds import Kind
from console.cluster.live import LiveOptions, LiveSource
from console.cluster.reflector import Timing
from console.cluster.state import Identity, Snapshot

FAST = Timing(
    watch_s=1.0, grace_s=0.5, first_backoff_s=0.02, max_backoff_s=0.2, denied_backoff_s=0.1, quick_s=0.0
)
DECODE = {"llm-d.ai/role": "decode", "leaderworkerset.sigs.k8s.io/name": "lws"}


def engine_pod(
    name: str, *, group: int = 0, worker: int = 0, ports: int = 2, **status: Any
) -> dict[str, Any]:
    """A running engine pod with `ports` ranks."""
    labels = {
        **DECODE,
        "leaderworkerset.sigs.k8s.io/group-index": str(group),
        "leaderworkerset.sigs.k8s.io/worker-index": str(worker),
    }
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "nodeName": "gpu-000",
            "containers": [
                {
                    "name": "vllm",
                    "image": "vllm:v1",
                    "args": ["vllm serve m --api-key=hunter2 --port 8000"],
                    "env": [{"name": "HF_TOKEN", "value": "canary-token"}],
                    "ports": [{"name": f"rank{i}", "containerPort": 8000 + i} for i in range(ports)],
                    "resources": {"limits": {"nvidia.com/gpu": "8"}},
                }
            ],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "vllm", "ready": True, "restartCount": 0}],
            **status,
        },
    }


@dataclass
class World:
    """The server, the source that follows it, and what it takes to make another of either."""

    server: FakeServer
    source: LiveSource
    engines: Engines
    kubeconfig: Path
    wall: Callable[[], float] = field(default=time.time)

    def put(self, pod: dict[str, Any]) -> None:
        """Store a pod."""
        self.server.put("v1", "pods", pod)

    async def until(self, done: Callable[[Snapshot], bool], *, timeout_s: float = 5.0) -> Snapshot:
        """Wait for a snapshot that satisfies `done`."""
        deadline = time.monotonic() + timeout_s
        while True:
            snapshot = self.source.snapshot()
            if done(snapshot):
                return snapshot
            if time.monotonic() > deadline:
                msg = f"never happened; pods {sorted(snapshot.pods)}, {snapshot.kinds[Kind.PODS].trust}, {snapshot.silent}"
                raise AssertionError(msg)
            await self.source.changed(0.05)


@asynccontextmanager
async def world(
    tmp_path: Path,
    *,
    access: Access | None = None,
    token: str = "",
    metrics: bool = False,
    timing: Timing = FAST,
    kinds: tuple[Kind, ...] = tuple(Kind),
    start: bool = True,
    wall: Callable[[], float] = time.time,
    builtins: Any = None,
    store: Store | None = None,
) -> AsyncIterator[World]:
    """A server with one node and one engine pod, followed by a live source."""
    more = {} if builtins is None else {"builtins": builtins}
    server = FakeServer(access=access, store=store, **more)
    started = time.monotonic()
    engines = Engines(server, clock=lambda: 100.0 + time.monotonic() - started)
    server.proxy = engines
    server.put("v1", "nodes", node("gpu-000"))
    server.put("v1", "pods", engine_pod("lws-0"))
    await server.start()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(server.kubeconfig(token=token), encoding="utf-8")
    api = connect(kubeconfig=str(kubeconfig))
    options = LiveOptions(namespace="default", metrics=metrics, timing=timing, kinds=kinds, period_s=0.2)
    identity = Identity(source="live", context="test", server=api.server, namespace="default")
    source = LiveSource(api, options, identity=identity, random=Random(1), wall=wall)  # noqa: S311
    try:
        if start:
            await source.start()
            await source.ready(5.0)
        yield World(server, source, engines, kubeconfig, wall)
    finally:
        await source.close()
        await server.stop()
        await asyncio.sleep(0)
