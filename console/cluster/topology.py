"""From pods to what serves: deployments, roles, groups, endpoints.

A group is the pods that run one engine group (one LeaderWorkerSet group, or a single pod of a Deployment). It is down when
any of its pods is. An endpoint is a (pod, port) pair the router may choose: one DP rank each with several target ports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from console.cluster.objects import ContainerView, GroupSetView, PodView, PoolView
from console.cluster.state import Snapshot

LWS: Final = "leaderworkerset.sigs.k8s.io/"
DS: Final = "disaggregatedset.x-k8s.io/"
ROLE_LABEL: Final = "llm-d.ai/role"
_ROLE_NAMES: Final = {"both": "aggregated", "prefill-decode": "aggregated"}
_SIDECAR: Final = re.compile(r"(routing|sidecar|proxy|istio|linkerd|agent)")
_RANK_PORT: Final = re.compile(r"rank(\d+)$")
_HTTP_PORTS: Final = ("http", "vllm", "api", "serving", "metrics")


@dataclass(frozen=True, slots=True, order=True)
class GroupId:
    """Which group: namespace, deployment, role, and its place."""

    namespace: str
    deployment: str
    role: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Pods of one engine group, leader first. `size` is how many there should be."""

    id: GroupId
    pods: tuple[PodView, ...]
    size: int
    revision: str = ""

    @property
    def ready(self) -> bool:
        """Whether every pod is there and ready."""
        return len(self.pods) >= self.size and all(p.ready and not p.meta.deleting for p in self.pods)

    @property
    def gpus(self) -> int:
        """GPUs its pods ask for."""
        return sum(p.gpus for p in self.pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A port of a pod that answers requests. `pool` is empty when no InferencePool selects the pod."""

    pod: PodView
    port: int
    group: GroupId
    pool: str = ""

    @property
    def ready(self) -> bool:
        """Whether the router may choose it."""
        return self.pod.ready and not self.pod.meta.deleting


@dataclass(frozen=True, slots=True)
class Topology:
    """Groups by id, and all endpoints."""

    groups: Mapping[GroupId, Group]
    endpoints: tuple[Endpoint, ...]


def engine_container(pod: PodView) -> ContainerView | None:
    """The container that runs the engine: named so, or by its command, or the only one that is no sidecar."""
    main = [c for c in pod.containers if not c.init]
    for c in main:
        if c.name in ("vllm", "modelserver", "engine", "server") or any("vllm" in w for w in c.command[:4]):
            return c
    rest = [c for c in main if not _SIDECAR.search(c.name)]
    return rest[0] if len(rest) == 1 else None


def is_engine(pod: PodView) -> bool:
    """Whether a pod is part of a model server."""
    labels = pod.meta.labels
    if ROLE_LABEL in labels or DS + "role" in labels:
        return True
    container = engine_container(pod)
    return container is not None and any("vllm" in w for w in (*container.command, container.image))


def role_of(pod: PodView) -> str:
    """prefill, decode, aggregated, encode, or another role label as it is."""
    name = pod.meta.labels.get(ROLE_LABEL) or pod.meta.labels.get(DS + "role") or "aggregated"
    return _ROLE_NAMES.get(name, name)


def group_of(pod: PodView) -> GroupId:
    """The group of an engine pod."""
    labels, ns = pod.meta.labels, pod.meta.namespace
    lws = labels.get(LWS + "name", "")
    deployment = labels.get(DS + "name") or lws or _deployment_name(pod)
    if lws:
        return GroupId(ns, deployment, role_of(pod), f"{lws}/{labels.get(LWS + 'group-index', '?')}")
    return GroupId(ns, deployment, role_of(pod), pod.meta.name)


def _deployment_name(pod: PodView) -> str:
    kind, _, name = pod.meta.owner.partition("/")
    if kind == "ReplicaSet":
        return name.rpartition("-")[0] or name
    return name or pod.meta.name


def worker_index(pod: PodView) -> int:
    """Place of a pod in its group; 0 is the leader."""
    text = pod.meta.labels.get(LWS + "worker-index", "0")
    return int(text) if text.isdigit() else 0


def short_name(pod: PodView) -> str:
    """Role, group and worker, such as ``decode 0.1``: enough to find a pod within its deployment."""
    labels = pod.meta.labels
    if LWS + "name" not in labels:
        return f"{role_of(pod)} {pod.meta.name.rsplit('-', 1)[-1]}"
    slice_ = labels.get(DS + "slice", "0")
    place = f"{labels.get(LWS + 'group-index', '?')}.{worker_index(pod)}"
    return f"{role_of(pod)} {place}" if slice_ == "0" else f"{role_of(pod)} s{slice_} {place}"


def serving_ports(pod: PodView, pools: Iterable[PoolView]) -> tuple[int, ...]:
    """Ports that answer: what the pod announces, else the pool's, else what the container declares."""
    container = engine_container(pod)
    words = container.command if container else ()
    if worker_index(pod) > 0 and any(re.search(r"--headless\b", w) for w in words):
        return ()
    if pod.active_ports:
        return pod.active_ports
    pooled = tuple(dict.fromkeys(p for pool in pools for p in pool.target_ports))
    if pooled:
        return pooled
    if container is None:
        return ()
    ranks = sorted((int(m[1]), p) for n, p in container.ports.items() if (m := _RANK_PORT.match(n)))
    if ranks:
        return tuple(p for _, p in ranks)
    for name in _HTTP_PORTS:
        if name in container.ports:
            return (container.ports[name],)
    flag = re.search(r"--port[= ]+(\d+)", " ".join(words))
    return (int(flag[1]),) if flag else (8000,)


def selects(pool: PoolView, pod: PodView) -> bool:
    """Whether an InferencePool selects a pod (same namespace, every label)."""
    return (
        bool(pool.selector)
        and pool.meta.namespace == pod.meta.namespace
        and pool.selector.items() <= pod.meta.labels.items()
    )


def topology(snapshot: Snapshot) -> Topology:
    """Groups and endpoints of every engine pod in `snapshot`."""
    pools = list(snapshot.pools.values())
    members: dict[GroupId, list[PodView]] = {}
    endpoints: list[Endpoint] = []
    for pod in snapshot.pods.values():
        chosen = [p for p in pools if selects(p, pod)]
        if (not chosen and not is_engine(pod)) or pod.phase in ("Succeeded", "Failed"):
            continue
        group = group_of(pod)
        members.setdefault(group, []).append(pod)
        pool = chosen[0].meta.name if chosen else ""
        endpoints += [Endpoint(pod=pod, port=p, group=group, pool=pool) for p in serving_ports(pod, chosen)]
    sets = snapshot.group_sets
    groups = {i: _group(sets, i, pods) for i, pods in sorted(members.items())}
    place = {p.meta.uid or p.meta.key: i for i, p in enumerate(p for g in groups.values() for p in g.pods)}
    endpoints.sort(key=lambda e: (place[e.pod.meta.uid or e.pod.meta.key], e.port))
    return Topology(groups, tuple(endpoints))


def _group(sets: Mapping[str, GroupSetView], id_: GroupId, pods: list[PodView]) -> Group:
    pods.sort(key=lambda p: (worker_index(p), p.meta.name))
    first = pods[0]
    size = first.group_size
    if size is None:
        lws = first.meta.labels.get(LWS + "name")
        held = sets.get(f"{id_.namespace}/{lws}") if lws else None
        size = held.size if held else 1
    labels = first.meta.labels
    revision = labels.get(DS + "revision") or labels.get(LWS + "template-revision-hash") or ""
    return Group(id=id_, pods=tuple(pods), size=size, revision=revision)
