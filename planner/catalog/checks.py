"""Plausibility checks of fabrics, node shapes and engines. Codes: ``fabric.*``, ``node.*``, ``engine.*``."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Final

from planner.catalog.documents import Document
from planner.catalog.findings import Report
from planner.catalog.gpu_checks import never_scheduling_label
from planner.catalog.lookup import find_file, unknown
from planner.domain.engine import EngineName, EngineProfile
from planner.domain.errors import Issue
from planner.domain.hardware import FabricKind, FabricProfile, GpuProfile, NodeShape

_FABRIC_FIGURES: Final = (
    "gbps_per_gpu", "achievable_fraction", "latency_us", "rdma", "gpu_initiated", "nics_per_gpu", "gbit_per_nic",
    "dispatch_factor", "combine_factor",
)  # fmt: skip
_NODE_FIGURES: Final = ("gpus_per_node", "fabric", "gpu_resource", "node_labels")
_NODE_OPTIONAL: Final = (
    "rdma_resource", "rdma_count", "cpu_allocatable", "memory_gib_allocatable", "ephemeral_gib_allocatable",
    "topology_key",
)  # fmt: skip
_ENGINE_IDENTITY: Final = ("id", "engine", "version", "sources")


def check_fabric(fabric: FabricProfile, *, document: Document | None = None) -> tuple[Issue, ...]:
    """Return everything implausible about `fabric`: ranges, NIC arithmetic, sources, unconfirmed inputs."""
    r = Report("fabric", document)
    is_none = fabric.kind is FabricKind.NONE
    rates = {
        "gbps_per_gpu": fabric.gbps_per_gpu,
        "nics_per_gpu": fabric.nics_per_gpu,
        "gbit_per_nic": fabric.gbit_per_nic,
    }
    r.positive(rates, zero_ok=is_none)
    r.positive({"latency_us": fabric.latency_us}, zero_ok=True)
    r.positive({"dispatch_factor": fabric.dispatch_factor, "combine_factor": fabric.combine_factor})
    r.fractions({"achievable_fraction": fabric.achievable_fraction})
    nominal = fabric.nics_per_gpu * fabric.gbit_per_nic / 8.0
    if abs(nominal - fabric.gbps_per_gpu) > 0.05 * nominal:
        r.add(
            "nic_arithmetic",
            ("gbps_per_gpu",),
            what=f"{fabric.gbps_per_gpu:g} GB/s per GPU",
            why=f"{fabric.nics_per_gpu:g} NICs of {fabric.gbit_per_nic:g} Gbit/s are {nominal:g} GB/s per direction",
            fix="give GB/s (not Gbit/s), one direction, per GPU (not per node)",
        )
    if fabric.gpu_initiated and not fabric.rdma:
        r.add(
            "gpu_initiated",
            ("gpu_initiated",),
            what="GPU-initiated transfers without RDMA",
            why="IBGDA posts RDMA work from the GPU",
            fix="set gpu_initiated: false, or rdma: true",
        )
    r.sources(fabric.sources, _FABRIC_FIGURES, [f.name for f in fields(FabricProfile)])
    r.unconfirmed(fabric.sources, _FABRIC_FIGURES, lambda name: str(getattr(fabric, name)))
    return tuple(r.issues)


def check_node(
    node: NodeShape,
    *,
    document: Document | None = None,
    gpu: GpuProfile | None = None,
    overlay: Path | None = None,
) -> tuple[Issue, ...]:
    """Return everything implausible about `node`.

    `gpu` is its GPU's profile when at hand, for labels and resource; GPU and fabric names may be in `overlay`.
    """
    r = Report("node", document)
    r.positive(
        {
            "gpus_per_node": node.gpus_per_node,
            "cpu_allocatable": node.cpu_allocatable,
            "memory_gib_allocatable": node.memory_gib_allocatable,
            "ephemeral_gib_allocatable": node.ephemeral_gib_allocatable,
        }
    )
    r.positive({"rdma_count": node.rdma_count}, zero_ok=True)
    for kind, noun, name in (("gpus", "gpu", node.gpu), ("fabrics", "fabric", node.fabric)):
        if gpu is not None and noun == "gpu":
            continue
        if find_file(kind, name, overlay=overlay) is None:
            issue = unknown(kind, name, noun=noun, overlay=overlay)
            r.add(f"{noun}_unknown", (noun,), what=issue.what, why=issue.why, fix=issue.fix)
    if node.rdma_resource is not None and node.rdma_count == 0:
        r.add(
            "rdma_count",
            ("rdma_count",),
            what=f"{node.rdma_resource} with a count of 0",
            why="pods would get no RDMA device",
            fix="1 for a shared device plugin; the number of NICs for an exclusive one",
        )
    for key, value in node.node_labels.items():
        path = ("node_labels", key)
        r.label_value(path, value)
        real = never_scheduling_label(key, value)
        if real is None and gpu is not None and key == gpu.kubernetes.label_key:
            seen = gpu.kubernetes.label_values
            source = gpu.sources.get("kubernetes")
            if seen and source is not None and source.confirmed and not value.startswith(seen):
                real = seen[0]
        if real is not None:
            r.add(
                "label_never_schedules",
                path,
                what=f"node label {key}={value}",
                why="no node carries this value, so no pod would be scheduled",
                fix=f"use {real}",
            )
    if gpu is not None and node.gpu_resource != gpu.kubernetes.resource:
        r.add(
            "gpu_resource",
            ("gpu_resource",),
            what=f"resource '{node.gpu_resource}' on a node with {gpu.id}",
            why=f"the device plugin of {gpu.id} advertises {gpu.kubernetes.resource}",
            fix=f"use {gpu.kubernetes.resource}",
        )
    present = [f for f in _NODE_OPTIONAL if getattr(node, f)]
    r.sources(node.sources, [*_NODE_FIGURES, *present], [f.name for f in fields(NodeShape)])
    r.unconfirmed(node.sources, (*_NODE_FIGURES, *_NODE_OPTIONAL), lambda name: str(getattr(node, name)))
    return tuple(r.issues)


def check_engine(engine: EngineProfile, *, document: Document | None = None) -> tuple[Issue, ...]:
    """Return everything implausible about `engine`: ranges, sources, unconfirmed inputs."""
    r = Report("engine", document)
    r.fractions({"gpu_memory_utilization": engine.gpu_memory_utilization})
    figures = [f.name for f in fields(EngineProfile) if f.name not in _ENGINE_IDENTITY]
    numbers = [n for n in figures if isinstance(getattr(engine, n), int | float)]
    r.positive({n: getattr(engine, n) for n in numbers}, zero_ok=True)
    r.positive({"default_max_num_seqs": engine.default_max_num_seqs})
    if engine.engine is EngineName.VLLM:
        for name in ("dbo_decode_threshold", "dbo_prefill_threshold"):
            if getattr(engine, name) < 2:
                r.add(
                    "value_range",
                    (name,),
                    what=f"{name} is {getattr(engine, name)}",
                    why="vLLM refuses thresholds below the 2 microbatches of DBO",
                    fix="give 2 or more",
                )
    if 0 not in engine.max_num_batched_tokens_by_gib:
        r.add(
            "batched_tokens",
            ("max_num_batched_tokens_by_gib",),
            what="no entry for devices from 0 GiB",
            why="a small device would have no default",
            fix="add the entry 0: 2048 (or the engine's default for small devices)",
        )
    r.sources(engine.sources, figures, [f.name for f in fields(EngineProfile)])
    r.unconfirmed(engine.sources, figures, lambda name: str(getattr(engine, name)))
    return tuple(r.issues)
