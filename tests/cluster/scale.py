"""A big cluster in its own process, and a client that measures itself. Run: python scale.py serve|client ..."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from console.cluster.connect import connect
from console.cluster.fake.box import node
from console.cluster.fake.engines import Engines
from console.cluster.fake.server import FakeServer
from console.cluster.kinds import Kind
from console.cluster.live import LiveOptions, LiveSource
from console.cluster.state import Identity
from console.views.cluster import overview

ENGINES = 1000


def pod_at(index: int) -> dict[str, Any]:
    """The first thousand pods are engines with eight ranks, the others something else of the same size."""
    pod = big_pod(index)
    if index >= ENGINES:
        pod["metadata"] |= {"name": f"other-{index}", "labels": {"app": "other"}}
        pod["spec"]["containers"][0] |= {"name": "app", "image": "app:v1", "args": ["serve"]}
    return pod


def big_pod(index: int, *, filler: int = 40) -> dict[str, Any]:
    """A pod of about 5 kB, as real ones are: most of it is never kept."""
    group, worker = divmod(index, 2)
    return {
        "metadata": {
            "name": f"ds-0-abcd1234-decode-{group}" + (f"-{worker}" if worker else ""),
            "namespace": "default",
            "labels": {
                "llm-d.ai/role": "decode",
                "llm-d.ai/guide": "big",
                "leaderworkerset.sigs.k8s.io/name": "ds-0-abcd1234-decode",
                "leaderworkerset.sigs.k8s.io/group-index": str(group),
                "leaderworkerset.sigs.k8s.io/worker-index": str(worker),
                "disaggregatedset.x-k8s.io/name": "ds",
                "disaggregatedset.x-k8s.io/role": "decode",
            },
            "annotations": {"leaderworkerset.sigs.k8s.io/size": "2"},
            "managedFields": [{"manager": "m", "fieldsV1": {f"f:field{i}": {} for i in range(filler)}}],
        },
        "spec": {
            "nodeName": f"gpu-{index % 1000:03d}",
            "containers": [
                {
                    "name": "vllm",
                    "image": "registry.example/vllm:v0.33.0",
                    "command": ["/bin/bash", "-c"],
                    "args": [
                        "exec vllm serve model --tensor-parallel-size 1 --data-parallel-size 16 --port 8000"
                    ],
                    "env": [{"name": f"VARIABLE_{i}", "value": f"value number {i}"} for i in range(filler)],
                    "ports": [{"name": f"rank{i}", "containerPort": 8000 + i} for i in range(8)],
                    "resources": {"limits": {"nvidia.com/gpu": "8", "rdma/ib": "1"}},
                }
            ],
        },
        "status": {
            "phase": "Running",
            "podIP": f"10.{index // 65536}.{index // 256 % 256}.{index % 256}",
            "conditions": [{"type": t, "status": "True"} for t in ("PodScheduled", "Initialized", "Ready")],
            "containerStatuses": [{"name": "vllm", "ready": True, "started": True, "restartCount": 0}],
        },
    }


async def serve(pods: int, nodes: int, storm_per_s: int) -> None:
    """Print the port, then serve; on a line from stdin start a storm of changes for five seconds."""
    server = FakeServer()
    engines = Engines(server, clock=time.monotonic)
    server.proxy = engines
    for i in range(nodes):
        server.put("v1", "nodes", node(f"gpu-{i:03d}"))
    for i in range(pods):
        server.put("v1", "pods", pod_at(i))
    await server.start()
    print(server.port, flush=True)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sys.stdin.readline)
    for tick in range(50):
        for j in range(storm_per_s // 10):
            pod = dict(
                server.store.get(
                    ("", "pods"), ("default", pod_at((tick * 77 + j) % pods)["metadata"]["name"])
                )
                or {}
            )
            pod["status"] = {**pod["status"], "message": f"{time.time()}"}
            server.put("v1", "pods", pod)
        await asyncio.sleep(0.1)
    await asyncio.sleep(600)


async def client(port: int, kubeconfig: str, *, metrics: bool) -> None:
    """Follow the server on `port` and report: time to the first state, memory, lag in a storm, one scrape round."""
    started = time.monotonic()
    api = connect(kubeconfig=kubeconfig)
    options = LiveOptions(
        namespace="default", metrics=metrics, kinds=(Kind.PODS, Kind.NODES, Kind.POOLS, Kind.GROUP_SETS)
    )
    identity = Identity(source="live", context="big", server=api.server, namespace="default")
    source = LiveSource(api, options, identity=identity)
    await source.start()
    ready = await source.ready(60.0)
    first = time.monotonic() - started
    built = time.monotonic()
    view = overview(source.snapshot())
    built = time.monotonic() - built
    answer = {"ready": ready, "first_state_s": first, "overview_s": built, "pods": len(source.snapshot().pods),
              "nodes": len(source.snapshot().nodes), "endpoints": len(view.endpoints), "mib": _mib()}  # fmt: skip
    print(json.dumps(answer), flush=True)
    sys.stdin.readline()
    lags: list[float] = []
    slowest = 0.0
    changes = 0

    def note(change: Any) -> None:
        nonlocal changes
        changes += 1
        sent = [float(v.message) for v in getattr(change, "views", ()) if getattr(v, "message", "")]
        lags.extend(time.time() - at for at in sent)

    source.subscribe(note)
    end = time.monotonic() + 6.0
    while time.monotonic() < end:
        await source.changed(0.5)
        shown = time.monotonic()
        overview(source.snapshot())
        slowest = max(slowest, time.monotonic() - shown)
        await asyncio.sleep(max(0.25, 2 * (time.monotonic() - shown)))
    lags.sort()
    answer = {"events": changes, "lag_p50_s": lags[len(lags) // 2], "lag_max_s": lags[-1],
              "slowest_view_s": slowest, "mib": _mib()}  # fmt: skip
    print(json.dumps(answer), flush=True)
    await source.close()


def _mib() -> float:
    """Peak memory of this program; getrusage would report that of the test runner it was forked from."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(serve(int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
    else:
        asyncio.run(client(int(sys.argv[2]), sys.argv[3], metrics=False))
