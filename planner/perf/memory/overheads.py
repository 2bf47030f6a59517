"""Device memory that is neither weights nor KV: the transient peak of a step and communication buffers.

Sizes are closed forms of what each backend allocates. They are estimates (the engine measures them at start-up);
`docs` of the constants say what they were checked against.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.domain.deployment import All2AllBackend, RolePlan
from planner.domain.engine import EngineProfile
from planner.domain.memo import IdentityMemo
from planner.domain.model import (
    CompressedAttention,
    DenseMlp,
    GqaAttention,
    LinearAttention,
    MlaAttention,
    ModelSpec,
    MoeMlp,
)
from planner.perf.memory.weights import layer_expert_bytes

GIB = 2.0**30
_ACT_BYTES = 2.0
# Residual stream, its normalised copy and the layer output are alive together.
_RESIDUAL_COPIES = 3.0
# Sampler pass over max_num_seqs rows: fp32 logits, their sorted copy and sort indices. Fitted to the two A100 logs
# with known weights (gpt-oss-20b, Gemma-4-26B, vLLM 0.19): 1.2-1.3 GiB in all beside the weights.
_SAMPLER_BYTES_PER_LOGIT = 12.0
# vLLM runs a fused expert layer over at most this many tokens at a time (VLLM_FUSED_MOE_CHUNK_SIZE).
_MOE_CHUNK_TOKENS = 16384
_FP8_PAYLOAD_BYTES = 1.0 + 4.0 / 128.0  # value plus one float32 scale per 128
_BATCHED_LAYOUT = frozenset({All2AllBackend.DEEPEP_LOW_LATENCY, All2AllBackend.NIXL_EP})
_FLASHINFER = frozenset(
    {All2AllBackend.FLASHINFER_NVLINK_ONE_SIDED, All2AllBackend.FLASHINFER_NVLINK_TWO_SIDED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Widths:
    """Elements per token of the widest layer of each kind, before TP."""

    hidden: int
    vocab: int
    attention: float
    dense: float
    experts: int
    top_k: int
    moe_hidden: int
    moe_intermediate: int
    gate_up: int  # 2 when gated
    moe_layers: int


def activation_bytes(model: ModelSpec, role: RolePlan) -> float:
    """Peak transient bytes of one rank over a step of `max_num_batched_tokens` tokens or a sampler pass."""
    w = _widths(model)
    p = role.parallelism
    tokens = float(role.max_num_batched_tokens)
    layer = max(w.attention, w.dense) / p.tp * tokens * _ACT_BYTES
    if w.experts:
        layer = max(layer, _moe_bytes(w, role, tokens))
    forward = _RESIDUAL_COPIES * w.hidden * tokens * _ACT_BYTES + layer
    sampler = float(role.max_num_seqs) * w.vocab * _SAMPLER_BYTES_PER_LOGIT
    return max(forward, sampler)


def buffer_bytes(model: ModelSpec, role: RolePlan, engine: EngineProfile, *, ranks_per_domain: int) -> float:
    """Persistent bytes of one rank: context, NCCL, all-to-all buffers, EPLB."""
    total = engine.context_and_nccl_gib * GIB
    p = role.parallelism
    w = _widths(model)
    if w.experts == 0:
        return total
    if p.expert_parallel and p.dp > 1:
        total += _exchange_buffer_bytes(w, role, engine, ranks_per_domain)
    if role.eplb is not None:
        physical = w.experts + role.eplb.redundant_experts
        total += layer_expert_bytes(model, p, role.eplb)
        total += 4.0 * role.eplb.window_size * w.moe_layers * physical  # int32 load window
    return total


def low_latency_buffer_bytes(*, tokens: int, hidden: int, experts: int) -> float:
    """DeepEP low-latency receive and send buffers of one rank.

    Layout as published with DeepEP: two copies of a send and a receive area with one message slot per (expert,
    token); a dispatch message is a 16-byte header plus the bf16 token, a combine message the bf16 token plus two
    bf16 values per 128; plus one int per expert. The width of the group cancels out.
    """
    scales = hidden / 128
    dispatch = 16.0 + max(2.0 * hidden, hidden + 4.0 * scales)
    combine = 2.0 * hidden + 4.0 * scales
    slots = float(experts * tokens)
    send = max(tokens * dispatch, slots * combine)
    receive = slots * max(dispatch, combine)
    signals = math.ceil(4.0 * experts / 128) * 128
    return 2.0 * (send + receive + signals)


def _moe_bytes(w: _Widths, role: RolePlan, tokens: float) -> float:
    p = role.parallelism
    intermediate = w.moe_intermediate / p.moe_tp
    wide = max(w.gate_up * intermediate, w.moe_hidden)
    row = (wide + max(intermediate, w.moe_hidden)) * _ACT_BYTES
    if p.dp == 1 or not p.expert_parallel or role.all2all is All2AllBackend.ALLGATHER_REDUCESCATTER:
        # Every rank sees the tokens of the whole DP group; inputs and outputs are gathered.
        seen = tokens * p.dp
        copies = 2.0 if p.dp > 1 else 1.0
        return copies * seen * w.moe_hidden * _ACT_BYTES + min(seen, _MOE_CHUNK_TOKENS) * w.top_k * row
    if role.all2all in _BATCHED_LAYOUT:
        # One row per (local expert, sender, token): local experts x ranks = all physical experts.
        redundant = role.eplb.redundant_experts if role.eplb is not None else 0
        rows = (w.experts + redundant) * tokens
        return rows * (w.moe_hidden * _FP8_PAYLOAD_BYTES + (wide + intermediate) * _ACT_BYTES)
    # Sorted layout: balanced routing brings tokens x top_k rows, from as many senders as a token has experts.
    arrivals = tokens * min(w.top_k, p.ep) * w.moe_hidden * _ACT_BYTES
    return arrivals + min(tokens, _MOE_CHUNK_TOKENS) * w.top_k * row


def _exchange_buffer_bytes(w: _Widths, role: RolePlan, engine: EngineProfile, ranks_per_domain: int) -> float:
    backend = role.all2all
    ep = role.parallelism.ep
    if backend is All2AllBackend.ALLGATHER_REDUCESCATTER:
        return 0.0
    fixed = engine.deepep_ht_buffer_gib * GIB
    if backend in _BATCHED_LAYOUT:
        redundant = role.eplb.redundant_experts if role.eplb is not None else 0
        return fixed + low_latency_buffer_bytes(
            tokens=role.max_num_batched_tokens, hidden=w.moe_hidden, experts=w.experts + redundant
        )
    if backend in _FLASHINFER:
        # Symmetric workspace: a slot for every token of every rank, dispatch (fp8) and combine (bf16).
        slots = float(ep * role.max_num_batched_tokens)
        return slots * w.moe_hidden * (_FP8_PAYLOAD_BYTES + _ACT_BYTES)
    return fixed * (2.0 if ranks_per_domain < ep else 1.0)


def _derive(model: ModelSpec) -> _Widths:
    attention = dense = 0.0
    for group in model.layers:
        a = group.attention
        if isinstance(a, GqaAttention):
            width = a.heads * (a.head_dim + a.value_dim) + a.kv_elements_per_token
        elif isinstance(a, MlaAttention):
            width = 2.0 * a.heads * (a.qk_nope_head_dim + a.qk_rope_head_dim + a.v_head_dim)
        elif isinstance(a, CompressedAttention):
            width = 2.0 * a.heads * a.head_dim
        elif isinstance(a, LinearAttention):
            width = 2.0 * a.key_heads * a.key_dim + 3.0 * a.heads * a.value_dim
        else:
            width = 0.0
        attention = max(attention, width)
        m = group.mlp
        if isinstance(m, DenseMlp):
            dense = max(dense, float(m.matrices * m.intermediate))
        elif isinstance(m, MoeMlp):
            dense = max(dense, 3.0 * m.dense_intermediate, float(m.shared_matrices * m.shared_intermediate))
    moe = model.moe
    return _Widths(
        hidden=model.hidden,
        vocab=model.vocab,
        attention=float(attention),
        dense=dense,
        experts=moe.experts if moe else 0,
        top_k=moe.top_k if moe else 0,
        moe_hidden=moe.hidden if moe else 0,
        moe_intermediate=moe.intermediate if moe else 0,
        gate_up=2 if moe is None or moe.matrices == 3 else 1,
        moe_layers=model.moe_layers,
    )


_widths = IdentityMemo(_derive)
