"""Rules about pods: shared memory, probes, network devices, start order (L01, L15, L18, L19, L21, L23-L25)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.export.lint.core import ERROR, INFO, WARNING, Hit, Scene, rule
from planner.export.lint.engine import pod_path, served_model
from planner.export.values import dig, number, quantity, rows, table
from planner.export.view import EngineView

_GIB = 2**30
_CLEARS = re.compile(r"/dev/shm[^\n]*(-delete|rm )|rm [^\n]*/dev/shm")  # noqa: S108
_RDMA = ("rdma/", "vpc.amazonaws.com/efa", "amd.com/vnic", "networking.gke.io.networks/", "sriov-rdma")


def _shm_bytes(engine: EngineView) -> float | None:
    """Size of the volume at /dev/shm; infinity when it has no limit, None when there is none."""
    names = {
        str(table(m).get("name"))
        for m in rows(engine.container.get("volumeMounts"))
        if table(m).get("mountPath") == "/dev/shm"  # noqa: S108
    }
    for raw in rows(engine.pod.get("volumes")):
        volume = table(raw)
        if volume.get("name") in names:
            limit = quantity(dig(volume, "emptyDir", "sizeLimit"))
            return float("inf") if limit is None else limit
    return None


def _offload_bytes(engine: EngineView) -> float:
    """CPU bytes of KV offload that live in shared memory."""
    size = engine.command.text("kv-offloading-size")
    if size is not None and re.fullmatch(r"\d+(\.\d+)?", size):
        return float(size) * _GIB
    found = re.search(r"cpu_bytes_to_use[\"'\\]*\s*:\s*(\d+)", str(engine.command.args))
    return float(found[1]) * engine.dp_local if found else 0.0


@rule(
    "L01",
    ERROR,
    "shared memory too small, or left over from the last crash",
    why="NCCL fails with 'no space'; /dev/shm outlives the container, so one crash becomes a crash loop",
    fix="mount a Memory emptyDir of at least 2Gi at /dev/shm and clear it before vllm starts",
    source="llm-d#352, vllm#54002",
)
def shared_memory(scene: Scene) -> Iterator[Hit]:
    """Volume at /dev/shm, its size, and the clean-up."""
    for e in scene.bundle.engines:
        if e.tp * e.dp_local == 1 and not _offload_bytes(e):
            continue
        size = _shm_bytes(e)
        needed = max(2 * _GIB, _offload_bytes(e))
        if size is None:
            yield Hit(e.document, f"{pod_path(e)}.volumes", f"{e.label}: no volume at /dev/shm (64 MiB)")
        elif size < needed:
            yield Hit(
                e.document,
                f"{pod_path(e)}.volumes",
                f"{e.label}: {size / _GIB:.1f} GiB at /dev/shm, {needed / _GIB:.1f} GiB needed",
            )
        if size is not None and not _CLEARS.search(e.script):
            yield Hit(
                e.document,
                f"{pod_path(e)}.containers",
                f"{e.label}: the start script does not clear /dev/shm",
                "find /dev/shm -type f -delete before vllm serve",
                WARNING,
            )


@rule(
    "L15",
    WARNING,
    "workers give up while the leader is still pulling its image",
    why="the leader's DNS name does not exist yet; with RecreateGroupOnPodRestart the whole group starts again",
    fix="wait for LWS_LEADER_ADDRESS to resolve before vllm starts; one image on all pods",
    source="lws#746",
)
def leader_name(scene: Scene) -> Iterator[Hit]:
    """A wait for the leader's name in groups of several pods."""
    waits = re.compile(r"getent|nslookup|dig |host |ping |until |nc -z|socket\.getaddrinfo")
    for e in scene.bundle.engines:
        if e.size < 2 or not e.in_lws:
            continue
        inits = " ".join(
            str(table(c).get("args")) + str(table(c).get("command"))
            for c in rows(e.pod.get("initContainers"))
        )
        if not waits.search(e.script) and not waits.search(inits):
            yield Hit(e.document, pod_path(e), f"{e.label}: nothing waits for the leader's DNS name")
        if e.leader_template is not None:
            worker = [str(table(c).get("image")) for c in rows(dig(e.template, "spec", "containers"))]
            if e.image not in worker:
                yield Hit(
                    e.document, pod_path(e), f"{e.label}: leader runs {e.image}, workers {', '.join(worker)}"
                )


def _mnnvl(engine: EngineView) -> bool:
    return engine.env.get("VLLM_DEEPEP_LOW_LATENCY_USE_MNNVL") == "1" or "FABRIC" in engine.env.get(
        "NVSHMEM_CUMEM_HANDLE_TYPE", ""
    )


@rule(
    "L18",
    ERROR,
    "DeepEP across nodes without what its transport needs",
    why="low-latency kernels start RDMA from the GPU (IBGDA); over RoCE they need the patched NVSHMEM, over EFA they cannot run",
    fix="set NVSHMEM_REMOTE_TRANSPORT=ibgda and NVSHMEM_IB_ENABLE_IBGDA=true, use the llm-d-cuda image on RoCE, or another backend",
    source="DeepEP#139, #38, #321, #759; llm-d image notes",
)
def deepep_transport(scene: Scene) -> Iterator[Hit]:
    """IBGDA settings, RoCE image, EFA."""
    for e in scene.bundle.engines:
        backend = e.command.text("all2all-backend") or ""
        if (
            e.size < 2
            or e.dp < 2
            or backend not in ("deepep_low_latency", "deepep_high_throughput")
            or _mnnvl(e)
        ):
            continue
        where = f"{pod_path(e)}.containers"
        if e.resource("vpc.amazonaws.com/efa"):
            yield Hit(
                e.document,
                where,
                f"{e.label}: {backend} over EFA",
                "use allgather_reducescatter or nixl_ep",
            )
            continue
        if backend == "deepep_low_latency" and (
            e.env.get("NVSHMEM_REMOTE_TRANSPORT") != "ibgda"
            or e.env.get("NVSHMEM_IB_ENABLE_IBGDA", "").lower() not in ("1", "true")
        ):
            yield Hit(e.document, where, f"{e.label}: {backend} over {e.size} pods without IBGDA settings")
        claimed = any("rdma" in n.lower() for pair in e.claims.items() for n in pair)
        roce = e.resource("rdma/roce") or e.resource("sriov-rdma") or claimed
        if roce and "llm-d" not in e.image:
            yield Hit(
                e.document, where, f"{e.label}: {backend} over RoCE with {e.image}", "use an llm-d-cuda image"
            )


@rule(
    "L19",
    WARNING,
    "KV transfer that falls back to TCP",
    why="without an RDMA device or locked memory UCX picks TCP silently: it works, slowly",
    fix="request the RDMA resource and IPC_LOCK on both roles, name kv_buffer_device and backends",
    source="llm-d#2370, PR #2371; vllm#26382",
)
def transfer_path(scene: Scene) -> Iterator[Hit]:
    """RDMA, locked memory and explicit transport on both roles."""
    if not scene.bundle.disaggregated:
        return
    for e in (*scene.bundle.prefill, *scene.bundle.decode):
        where = f"{pod_path(e)}.containers"
        rdma = any(e.resource(name) for name in _RDMA) or any("rdma" in n or "nic" in n for n in e.claims)
        nvlink = e.env.get("UCX_CUDA_IPC_ENABLE_MNNVL") == "y"
        if not rdma and not nvlink:
            yield Hit(e.document, where, f"{e.label}: no RDMA device")
        security = table(e.container.get("securityContext"))
        added = [str(c) for c in rows(dig(security, "capabilities", "add"))]
        if not security.get("privileged") and "IPC_LOCK" not in added:
            yield Hit(e.document, where, f"{e.label}: no IPC_LOCK")
        if "Nixl" in str(e.kv.get("kv_connector")):
            extra = table(e.kv.get("kv_connector_extra_config"))
            if not e.kv.get("kv_buffer_device") or not extra.get("backends"):
                yield Hit(
                    e.document, where, f"{e.label}: kv_buffer_device or backends left to chance", None, INFO
                )


@rule(
    "L21",
    WARNING,
    "the engine has no user name",
    why="torch 2.11 looks the user up; an unknown user id without USER ends the engine",
    fix="set env USER to any name",
    source="vllm#44548",
)
def user_name(scene: Scene) -> Iterator[Hit]:
    """USER in the environment."""
    for e in scene.bundle.engines:
        if "USER" not in e.env_names:
            yield Hit(e.document, f"{pod_path(e)}.containers", f"{e.label}: USER is unset")


@rule(
    "L23",
    ERROR,
    "a pod no node can hold",
    why="a request above what the node offers leaves the pod Pending for ever",
    fix="lower the request; keep checkpoints in a hostPath cache, a PVC or an OCI volume",
    source="comment in the llm-d OCI GB200 overlay: 1Ti on a node with about 891 GiB",
)
def fits_node(scene: Scene) -> Iterator[Hit]:
    """Requests against the allocatable amounts of the node the selector picks."""
    for e in scene.bundle.engines:
        labels = {str(k): str(v) for k, v in table(e.pod.get("nodeSelector")).items()}
        node = scene.facts.node(labels) if labels else None
        if node is None:
            continue
        requests = {
            **table(dig(e.container, "resources", "limits")),
            **table(dig(e.container, "resources", "requests")),
        }
        offered = {
            node.gpu_resource: float(node.gpus_per_node),
            "cpu": node.cpu_allocatable,
            "memory": None if node.memory_gib_allocatable is None else node.memory_gib_allocatable * _GIB,
            "ephemeral-storage": None
            if node.ephemeral_gib_allocatable is None
            else node.ephemeral_gib_allocatable * _GIB,
        }
        for name, amount in requests.items():
            wanted, limit = quantity(amount), offered.get(name)
            if wanted is not None and limit is not None and wanted > limit:
                shown = f"{limit / _GIB:.0f} GiB" if limit > 1e6 else f"{limit:g}"
                yield Hit(
                    e.document,
                    f"{pod_path(e)}.containers",
                    f"{e.label}: {name} {amount}, node '{node.id}' offers {shown}",
                )


@rule(
    "L24",
    ERROR,
    "a dead engine stays Ready",
    why="/v1/models answers from a static list after the engine died",
    fix="readiness on /readyz of the DP supervisor, else on /health",
    source="comment in the llm-d AMD manifests; vllm#40814",
)
def readiness(scene: Scene) -> Iterator[Hit]:
    """Probe paths and the port they ask."""
    for e in scene.bundle.engines:
        ports = {
            str(table(p).get("name")): number(table(p).get("containerPort"))
            for p in rows(e.container.get("ports"))
        }
        for kind in ("readinessProbe", "livenessProbe"):
            probe = e.probe(kind)
            where = f"{pod_path(e)}.containers"
            if probe is None:
                if kind == "readinessProbe":
                    yield Hit(e.document, where, f"{e.label}: no {kind}", None, WARNING)
                continue
            path = dig(probe, "httpGet", "path")
            if path == "/v1/models":
                yield Hit(e.document, where, f"{e.label}: {kind} asks /v1/models")
            port = dig(probe, "httpGet", "port")
            asked = ports.get(str(port), number(port))
            if e.multi_port and kind == "readinessProbe" and asked is not None and asked in e.engine_ports:
                yield Hit(
                    e.document,
                    where,
                    f"{e.label}: readiness asks rank port {asked}: one rank speaks for {e.dp_local}",
                    "ask /readyz on the supervisor port",
                    WARNING,
                )
            if isinstance(port, str) and not port.isdigit() and port not in ports:
                yield Hit(e.document, where, f"{e.label}: {kind} names port '{port}', which is not declared")


@rule(
    "L25",
    ERROR,
    "killed while still loading",
    why="weights of large models take tens of minutes to load; the default probes allow seconds",
    fix="a startupProbe whose period x failures covers loading, compilation and graph capture",
    source="llm-d guides: 45 min for R1, 2 h on AMD",
)
def startup_budget(scene: Scene) -> Iterator[Hit]:
    """Startup budget against the checkpoint's size, or 10 minutes when it is unknown."""
    for e in scene.bundle.engines:
        model = served_model(scene, e)
        needed = 600.0 if model is None else max(600.0, model.weight_bytes / _GIB / 1.0)
        startup, live = e.probe("startupProbe"), e.probe("livenessProbe")
        where = f"{pod_path(e)}.containers"
        probe = startup or live
        if probe is None:
            continue
        budget = (number(probe.get("periodSeconds")) or 10) * (number(probe.get("failureThreshold")) or 3)
        budget += number(probe.get("initialDelaySeconds")) or 0
        if budget < needed:
            kind = "startupProbe" if startup else "livenessProbe, no startupProbe"
            yield Hit(e.document, where, f"{e.label}: {budget} s to start ({kind}), {needed:.0f} s expected")
