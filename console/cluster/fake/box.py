"""A cluster in a box: API server, controllers, nodes and engines in this process, on a loopback port."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from console.cluster.fake.access import Access
from console.cluster.fake.controllers import Controllers
from console.cluster.fake.engines import Engines, Load
from console.cluster.fake.server import FakeServer

Obj = Mapping[str, Any]


@dataclass(slots=True)
class Box:
    """A running box."""

    server: FakeServer
    controllers: Controllers
    engines: Engines
    address: str

    def kubeconfig(self, *, namespace: str = "default") -> str:
        """A kubeconfig for it, as YAML."""
        return self.server.kubeconfig(namespace=namespace)


def node(
    name: str,
    *,
    gpus: int = 8,
    product: str = "NVIDIA-H200",
    rdma: Mapping[str, str] | None = None,
    **labels: str,
) -> dict[str, Any]:
    """A GPU node as a cloud would show it."""
    amounts = {"cpu": "192", "memory": "2113632524Ki", "ephemeral-storage": "3500Gi", "nvidia.com/gpu": str(gpus),
               "pods": "110", **(rdma if rdma is not None else {"rdma/ib": "1k"})}  # fmt: skip
    return {
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "nvidia.com/gpu.product": product,
                "nvidia.com/gpu.count": str(gpus), **labels,
            },
        },
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip


@asynccontextmanager
async def cluster_in_a_box(
    *,
    nodes: int = 4,
    objects: Iterable[Obj] = (),
    loads: Mapping[str, Load] | None = None,
    crds: Iterable[Obj] = (),
    access: Access | None = None,
    port: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Box]:
    """Start a box with `nodes` nodes of 8 H200 and `objects` applied; stopped at the end."""
    server = FakeServer(crds=crds, access=access)
    started = clock()
    engines = Engines(server, clock=lambda: clock() - started, loads=loads or {})
    server.proxy = engines
    server.put("v1", "namespaces", {"metadata": {"name": "default"}, "status": {"phase": "Active"}})
    for i in range(nodes):
        server.put("v1", "nodes", node(f"gpu-{i:03d}"))
    for obj in objects:
        put(server, obj)
    controllers = Controllers(server)
    controllers.step()
    address = await server.start(port=port)
    task = asyncio.create_task(controllers.run())
    try:
        yield Box(server, controllers, engines, address)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await server.stop()


def put(server: FakeServer, obj: Obj, *, namespace: str = "default") -> None:
    """Store a manifest by its kind; kinds the server does not know are left out."""
    for res in server.kinds():
        if res.kind == obj["kind"] and res.api_version == obj["apiVersion"]:
            meta = dict(obj["metadata"])
            if res.namespaced:
                meta.setdefault("namespace", namespace)
            server.put(res.api_version, res.plural, {**obj, "metadata": meta})
            return
