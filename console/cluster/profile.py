"""What the nodes of a cluster are, in the planner's terms: GPU profile, node shape, fabric, how many.

GPU types come from node labels, network from extended resources. What cannot be seen from outside (the speed of the
fabric, a GPU without a label) is named in `notes` and never filled in silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from console.cluster.objects import NodeView, PodView
from console.cluster.parse import GPU_RESOURCES, RDMA_PATTERN
from planner.catalog.hardware import default_node, list_gpus, load_fabric, load_gpu, nodes_for
from planner.domain.errors import Issue, MissingDataError, did_you_mean
from planner.domain.hardware import FabricProfile, GpuProfile, NodeShape, Pool, Provider

_PRODUCT: Final = "nvidia.com/gpu.product"
_MEMORY_MIB: Final = "nvidia.com/gpu.memory"
_SHARED: Final = re.compile(r"-(SHARED|MIG-\w+)$")
_FABRIC_OF: Final = (
    (re.compile(r"roce"), "roce-400"),
    (re.compile(r"^rdma/|hostdev|sriov|/ib"), "ib-ndr400"),
)
_PROVIDERS: Final = ((re.compile(r"coreweave\.(com|cloud)"), Provider.COREWEAVE), (re.compile(r"openshift\.io"), Provider.OPENSHIFT))  # fmt: skip
WITHOUT_RDMA: Final = "ethernet-100"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPool:
    """Nodes of one kind. `free_gpus` are not requested by any pod (None: pods were not readable)."""

    pool: Pool
    nodes: tuple[str, ...]
    free_gpus: int | None
    rdma: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundHardware:
    """Every pool that could be identified, largest first, and the nodes left out with the reason."""

    pools: tuple[FoundPool, ...]
    left_out: Mapping[str, str]


def pool_from_nodes(
    nodes: Iterable[NodeView],
    *,
    pods: Iterable[PodView] | None = None,
    profiles: Path | None = None,
    only_free: bool = False,
) -> FoundHardware:
    """Identify the GPU nodes. `only_free` counts GPUs no pod asks for instead of all.

    Raises MissingDataError ``cluster.no_gpu_nodes`` without any GPU node, ``cluster.gpu_unknown`` when none can be identified.
    """
    catalogue = [load_gpu(g, overlay=profiles) for g in list_gpus(overlay=profiles)]
    used = _used(pods) if pods is not None else None
    left_out: dict[str, str] = {}
    kinds: dict[tuple[str, int, tuple[str, ...], str], list[NodeView]] = {}
    unknown: dict[str, list[str]] = {}
    for node in nodes:
        count = gpu_count(node)
        if not count:
            continue
        name = node.meta.name
        if not node.ready or node.unschedulable:
            left_out[name] = "not ready" if not node.ready else "unschedulable"
            continue
        gpu = _identify(node, catalogue)
        if gpu is None:
            unknown.setdefault(_label(node), []).append(name)
            left_out[name] = f"GPU type not known: {_label(node)}"
            continue
        rdma = tuple(sorted(r for r, n in node.extended.items() if n and RDMA_PATTERN.match(r)))
        kind = node.meta.labels.get("node.kubernetes.io/instance-type", "")
        kinds.setdefault((gpu.id, count, rdma, kind), []).append(node)
    if not kinds:
        raise _none_found(unknown, left_out, catalogue)
    by_id = {g.id: g for g in catalogue}
    found = [
        _pool(by_id[key[0]], key[1], key[2], members, used, profiles=profiles, only_free=only_free)
        for key, members in kinds.items()
    ]
    found.sort(key=lambda f: (-f.pool.gpus, f.pool.gpu.id, f.pool.node.id))
    return FoundHardware(pools=tuple(found), left_out=left_out)


def gpu_count(node: NodeView) -> int:
    """Allocatable GPUs of a node."""
    return sum(node.extended.get(r, 0) for r in GPU_RESOURCES)


def _label(node: NodeView) -> str:
    labels = node.meta.labels
    for key in (
        _PRODUCT,
        "amd.com/gpu.device-id",
        "cloud.google.com/gke-accelerator",
        "node.kubernetes.io/instance-type",
    ):
        if key in labels:
            return f"{key}={labels[key]}"
    return "no GPU label; is a feature discovery running?"


def _identify(node: NodeView, catalogue: Sequence[GpuProfile]) -> GpuProfile | None:
    labels = node.meta.labels
    fitting = []
    for gpu in catalogue:
        value = _SHARED.sub("", labels.get(gpu.kubernetes.label_key, ""))
        if value and value in gpu.kubernetes.label_values:
            fitting.append(gpu)
    if not fitting:
        shapes = {
            s.gpu
            for g in catalogue
            for s in nodes_for(g)
            if s.node_labels and _PRODUCT not in s.node_labels and s.node_labels.items() <= labels.items()
        }
        fitting = [g for g in catalogue if g.id in shapes]
    if len(fitting) > 1 and labels.get(_MEMORY_MIB, "").isdigit():
        mib = int(labels[_MEMORY_MIB])
        fitting.sort(key=lambda g: abs(g.memory_gib * 1024 - mib))
    return fitting[0] if fitting else None


def _used(pods: Iterable[PodView]) -> dict[str, int]:
    used: dict[str, int] = {}
    for pod in pods:
        if pod.node and pod.phase not in ("Succeeded", "Failed"):
            used[pod.node] = used.get(pod.node, 0) + pod.gpus
    return used


def _pool(
    gpu: GpuProfile,
    count: int,
    rdma: tuple[str, ...],
    members: Sequence[NodeView],
    used: Mapping[str, int] | None,
    *,
    profiles: Path | None,
    only_free: bool,
) -> FoundPool:
    notes: list[str] = []
    shape = _known_shape(gpu, members[0], rdma, profiles)
    fabric: FabricProfile
    if shape is not None:
        fabric = load_fabric(shape.fabric, overlay=profiles)
    else:
        fabric, note = _fabric(gpu, rdma, profiles)
        notes.append(note)
        shape = default_node(gpu, fabric, overlay=profiles)
    if _PRODUCT in shape.node_labels and shape.provider is not Provider.GENERIC and not notes:
        notes.append(f"taken for {shape.id} by labels of {shape.provider}; --cluster names another shape")
    if shape.provider is Provider.GENERIC and not notes:
        notes.append(f"the speed of the network cannot be seen: {fabric.id} assumed; --fabric names another")
    if rdma and shape.rdma_resource not in rdma:
        notes.append(f"pods here ask for {rdma[0]}, not {shape.rdma_resource}")
        shape = replace(shape, rdma_resource=rdma[0])
    if count != shape.gpus_per_node:
        notes.append(f"{count} GPUs per node here, {shape.gpus_per_node} in the profile {shape.id}")
    tainted = {t.key for n in members for t in n.taints if t.effect in ("NoSchedule", "NoExecute")} - {
        "nvidia.com/gpu"
    }
    if tainted:
        notes.append(f"nodes are tainted: {', '.join(sorted(tainted))}")
    free = None if used is None else sum(max(0, count - used.get(n.meta.name, 0)) for n in members)
    total = count * len(members)
    if only_free and free is not None:
        total = sum(count for n in members if not used or not used.get(n.meta.name))
        notes.append(f"only wholly free nodes are counted: {total} of {count * len(members)} GPUs")
    shape = replace(
        shape,
        gpus_per_node=count,
        cpu_allocatable=int(min(n.cpu for n in members)) or shape.cpu_allocatable,
        memory_gib_allocatable=int(min(n.memory_gib for n in members)) or shape.memory_gib_allocatable,
        ephemeral_gib_allocatable=int(min(n.ephemeral_gib for n in members))
        or shape.ephemeral_gib_allocatable,
    )
    return FoundPool(
        pool=Pool(gpu=gpu, fabric=fabric, node=replace(shape, fabric=fabric.id), gpus=total),
        nodes=tuple(sorted(n.meta.name for n in members)),
        free_gpus=free,
        rdma=rdma,
        notes=tuple(notes),
    )


def _known_shape(
    gpu: GpuProfile, node: NodeView, rdma: tuple[str, ...], profiles: Path | None
) -> NodeShape | None:
    """The shape whose labels fit: an instance type first, then the provider's mark, then a generic one."""
    fitting = [
        s
        for s in nodes_for(gpu, overlay=profiles)
        if s.node_labels and s.node_labels.items() <= node.meta.labels.items()
    ]
    exact = [s for s in fitting if _PRODUCT not in s.node_labels]
    if exact:
        return exact[0]
    marks = " ".join((*node.meta.labels, *rdma))
    for pattern, provider in _PROVIDERS:
        if pattern.search(marks):
            return next((s for s in fitting if s.provider is provider), None)
    return next((s for s in fitting if s.provider is Provider.GENERIC and s.rdma_resource in rdma), None)


def _fabric(gpu: GpuProfile, rdma: tuple[str, ...], profiles: Path | None) -> tuple[FabricProfile, str]:
    for resource in rdma:
        if resource == "vpc.amazonaws.com/efa":
            shape = next((s for s in nodes_for(gpu, overlay=profiles) if s.provider is Provider.EKS), None)
            if shape is not None:
                return load_fabric(shape.fabric, overlay=profiles), f"{shape.fabric} assumed for EFA"
        for pattern, name in _FABRIC_OF:
            if pattern.search(resource):
                why = (
                    f"{resource} is offered, its speed cannot be seen: {name} assumed; --fabric names another"
                )
                return load_fabric(name, overlay=profiles), why
    why = f"no RDMA resource is offered by these nodes: {WITHOUT_RDMA} assumed; --fabric names another"
    return load_fabric(WITHOUT_RDMA, overlay=profiles), why


def _none_found(
    unknown: Mapping[str, Sequence[str]], left_out: Mapping[str, str], catalogue: Sequence[GpuProfile]
) -> MissingDataError:
    if unknown:
        values = [v for g in catalogue for v in g.kubernetes.label_values]
        return MissingDataError(
            *(
                Issue(
                    code="cluster.gpu_unknown",
                    what=f"{len(names)} nodes with {label}",
                    why="no GPU profile has this label",
                    fix=f"{did_you_mean(label.rpartition('=')[2], values)} A profile of your own goes in --profiles DIR",
                    where=names[0],
                )
                for label, names in unknown.items()
            )
        )
    why = (
        f"{len(left_out)} GPU nodes are not ready or unschedulable"
        if left_out
        else "no node offers a GPU resource"
    )
    return MissingDataError(
        Issue(
            code="cluster.no_gpu_nodes",
            what="no GPU node to plan for",
            why=why,
            fix="check the context and the device plugin, or name hardware with --gpu and --gpus",
        )
    )
