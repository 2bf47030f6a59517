"""The GPUs a request names: pools from the catalogue or from a live cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from planner.catalog.hardware import default_node, load_fabric, load_gpu, load_node, nodes_for
from planner.domain.hardware import FabricKind, GpuProfile, NodeShape, Pool
from planner.domain.problem import Assumption
from planner.search.request import MAX_GPUS, Collector, Request


def pools_of(request: Request, found: Collector, assumptions: list[Assumption]) -> tuple[Pool, Pool] | None:
    """Prefill and decode pool as asked; the same object when they are shared. None when `found` has the reason."""
    split = request.prefill_gpu or request.decode_gpu
    if not split:
        pool = _pool(request, request.gpu, request.gpus, "gpu", found, assumptions)
        return (pool, pool) if pool is not None else None
    prefill = _pool(request, request.prefill_gpu, request.prefill_gpus, "prefill-gpu", found, assumptions)
    decode = _pool(request, request.decode_gpu, request.decode_gpus, "decode-gpu", found, assumptions)
    return (prefill, decode) if prefill is not None and decode is not None else None


def pools_found(
    request: Request, pool: Pool, found: Collector, assumptions: list[Assumption]
) -> tuple[Pool, Pool] | None:
    """One shared pool as a live cluster offers it; --gpus takes a part of it."""
    named = [
        flag for flag, value in (("--gpu", request.gpu), ("--fabric", request.fabric)) if value is not None
    ]
    if named or request.prefill_gpu or request.decode_gpu:
        found.add(
            "flags.conflict", f"--cluster live with {', '.join(named) or '--prefill-gpu/--decode-gpu'}",
            "the hardware is read from the cluster", "drop the one or the other", "--cluster",
        )  # fmt: skip
        return None
    gpus = request.gpus if request.gpus is not None else pool.gpus
    if gpus > pool.gpus:
        found.add(
            "gpus.more-than-found", f"--gpus {gpus}", f"the cluster has {pool.gpus} x {pool.gpu.id}",
            f"give at most {pool.gpus}, or leave --gpus out", "--gpus",
        )  # fmt: skip
        return None
    if not _tiles(gpus, pool.node, found, "gpu"):
        return None
    assumptions.append(
        Assumption(
            name="hardware",
            value=f"{gpus} x {pool.gpu.id} over {pool.fabric.id}, {pool.gpus_per_node} per node",
            why="found in the live cluster",
            flag="--cluster",
        )
    )
    chosen = replace(pool, gpus=gpus)
    return chosen, chosen


def _pool(
    request: Request,
    gpu_name: str | None,
    gpus: int | None,
    flag: str,
    found: Collector,
    assumptions: list[Assumption],
) -> Pool | None:
    node = _node(request, found) if request.node is not None else None
    if gpu_name is None and node is not None:
        gpu_name = node.gpu
    if gpu_name is None:
        found.add(
            "gpu.missing", "no GPU type was named", "the plan depends on it",
            f"give --{flag} NAME (see planner profiles list gpus), --cluster NAME, or a recipe", f"--{flag}",
        )  # fmt: skip
    if gpus is None:
        found.add(
            "gpus.missing", "no number of GPUs was given", "the search fills what is owned", f"give --{flag}s NUMBER",
            f"--{flag}s",
        )  # fmt: skip
    if gpu_name is None:
        return None
    gpu = found.load(lambda: load_gpu(gpu_name, overlay=request.profiles))
    if gpu is None:
        return None
    if node is not None and node.gpu != gpu.id:
        found.add(
            "flags.conflict", f"--{flag} {gpu.id} with --cluster {node.id}", f"that node shape holds {node.gpu}",
            f"drop --{flag} or choose another --cluster", f"--{flag}",
        )  # fmt: skip
        return None
    fabric_name = request.fabric or (node.fabric if node else None)
    if fabric_name is None:
        node = found.load(lambda: _usual_node(gpu, request.profiles))
        fabric_name = node.fabric if node else None
        if node is not None:
            assumptions.append(
                Assumption(name="fabric", value=node.fabric, why=f"usual for {gpu.id} nodes", flag="--fabric")
            )
    if fabric_name is None:
        return None
    fabric = found.load(lambda: load_fabric(fabric_name, overlay=request.profiles))
    if fabric is None:
        return None
    if node is None:
        node = found.load(lambda: default_node(gpu, fabric, overlay=request.profiles))
        if node is None:
            return None
        assumptions.append(
            Assumption(
                name="node shape",
                value=f"{node.id}: {node.gpus_per_node} GPUs",
                why=f"usual for {gpu.id}",
                flag="--cluster",
            )
        )
    if gpus is None or not 0 < gpus <= MAX_GPUS:
        return None
    if not _tiles(gpus, node, found, flag):
        return None
    if gpus > max(node.gpus_per_node, gpu.scale_up.domain_gpus) and fabric.kind is FabricKind.NONE:
        found.add(
            "fabric.none", f"{gpus} x {gpu.id} with fabric none", "more than one scale-up domain needs a network",
            "give --fabric (see planner profiles list fabrics)", "--fabric",
        )  # fmt: skip
    return Pool(gpu=gpu, fabric=fabric, node=replace(node, fabric=fabric.id), gpus=gpus)


def _usual_node(gpu: GpuProfile, overlay: Path | None) -> NodeShape:
    """The generic shape of the GPU, or the first cloud shape that has it."""
    shapes = nodes_for(gpu, overlay=overlay)
    return shapes[0] if shapes else load_node(f"generic-{gpu.id}", overlay=overlay)


def _node(request: Request, found: Collector) -> NodeShape | None:
    name = request.node or ""
    return found.load(lambda: load_node(name, overlay=request.profiles))


def _tiles(gpus: int, node: NodeShape, found: Collector, flag: str) -> bool:
    per = node.gpus_per_node
    if gpus % per == 0 or (gpus < per and per % gpus == 0):
        return True
    if gpus < per:
        below = max(d for d in range(1, gpus) if per % d == 0)
        above = min(d for d in range(gpus, per + 1) if per % d == 0)
    else:
        below, above = gpus // per * per, -(-gpus // per) * per
    found.add(
        "gpus.not-tiling", f"--{flag}s {gpus}", f"{node.id} has {per} GPUs per node; engine groups tile nodes",
        f"use {below} or {above}", f"--{flag}s",
    )  # fmt: skip
    return False
