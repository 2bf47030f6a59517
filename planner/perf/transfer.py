"""Time to move one request's KV cache from a prefill rank to a decode rank (NIXL pull over the scale-out fabric).

T = setup + descriptors x cost + bytes / bandwidth. Sources: vLLM NIXL logs (vllm issue 50913: 167 MB in 1,785
descriptors, 6.7 ms to post; docs example: 2.25 MB, 72 descriptors, 1.38 ms, 0.67 ms to post), MORI-IO and NIXL
line-rate tables for the achievable bandwidth (in the fabric profile).
"""

from __future__ import annotations

from typing import Final

from planner.domain.deployment import RolePlan
from planner.domain.hardware import FabricProfile
from planner.domain.model import GqaAttention, LayerGroup, LinearAttention, MlaAttention, ModelSpec
from planner.domain.workload import Workload

SETUP_MS: Final = 0.7
DESCRIPTOR_US: Final = 3.7  # 6.7 ms / 1,785
CONTIGUITY: Final = (
    2.5  # neighbouring blocks that merge into one descriptor (same log: 4,575 blocks x layers)
)
TCP_GBPS: Final = 0.5  # without RDMA (vllm issue 52607)


def kv_transfer_ms(
    model: ModelSpec, workload: Workload, *, prefill: RolePlan, decode: RolePlan, fabric: FabricProfile
) -> float:
    """Milliseconds from the end of prefill until the decode rank holds the prompt's KV.

    A latent (MLA) cache is copied to every TP rank; GQA heads are split over at most `kv_heads` distinct ranks.
    Each TP rank pulls over its own share of the NICs, so the time is that of one rank's bytes.
    """
    total = 0.0
    descriptors = 0.0
    blocks = -(-workload.isl // decode.block_size)
    for group in model.layers:
        layer, tensors = _layer_bytes(model, group, decode, workload.isl)
        total += group.count * layer
        descriptors += group.count * tensors * blocks
    rate = fabric.effective_gbps if fabric.rdma else TCP_GBPS
    splits = max(1.0, decode.parallelism.tp / max(prefill.parallelism.tp, 1))
    return (
        SETUP_MS
        + descriptors * min(splits, 4.0) / CONTIGUITY * DESCRIPTOR_US / 1000.0
        + total / max(rate, 1e-6) / 1e6
    )


def _layer_bytes(model: ModelSpec, group: LayerGroup, decode: RolePlan, tokens: int) -> tuple[float, float]:
    """Bytes one decode TP rank pulls for one layer, and the tensors (descriptors per block) it has."""
    a = group.attention
    if a is None:
        return 0.0, 0.0
    tp = decode.parallelism.tp
    kv = decode.kv_dtype
    if isinstance(a, LinearAttention):
        return a.state_bytes_per_seq / tp, 0.0
    if isinstance(a, GqaAttention):
        held = min(tokens, a.window) if a.window is not None and not a.chunked else tokens
        per_token = a.kv_elements_per_token * kv.bytes_per_element / min(tp, a.kv_heads)
        return held * per_token, 2.0
    per_token = model.layer_kv_bytes_per_token(group, kv)
    tensors = 1.0 + (a.indexer is not None)
    if isinstance(a, MlaAttention):
        return tokens * per_token, tensors
    return tokens * per_token + a.window * (a.head_dim + a.rope_dim), tensors
