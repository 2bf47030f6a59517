"""Load GPUs, fabrics and node shapes by name.

Every loader refuses a profile with an implausible figure (see `gpu_checks` and `checks`); warnings such as
``gpu.unconfirmed_input`` are left to the caller, who gets them from `check_gpu` and its siblings.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from planner.catalog.checks import check_fabric, check_node
from planner.catalog.documents import Document, read_document
from planner.catalog.findings import refuse_errors
from planner.catalog.gpu_checks import check_gpu
from planner.catalog.locate import data_root
from planner.catalog.lookup import files_containing, find_file, list_ids, load_file, load_profile
from planner.domain.errors import InputError, Issue
from planner.domain.hardware import FabricKind, FabricProfile, GpuProfile, NodeShape, Price, Provider, Vendor

__all__ = [
    "check_fabric",
    "check_gpu",
    "check_node",
    "default_node",
    "default_price",
    "list_fabrics",
    "list_gpus",
    "list_nodes",
    "load_fabric",
    "load_gpu",
    "load_node",
    "nodes_for",
]

# What pods of a generic node ask for per kind of fabric: shared device plugins are asked for exactly one.
# Names: llm-d provider documents, 2026-06.
_GENERIC_RDMA: Final = {FabricKind.INFINIBAND: "rdma/ib", FabricKind.ROCE: "rdma/roce_gdr"}
_EFA: Final = "vpc.amazonaws.com/efa"


def load_gpu(name: str, *, overlay: Path | None = None) -> GpuProfile:
    """Return the GPU with id or alias `name`, the overlay's before the shipped one.

    Raises InputError ``gpu.unknown``, the file's structural problems, or its implausible figures.
    """
    gpu = load_profile("gpus", name, GpuProfile, noun="gpu", overlay=overlay)
    path, document = _overlaid("gpus", gpu.id, overlay)
    refuse_errors(check_gpu(gpu, document=document, compare=path is not None))
    return gpu


def load_fabric(name: str, *, overlay: Path | None = None) -> FabricProfile:
    """Return the fabric with id or alias `name`. Errors as `load_gpu`, code ``fabric.unknown``."""
    fabric = load_profile("fabrics", name, FabricProfile, noun="fabric", overlay=overlay)
    refuse_errors(check_fabric(fabric, document=_overlaid("fabrics", fabric.id, overlay)[1]))
    return fabric


def load_node(name: str, *, overlay: Path | None = None) -> NodeShape:
    """Return the node shape with id `name`. Errors as `load_gpu`, code ``node.unknown``."""
    node = load_profile("clusters", name, NodeShape, noun="node", overlay=overlay)
    return _checked(node, overlay)


def list_gpus(*, overlay: Path | None = None) -> tuple[str, ...]:
    """Return the ids of all GPUs, sorted."""
    return list_ids("gpus", overlay=overlay)


def list_fabrics(*, overlay: Path | None = None) -> tuple[str, ...]:
    """Return the ids of all fabrics, sorted."""
    return list_ids("fabrics", overlay=overlay)


def list_nodes(*, overlay: Path | None = None) -> tuple[str, ...]:
    """Return the ids of all node shapes, sorted."""
    return list_ids("clusters", overlay=overlay)


def nodes_for(gpu: GpuProfile, *, overlay: Path | None = None) -> tuple[NodeShape, ...]:
    """Return every node shape that holds `gpu`, generic ones first, then by id."""
    names = {gpu.id, *gpu.aliases}
    paths: dict[str, Path] = {}
    for name in sorted(names):
        for path in files_containing("clusters", name, overlay=overlay):
            paths.setdefault(path.stem, path)
    nodes = [load_file(p, NodeShape) for p in paths.values()]
    return tuple(
        sorted((n for n in nodes if n.gpu in names), key=lambda n: (n.provider is not Provider.GENERIC, n.id))
    )


def default_node(gpu: GpuProfile, fabric: FabricProfile, *, overlay: Path | None = None) -> NodeShape:
    """Return the node shape to plan with when the user names none.

    The generic bare-metal shape of the GPU, with `fabric` in it and the RDMA resource that goes with the fabric. When
    only a cloud sells the GPU with this fabric (EFA, TCPX, gIB, ICI), that cloud's shape. Raises InputError
    ``node.none_for_gpu`` when the catalogue has no shape for the GPU.
    """
    path = find_file("clusters", f"generic-{gpu.id}", overlay=overlay)
    generic = _checked(load_file(path, NodeShape), overlay, gpu) if path is not None else None
    if generic is not None and fabric.provider is Provider.GENERIC:
        return generic if generic.fabric == fabric.id else with_fabric(generic, fabric)
    shapes = nodes_for(gpu, overlay=overlay)
    for node in shapes:
        if node.fabric == fabric.id:
            return _checked(node, overlay, gpu)
    if (fabric.kind is FabricKind.ICI) != (
        gpu.vendor is Vendor.GOOGLE
    ) and fabric.kind is not FabricKind.NONE:
        raise InputError(
            Issue(
                code="node.fabric_mismatch",
                what=f"fabric {fabric.id} with GPU {gpu.id}",
                why="the TPU interconnect joins TPUs only, and they have no other",
                fix="use one of: " + (", ".join(sorted({n.fabric for n in shapes})) or "none"),
                where="--fabric",
            )
        )
    if generic is not None or shapes:
        return with_fabric(generic if generic is not None else _checked(shapes[0], overlay, gpu), fabric)
    raise InputError(
        Issue(
            code="node.none_for_gpu",
            what=f"no node shape holds {gpu.id}",
            why=f"the catalogue has none for this GPU ({gpu.availability.value})",
            fix="write clusters/<name>.yaml and pass its folder with --profiles DIR and its name with --node",
        )
    )


def with_fabric(node: NodeShape, fabric: FabricProfile) -> NodeShape:
    """Return `node` with `fabric` as its network and the RDMA resource pods ask for on it."""
    if fabric.kind is FabricKind.EFA:
        resource: str | None = _EFA
        count = round(fabric.nics_per_gpu * node.gpus_per_node)
    else:
        resource = _GENERIC_RDMA.get(fabric.kind)
        count = 1 if resource is not None else 0
    return replace(node, fabric=fabric.id, rdma_resource=resource, rdma_count=count)


def default_price(gpu: GpuProfile) -> Price | None:
    """Return the price used when the user gives none: the first of the profile; None when it has none."""
    return gpu.prices[0] if gpu.prices else None


def _overlaid(kind: str, name: str, overlay: Path | None) -> tuple[Path | None, Document | None]:
    """File and document of `name` when it comes from the overlay; shipped files need neither lines nor comparison."""
    if overlay is None:
        return None, None
    path = find_file(kind, name, overlay=overlay)
    if path is None or data_root() in path.resolve().parents:
        return None, None
    return path, read_document(path)


def _checked(node: NodeShape, overlay: Path | None, gpu: GpuProfile | None = None) -> NodeShape:
    document = _overlaid("clusters", node.id, overlay)[1]
    refuse_errors(check_node(node, document=document, gpu=gpu, overlay=overlay))
    return node
