"""Floating-point work and bytes of each operator: what any kernel must do, before efficiency.

FLOP count a multiply-add as 2; bytes are HBM traffic of one rank. Formulas follow the published model papers
(DeepSeek-V2, V3, V3.2, V4; FlashAttention) with shapes after sharding.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from planner.domain.dtypes import ComputeDtype, KvDtype, WeightFormat
from planner.domain.model import (
    Attention,
    CompressedAttention,
    GqaAttention,
    Indexer,
    LinearAttention,
    MlaAttention,
    compressed_entry_bytes,
)
from planner.perf.operators.base import ExchangeShape, ExpertShape, FloatArray

_SCAN_CHUNK: Final = 64  # tokens per chunk of the chunked linear-attention kernels
_TILE: Final = 256.0
_SPARSE_PACKED_EXTRA: Final = 16.0  # four float32 scales of the packed fp8 latent


class Work(NamedTuple):
    """Work of one call. `flops` run in `dtype`; `index_flops` in fp8; `bytes_moved` through HBM.

    `expand_flops`: bf16 GEMM work beside the core (cached latents expanded to keys and values).
    """

    flops: FloatArray
    bytes_moved: FloatArray
    index_flops: FloatArray
    dtype: ComputeDtype
    expand_flops: FloatArray | float = 0.0


def activation_bytes(fmt: WeightFormat) -> float:
    """Bytes per activation element as the GEMM reads it."""
    return {ComputeDtype.BF16: 2.0, ComputeDtype.FP8: 1.0, ComputeDtype.FP4: 0.5625}[fmt.compute]


def gemm_work(fmt: WeightFormat, *, n: int, k: int, m: FloatArray) -> Work:
    """``[m, k] x [k, n]``: weights once, activations in, bf16 out."""
    moved = n * k * fmt.bytes_per_weight + m * (k * activation_bytes(fmt) + 2.0 * n)
    return Work(2.0 * n * k * m, moved, np.zeros_like(m), fmt.compute)


def distinct_experts(shape: ExpertShape, slots: FloatArray) -> FloatArray:
    """Expected distinct local experts touched when `slots` fall uniformly on the local experts.

    Tokens choose `top_k` different experts, so the exponent is tokens of the whole group, not slots.
    """
    local, total = float(shape.experts_local), float(shape.experts_total)
    if local <= 1:
        return np.minimum(slots, 1.0)
    share = min(shape.top_k / max(total, 1.0), 1.0 - 1e-12)
    tokens = slots * total / (local * max(shape.top_k, 1e-9))
    touched = -local * np.expm1(tokens * math.log1p(-share))
    return np.minimum(np.minimum(touched, slots), local)


def experts_work(shape: ExpertShape, slots: FloatArray, touched: FloatArray | None = None) -> Work:
    """Grouped GEMMs: weights of the touched experts once, activations in and out of every matrix.

    `touched`: distinct experts; by default those expected under uniform routing.
    """
    per_expert = float(shape.matrices * shape.hidden * shape.intermediate)
    distinct = distinct_experts(shape, slots) if touched is None else touched
    weights = distinct * per_expert * shape.fmt.bytes_per_weight
    act = activation_bytes(shape.fmt)
    up = shape.matrices - 1
    per_slot = shape.hidden * (act + 2.0) + shape.intermediate * (2.0 * up + 2.0 + 2.0 * act)
    return Work(2.0 * per_expert * slots, weights + slots * per_slot, np.zeros_like(slots), shape.fmt.compute)


def attended_pairs(new: FloatArray, prefix: FloatArray, limit: float | None) -> FloatArray:
    """Query-key pairs of a causal chunk of `new` tokens after `prefix`, each query seeing at most `limit` keys."""

    def upto(x: FloatArray) -> FloatArray:
        if limit is None:
            return x * (x + 1.0) / 2.0
        inside = np.minimum(x, limit)
        return inside * (inside + 1.0) / 2.0 + (x - inside) * limit

    return upto(prefix + new) - upto(prefix)


def _rank_heads(heads: int, tp: int) -> float:
    return max(heads / tp, 1.0)


def _index_prefill(indexer: Indexer | None, pairs: FloatArray) -> FloatArray:
    if indexer is None or not indexer.owned:
        return np.zeros_like(pairs)
    return 2.0 * indexer.heads * indexer.head_dim * pairs


def _gqa_limit(a: GqaAttention) -> float | None:
    limits = [float(x) for x in (a.window, a.sparse_tokens) if x is not None]
    return min(limits) if limits else None


def prefill_work(a: Attention, *, tp: int, kv: KvDtype, new: FloatArray, prefix: FloatArray) -> Work:
    """Core attention of one sequence's chunk."""
    if isinstance(a, LinearAttention):
        return _scan_work(a, tp=tp, tokens=new + 0.0 * prefix)
    total = new + prefix
    if isinstance(a, GqaAttention):
        heads, kv_heads = _rank_heads(a.heads, tp), max(a.kv_heads / tp, 1.0)
        limit = _gqa_limit(a)
        # a windowed kernel computes whole tiles at both edges of the window
        tiles = _TILE if a.window is not None and not a.chunked else 0.0
        pairs = attended_pairs(new, prefix, None if limit is None else limit + tiles)
        seen = total if limit is None else np.minimum(total, new + limit)
        flops = 2.0 * heads * (a.head_dim + a.value_dim) * pairs
        moved = seen * kv_heads * (a.head_dim + a.value_dim) * kv.bytes_per_element
        moved = moved + new * heads * 2.0 * (a.head_dim + a.value_dim)
        index = np.zeros_like(pairs)
        if a.sparse_tokens is not None and a.extra_kv_elements:
            index = 2.0 * max(a.index_heads, 1) * a.extra_kv_elements * attended_pairs(new, prefix, None)
        return Work(flops, moved, index, ComputeDtype.BF16)
    if isinstance(a, MlaAttention):
        heads = _rank_heads(a.heads, tp)
        out = new * heads * 2.0 * (a.qk_nope_head_dim + a.qk_rope_head_dim + a.v_head_dim)
        if a.sparse:
            limit = float(a.sparse_top_k or (a.indexer.top_k if a.indexer else 2048))
            pairs = attended_pairs(new, prefix, limit)
            flops = 2.0 * heads * (2 * a.kv_lora_rank + a.qk_rope_head_dim) * pairs
            flops = flops + 2.0 * heads * a.kv_lora_rank * (a.qk_nope_head_dim + a.v_head_dim) * new
            moved = total * a.kv_elements_per_token * kv.bytes_per_element + out
            index = _index_prefill(a.indexer, attended_pairs(new, prefix, None))
            return Work(flops, moved, index, ComputeDtype.BF16)
        dims = a.qk_nope_head_dim + a.qk_rope_head_dim + a.v_head_dim
        flops = 2.0 * heads * dims * attended_pairs(new, prefix, None)
        # the cached latent is expanded to per-head keys and values again for every chunk
        expand = 2.0 * heads * a.kv_lora_rank * (a.qk_nope_head_dim + a.v_head_dim) * prefix
        moved = out + total * heads * 2.0 * (a.qk_nope_head_dim + a.qk_rope_head_dim + a.v_head_dim)
        return Work(flops, moved, np.zeros_like(flops), ComputeDtype.BF16, expand)
    return _compressed_prefill(a, tp=tp, kv=kv, new=new, prefix=prefix)


def _compressed_prefill(
    a: CompressedAttention, *, tp: int, kv: KvDtype, new: FloatArray, prefix: FloatArray
) -> Work:
    heads = _rank_heads(a.heads, tp)
    pairs = attended_pairs(new, prefix, float(a.window))
    index = np.zeros_like(pairs)
    entries = np.zeros_like(pairs)
    if a.ratio is not None:
        entries = (new + prefix) / a.ratio
        far = attended_pairs(new, prefix, None) / a.ratio
        if a.indexer is not None:
            index = _index_prefill(a.indexer, far)
            far = attended_pairs(new, prefix, float(a.indexer.top_k) * a.ratio) / a.ratio
        pairs = pairs + far
    moved = (entries + new) * compressed_entry_bytes(a, kv) + new * heads * 4.0 * a.head_dim
    return Work(4.0 * heads * a.head_dim * pairs, moved, index, ComputeDtype.BF16)


def decode_work(a: Attention, *, tp: int, kv: KvDtype, batch: FloatArray, context: FloatArray) -> Work:
    """Core attention of one decode step, absorbed MLA products and indexer included."""
    if isinstance(a, LinearAttention):
        share = a.state_bytes_per_seq / tp
        flops = 4.0 * a.heads / tp * a.key_dim * a.value_dim * batch + 0.0 * context
        return Work(flops, 2.0 * share * batch + 0.0 * context, np.zeros_like(flops), ComputeDtype.BF16)
    if isinstance(a, GqaAttention):
        heads, kv_heads = _rank_heads(a.heads, tp), max(a.kv_heads / tp, 1.0)
        limit = _gqa_limit(a)
        seen = context if limit is None else np.minimum(context, limit)
        width = a.head_dim + a.value_dim
        moved = batch * seen * kv_heads * width * kv.bytes_per_element + batch * heads * 2.0 * width
        index = np.zeros_like(moved)
        if a.sparse_tokens is not None and a.extra_kv_elements:
            moved = moved + batch * context * a.extra_kv_elements * kv.bytes_per_element
            index = 2.0 * max(a.index_heads, 1) * a.extra_kv_elements * batch * context
        return Work(2.0 * heads * width * batch * seen, moved, index, ComputeDtype.BF16)
    heads = _rank_heads(a.heads, tp)
    if isinstance(a, MlaAttention):
        return _mla_decode(a, heads=heads, kv=kv, batch=batch, context=context)
    entries = np.minimum(context, float(a.window))
    index = np.zeros_like(batch * context)
    moved = index
    if a.ratio is not None:
        far = context / a.ratio
        if a.indexer is not None:
            index, moved = _index_decode(a.indexer, kv, batch, far)
            far = np.minimum(far, float(a.indexer.top_k))
        entries = entries + far
    moved = moved + batch * entries * compressed_entry_bytes(a, kv) + batch * heads * 4.0 * a.head_dim
    return Work(4.0 * heads * a.head_dim * batch * entries, moved, index, ComputeDtype.BF16)


def _index_decode(
    indexer: Indexer, kv: KvDtype, batch: FloatArray, keys: FloatArray
) -> tuple[FloatArray, FloatArray]:
    if not indexer.owned:
        zero = np.zeros_like(batch * keys)
        return zero, zero
    key_bytes = indexer.head_dim * 2.0 if kv is KvDtype.BF16 else indexer.key_bytes_per_token
    return 2.0 * indexer.heads * indexer.head_dim * batch * keys, batch * keys * key_bytes


def _mla_decode(
    a: MlaAttention, *, heads: float, kv: KvDtype, batch: FloatArray, context: FloatArray
) -> Work:
    seen = context
    entry = a.kv_elements_per_token * kv.bytes_per_element
    index = np.zeros_like(batch * context)
    index_bytes = index
    if a.sparse:
        # the kernels attend to a padded selection: short contexts cost as much as `top_k` keys
        seen = 0.0 * context + float(a.sparse_top_k or (a.indexer.top_k if a.indexer else 2048))
        if kv is KvDtype.FP8:
            entry = a.kv_lora_rank + _SPARSE_PACKED_EXTRA + 2.0 * a.qk_rope_head_dim
        if a.indexer is not None:
            index, index_bytes = _index_decode(a.indexer, kv, batch, context)
    absorbed = a.kv_lora_rank * (a.qk_nope_head_dim + a.v_head_dim)
    flops = 2.0 * heads * batch * (seen * (2 * a.kv_lora_rank + a.qk_rope_head_dim) + absorbed)
    moved = batch * seen * entry + index_bytes
    moved = moved + batch * heads * 2.0 * (2 * a.kv_lora_rank + a.qk_nope_head_dim + a.v_head_dim)
    moved = moved + heads * absorbed * 2.0  # the two absorbed weight matrices
    # Hopper multiplies the fp8 latent in bf16; the efficiency tables know who does it in fp8
    return Work(flops, moved, index, ComputeDtype.FP8 if kv is KvDtype.FP8 else ComputeDtype.BF16)


def _scan_work(a: LinearAttention, *, tp: int, tokens: FloatArray) -> Work:
    heads = a.heads / tp
    per_token = 2.0 * heads * (_SCAN_CHUNK * (a.key_dim + a.value_dim) + 2.0 * a.key_dim * a.value_dim)
    width = 2.0 * a.key_heads / tp * a.key_dim + heads * a.value_dim
    moved = tokens * width * 2.0 * 3.0 + 2.0 * a.state_bytes_per_seq / tp * (1.0 + tokens / _SCAN_CHUNK)
    return Work(per_token * tokens, moved, np.zeros_like(tokens), ComputeDtype.BF16)


def exchange_bytes(fmt: WeightFormat, hidden: int) -> float:
    """Bytes of one dispatched token copy: fp8 + float32 scale per 128, nvfp4 + scale per 16, or bf16."""
    if fmt in (WeightFormat.FP8, WeightFormat.FP8_BLOCK):
        return hidden * (1.0 + 4.0 / 128.0)
    if fmt is WeightFormat.NVFP4:
        return hidden * (0.5 + 1.0 / 16.0)
    return hidden * 2.0


def copy_bytes(shape: ExchangeShape, *, combine: bool) -> float:
    """Bytes of one token copy: the dispatch payload, or bf16 on the way back."""
    return 2.0 * shape.hidden if combine else exchange_bytes(shape.fmt, shape.hidden)


def gathered_row_bytes(shape: ExchangeShape, *, combine: bool) -> float:
    """Bytes per token of the all-gather exchange; the gather also carries top-k ids and weights (8 B a choice)."""
    return copy_bytes(shape, combine=combine) + (0.0 if combine else 8.0 * shape.top_k)


def distinct_groups(groups: int, *, experts: int, top_k: float) -> float:
    """Expected distinct groups (ranks or nodes) a token's `top_k` experts fall on, uniform routing."""
    if groups <= 1:
        return 1.0
    per_group = experts / groups
    log_miss = 0.0
    for i in range(max(math.floor(top_k), 1)):
        left = experts - per_group - i
        if left <= 0:
            return float(groups)
        log_miss += math.log(left / (experts - i))
    miss = math.exp(log_miss)
    fraction = top_k - math.floor(top_k)
    if fraction > 0 and top_k >= 1:
        miss *= 1.0 - fraction / groups
    return min(groups * (1.0 - miss), max(top_k, 1.0))
