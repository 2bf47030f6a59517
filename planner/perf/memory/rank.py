"""Memory of one rank of a role: what is left for the KV cache, and what fits in it."""

from __future__ import annotations

import math
from enum import StrEnum

from planner.domain.deployment import Role, RolePlan
from planner.domain.engine import EngineProfile
from planner.domain.evaluation import MemoryBreakdown
from planner.domain.hardware import GpuProfile
from planner.domain.memo import IdentityMemo
from planner.domain.model import CompressedAttention, ModelSpec
from planner.perf.memory.kv import KvLayout, LayoutKey, kv_layout
from planner.perf.memory.overheads import GIB, activation_bytes, buffer_bytes
from planner.perf.memory.weights import weights_per_rank_bytes


class MemoryMode(StrEnum):
    """How cache and weights are counted.

    ENGINE_ALLOCATION: blocks and pages as vLLM sets them aside, padding included. PHYSICAL_MINIMUM: the bytes the
    model needs, which an ideal allocator would reach.
    """

    ENGINE_ALLOCATION = "engine-allocation"
    PHYSICAL_MINIMUM = "physical-minimum"


def rank_memory(
    model: ModelSpec,
    role: RolePlan,
    gpu: GpuProfile,
    engine: EngineProfile,
    *,
    ranks_per_domain: int,
    mode: MemoryMode = MemoryMode.ENGINE_ALLOCATION,
    context_tokens: int | None = None,
    hybrid_manager: bool | None = None,
) -> MemoryBreakdown:
    """Account for the device memory of one rank.

    `ranks_per_domain`: ranks of the EP group that share a scale-up domain. `context_tokens`: length of the requests
    the capacity is stated for (default: the model's maximum); it matters for windowed and recurrent layers and for
    block rounding only. `hybrid_manager`: whether windowed layers give pages back; by default not in prefill and
    decode roles, whose KV connector switches the manager off, unless recurrent or compressed layers need it.

    `kv_gib` is negative when weights and overheads do not fit, and says how much is missing; `kv_tokens_per_rank`
    is then 0. `kv_bytes_per_token` is the mean over a request of `context_tokens`, fixed state included.
    """
    engine_mode = mode is MemoryMode.ENGINE_ALLOCATION
    weights = weights_per_rank_bytes(
        model,
        role.parallelism,
        role.eplb,
        mtp=role.speculation is not None,
        engine_padding=engine_mode,
    )
    total = gpu.memory_gib * GIB
    requested = min(float(math.ceil(total * role.gpu_memory_utilization)), total)
    activations = activation_bytes(model, role)
    buffers = buffer_bytes(model, role, engine, ranks_per_domain=ranks_per_domain)
    available = requested - weights.total - activations - buffers - engine.graphs_gib * GIB
    context = context_tokens if context_tokens is not None else model.max_position
    layout = _layout(model, role, hybrid_manager)
    if engine_mode:
        per_request = (
            layout.request_blocks(context, in_flight_tokens=_in_flight(role, engine)) * layout.block_bytes
        )
        held = layout.pool_blocks(available) * layout.block_bytes
    else:
        per_request = layout.request_bytes(context)
        held = max(available, 0.0)
    return MemoryBreakdown(
        role=role.role,
        total_gib=gpu.memory_gib,
        reserved_gib=(total - requested) / GIB,
        weights_attention_gib=weights.attention / GIB,
        weights_experts_gib=weights.experts / GIB,
        weights_other_gib=weights.other / GIB,
        activations_gib=activations / GIB,
        graphs_gib=engine.graphs_gib,
        buffers_gib=buffers / GIB,
        kv_gib=available / GIB,
        kv_bytes_per_token=per_request / context,
        kv_tokens_per_rank=int(held / per_request * context) if per_request > 0.0 else 0,
    )


def kv_tokens_per_rank(
    model: ModelSpec,
    role: RolePlan,
    engine: EngineProfile,
    *,
    available_bytes: float,
    mode: MemoryMode = MemoryMode.ENGINE_ALLOCATION,
    context_tokens: int | None = None,
    hybrid_manager: bool | None = None,
) -> int:
    """Tokens one DP rank caches in `available_bytes` per GPU, as vLLM logs them ("GPU KV cache size").

    That figure is the number of requests of `context_tokens` that fit, times their length, with all of them in
    the middle of a full prefill step. For hybrid and windowed models it therefore depends on the length.
    """
    context = context_tokens if context_tokens is not None else model.max_position
    layout = _layout(model, role, hybrid_manager)
    if mode is MemoryMode.PHYSICAL_MINIMUM:
        return int(_requests_held(layout, available_bytes, context) * context)
    blocks = layout.request_blocks(context, in_flight_tokens=_in_flight(role, engine))
    return int(layout.pool_blocks(available_bytes) / blocks * context) if blocks else 0


def max_concurrency(
    model: ModelSpec,
    role: RolePlan,
    engine: EngineProfile,
    *,
    available_bytes: float,
    context_tokens: int,
    mode: MemoryMode = MemoryMode.ENGINE_ALLOCATION,
    hybrid_manager: bool | None = None,
) -> int:
    """Whole requests of `context_tokens` tokens that one DP rank runs at once.

    Rounds up to blocks, reserves recurrent state and windows, and leaves out the null block. Running requests hold
    their window and the tokens of one decode step; the prompts in flight are reserved once for the rank, since a
    step is shared. On windowed models this is more than the engine's start-up log promises.
    `available_bytes`: per GPU, ``MemoryBreakdown.kv_gib`` x 2**30.
    """
    layout = _layout(model, role, hybrid_manager)
    if mode is MemoryMode.PHYSICAL_MINIMUM:
        return int(_requests_held(layout, available_bytes, context_tokens))
    step = 1 + (role.speculation.draft_tokens if role.speculation is not None else 0)
    blocks = layout.request_blocks(context_tokens, in_flight_tokens=step)
    reserved = 1 + layout.chunk_blocks(_in_flight(role, engine))
    usable = max(layout.pool_blocks(available_bytes) - reserved, 0)
    return usable // blocks if blocks else 0


def _requests_held(layout: KvLayout, available_bytes: float, context: int) -> float:
    per_request = layout.request_bytes(context)
    return max(available_bytes, 0.0) / per_request if per_request > 0.0 else 0.0


def _layout(model: ModelSpec, role: RolePlan, hybrid_manager: bool | None) -> KvLayout:
    p = role.parallelism
    if hybrid_manager is None:
        hybrid_manager = role.role is Role.AGGREGATED or _needs_manager(model)
    key = LayoutKey(
        p.tp,
        p.dcp,
        role.kv_dtype,
        role.block_size,
        role.speculation.draft_tokens if role.speculation is not None else 0,
        hybrid_manager,
    )
    return kv_layout(model, key)


def _in_flight(role: RolePlan, engine: EngineProfile) -> int:
    """Tokens scheduled before a window slides: async scheduling keeps two batches in flight."""
    return role.max_num_batched_tokens * (2 if engine.async_scheduling else 1)


def _mixes_caches(model: ModelSpec) -> bool:
    """Recurrent state and compressed caches cannot be laid out as full pages, so the manager stays on."""
    return model.is_hybrid or any(isinstance(g.attention, CompressedAttention) for g in model.layers)


_needs_manager = IdentityMemo(_mixes_caches)
