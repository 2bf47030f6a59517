"""Rules on batch limits, pods, node tiling, fabric and weight formats."""

from __future__ import annotations

from enum import StrEnum

from planner.domain.dtypes import ComputeDtype, WeightFormat
from planner.domain.hardware import FabricKind, GpuProfile, Vendor
from planner.domain.legality.case import RoleCase
from planner.domain.legality.exchange import LOW_LATENCY
from planner.domain.legality.rule import Message, Rule, always, numbers

MAX_RANKS_PER_POD = 8  # target ports of one InferencePool
# GPUDirect transports without RDMA verbs: NCCL collectives cross nodes over them, DeepEP and NIXL EP do not.
_COLLECTIVE_FABRICS = frozenset({FabricKind.TCPX, FabricKind.TCPXO, FabricKind.ICI})


# --- batch limits ---


def _limits(c: RoleCase) -> bool:
    r = c.role
    return r.max_num_seqs >= 1 and r.max_num_batched_tokens >= 1 and 0.0 < r.gpu_memory_utilization <= 1.0


def _limits_message(c: RoleCase) -> Message:
    r = c.role
    return Message(
        f"max_num_seqs {r.max_num_seqs}, max_num_batched_tokens {r.max_num_batched_tokens}, "
        f"gpu_memory_utilization {r.gpu_memory_utilization:g}",
        "limits are at least 1 and the utilisation lies above 0 and up to 1",
        "use values in these ranges",
    )


def _seqs(c: RoleCase) -> bool:
    return c.role.max_num_seqs <= c.role.max_num_batched_tokens


def _seqs_message(c: RoleCase) -> Message:
    r = c.role
    return Message(
        f"max_num_seqs {r.max_num_seqs} above max_num_batched_tokens {r.max_num_batched_tokens}",
        "each running sequence takes at least one token of a step",
        f"use max_num_seqs up to {r.max_num_batched_tokens}, or raise max_num_batched_tokens",
    )


def _bounded_dispatch(c: RoleCase) -> bool:
    return c.role.speculation is not None and c.role.all2all in LOW_LATENCY


def _drafted(c: RoleCase) -> int:
    s = c.role.speculation
    return 1 + (s.draft_tokens if s is not None else 0)


def _dispatch_fits(c: RoleCase) -> bool:
    return c.role.max_num_seqs * _drafted(c) <= c.role.max_num_batched_tokens


def _dispatch_fits_message(c: RoleCase) -> Message:
    r, per_seq = c.role, _drafted(c)
    return Message(
        f"{r.max_num_seqs} sequences x {per_seq} tokens = {r.max_num_seqs * per_seq} with "
        f"max_num_batched_tokens {r.max_num_batched_tokens}",
        "a decode step verifies the drafted tokens of every sequence, and the dispatch buffer of "
        f"{r.all2all} holds max_num_batched_tokens",
        f"use max_num_seqs up to {r.max_num_batched_tokens // per_seq}, or max_num_batched_tokens "
        f"{r.max_num_seqs * per_seq}",
    )


# --- pods and nodes ---


def _ranks_fit(c: RoleCase) -> bool:
    return c.pod_gpus <= MAX_RANKS_PER_POD * c.tp


def _ranks_fit_message(c: RoleCase) -> Message:
    ranks = c.pod_gpus // c.tp
    return Message(
        f"{ranks} DP ranks in a pod of {c.pod_gpus} GPUs",
        f"an InferencePool lists at most {MAX_RANKS_PER_POD} target ports, one per rank of a pod",
        f"use TP of at least {-(-c.pod_gpus // MAX_RANKS_PER_POD)}",
    )


def _tiles(c: RoleCase) -> bool:
    gpus, node = c.group_gpus, c.node_gpus
    return gpus % node == 0 if gpus > node else node % gpus == 0


def _tiles_message(c: RoleCase) -> Message:
    node = c.node_gpus
    below = [g for g in range(1, node + 1) if node % g == 0]
    up = -(-c.group_gpus // node) * node
    return Message(
        f"a group of {c.group_gpus} GPUs on nodes of {node}",
        "pods are all alike: a group fills whole nodes, or divides one",
        f"use TP x DP of {numbers(below)}, or {up}",
    )


def _leaves_domain(c: RoleCase) -> bool:
    return c.leaves_domain


def _fabric_reaches(c: RoleCase) -> bool:
    fabric = c.pool.fabric
    return fabric.rdma or fabric.kind in _COLLECTIVE_FABRICS


def _fabric_reaches_message(c: RoleCase) -> Message:
    exchange = "exchanges experts" if c.ep_on else "runs collectives"
    return Message(
        f"a group of {c.group_gpus} GPUs on {c.pool.fabric.name}",
        f"it {exchange} beyond its {c.domain_gpus}-GPU scale-up domain in every layer, which needs RDMA or a "
        "GPUDirect transport",
        f"use TP x DP of at most {c.domain_gpus}, or a fabric with RDMA",
    )


def _pool_holds(c: RoleCase) -> bool:
    return c.role.groups * c.group_gpus <= c.pool.gpus


def _pool_holds_message(c: RoleCase) -> Message:
    return Message(
        f"{c.role.groups} groups of {c.group_gpus} GPUs = {c.role.groups * c.group_gpus}, pool of {c.pool.gpus}",
        "a plan uses no more GPUs than there are",
        f"use at most {c.pool.gpus // c.group_gpus} groups"
        if c.group_gpus <= c.pool.gpus
        else f"use TP x DP of at most {c.pool.gpus}",
    )


# --- weight formats ---


class WeightSupport(StrEnum):
    """How a GPU runs weights of a format."""

    NATIVE = "native"
    WEIGHT_ONLY = "weight-only"  # stored as is, multiplied in 16 bit: memory is saved, arithmetic is not
    UNSUPPORTED = "unsupported"


_FP8 = frozenset({WeightFormat.FP8, WeightFormat.FP8_BLOCK, WeightFormat.MXFP8})
_NVFP4 = frozenset({WeightFormat.NVFP4, WeightFormat.NVFP4_A16})


def weight_support(fmt: WeightFormat, gpu: GpuProfile) -> WeightSupport:
    """How vLLM runs `fmt` on `gpu`.

    NVIDIA parts without the matrix format fall back to Marlin kernels that unpack to 16 bit: fp8 on A100, MXFP4 and
    NVFP4 on Hopper. gpt-oss (MXFP4) has published logs on A100 and H100; the fp8 and NVFP4 fall-backs are vLLM's
    documented behaviour and UNCONFIRMED for 0.33. On AMD, MXFP4 without fp4 units runs through Triton
    (weight-only); NVFP4 is treated as unsupported outside NVIDIA.
    """
    if fmt in (WeightFormat.BF16, WeightFormat.INT4, WeightFormat.INT8):
        return WeightSupport.NATIVE
    if fmt in _FP8:
        if ComputeDtype.FP8 in gpu.peak_tflops:
            return WeightSupport.NATIVE
        return WeightSupport.WEIGHT_ONLY if gpu.vendor is Vendor.NVIDIA else WeightSupport.UNSUPPORTED
    if gpu.vendor is Vendor.NVIDIA:
        native = ComputeDtype.FP4 in gpu.peak_tflops and fmt is not WeightFormat.NVFP4_A16
        return WeightSupport.NATIVE if native else WeightSupport.WEIGHT_ONLY
    if fmt in _NVFP4:
        return WeightSupport.UNSUPPORTED
    if ComputeDtype.FP4 in gpu.peak_tflops:
        return WeightSupport.NATIVE
    return WeightSupport.WEIGHT_ONLY if gpu.vendor is Vendor.AMD else WeightSupport.UNSUPPORTED


def _unsupported(c: RoleCase) -> list[WeightFormat]:
    gpu = c.pool.gpu
    return [f for f in c.facts.formats if weight_support(f, gpu) is WeightSupport.UNSUPPORTED]


def _quantised(c: RoleCase) -> bool:
    # NVIDIA parts run every format, if only weight-only.
    return c.pool.gpu.vendor is not Vendor.NVIDIA


def _formats_run(c: RoleCase) -> bool:
    return not _unsupported(c)


def _formats_run_message(c: RoleCase) -> Message:
    names = ", ".join(_unsupported(c))
    return Message(
        f"weights in {names} on {c.pool.gpu.name}",
        "the GPU has no matrix units for it and the engine no kernel that unpacks it there",
        "use a checkpoint in a format the GPU runs, or another GPU",
    )


HARDWARE_RULES: tuple[Rule[RoleCase], ...] = (
    Rule(
        code="batch.limits",
        title="Batch limits are positive",
        applies=always,
        check=_limits,
        message=_limits_message,
    ),
    Rule(
        code="batch.seqs",
        title="A step has a token for every sequence",
        applies=always,
        check=_seqs,
        message=_seqs_message,
    ),
    Rule(
        code="batch.drafts",
        title="Drafted tokens fit the dispatch buffer",
        applies=_bounded_dispatch,
        check=_dispatch_fits,
        message=_dispatch_fits_message,
    ),
    Rule(
        code="pod.ranks",
        title="A pod has at most eight DP ranks",
        applies=always,
        check=_ranks_fit,
        message=_ranks_fit_message,
    ),
    Rule(code="pod.tiling", title="Groups tile nodes", applies=always, check=_tiles, message=_tiles_message),
    Rule(
        code="group.fabric",
        title="A group beyond its domain needs RDMA",
        applies=_leaves_domain,
        check=_fabric_reaches,
        message=_fabric_reaches_message,
    ),
    Rule(
        code="pool.gpus",
        title="A role fits its pool",
        applies=always,
        check=_pool_holds,
        message=_pool_holds_message,
    ),
    Rule(
        code="weights.format",
        title="The GPU runs the weight formats",
        applies=_quantised,
        check=_formats_run,
        message=_formats_run_message,
    ),
)
