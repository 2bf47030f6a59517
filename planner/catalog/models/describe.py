"""Words and formulas for a model's structure, for people who want to check the arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from planner.domain.dtypes import KvDtype
from planner.domain.model import (
    Attention,
    CompressedAttention,
    DenseMlp,
    GqaAttention,
    LayerGroup,
    LinearAttention,
    MlaAttention,
    ModelSpec,
    MoeMlp,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerLine:
    """One group of layers in words; parameters and KV bytes are per layer."""

    count: int
    attention: str
    mlp: str
    attention_parameters: float
    mlp_parameters: float
    kv_bytes_per_token_bf16: float
    kv_bytes_per_token_fp8: float


def describe_layers(spec: ModelSpec) -> tuple[LayerLine, ...]:
    """Return one line per group of identical layers."""
    return tuple(_line(spec, g) for g in spec.layers)


def _line(spec: ModelSpec, group: LayerGroup) -> LayerLine:
    return LayerLine(
        count=group.count,
        attention=attention_words(group.attention),
        mlp=mlp_words(group.mlp, spec.hidden),
        attention_parameters=group.attention.parameters if group.attention is not None else 0.0,
        mlp_parameters=spec.mlp_parameters(group.mlp) if group.mlp is not None else 0.0,
        kv_bytes_per_token_bf16=spec.layer_kv_bytes_per_token(group, KvDtype.BF16),
        kv_bytes_per_token_fp8=spec.layer_kv_bytes_per_token(group, KvDtype.FP8),
    )


def attention_words(a: Attention | None) -> str:
    """``MLA 128 heads, 512+64, q 1536`` and the like."""
    if a is None:
        return "none"
    if isinstance(a, GqaAttention):
        dim = f"{a.head_dim}" if a.v_head_dim is None else f"{a.head_dim}/{a.v_head_dim}"
        text = f"GQA {a.heads}/{a.kv_heads} heads of {dim}"
        if a.window is not None:
            text += f", {'chunk' if a.chunked else 'window'} {a.window}"
        if a.sparse_tokens is not None:
            text += f", sparse {a.sparse_tokens}"
        return text + (", gated" if a.gated else "") + (", K=V" if a.key_value_shared else "")
    if isinstance(a, MlaAttention):
        text = f"MLA {a.heads} heads, {a.kv_lora_rank}+{a.qk_rope_head_dim}"
        text += f", q {a.q_lora_rank}" if a.q_lora_rank else ""
        if a.sparse:
            owned = a.indexer is not None and a.indexer.owned
            text += f", top {a.sparse_top_k} by {'its own' if owned else 'a shared'} indexer"
        return text + (", gated" if a.gated else "")
    if isinstance(a, CompressedAttention):
        kind = "window only" if a.ratio is None else f"1 entry per {a.ratio} tokens"
        return f"shared KV {a.heads} heads of {a.head_dim}, {kind}, window {a.window}"
    return f"{a.kind.value} {a.heads} heads, {a.key_dim}x{a.value_dim}, {a.state_bytes_per_seq:,.0f} B state"


def mlp_words(mlp: DenseMlp | MoeMlp | None, hidden: int) -> str:
    """``MoE 8 of 256, width 2048, shared 2048`` and the like."""
    if mlp is None:
        return "none"
    if isinstance(mlp, DenseMlp):
        return f"dense {mlp.intermediate}" + ("" if mlp.matrices == 3 else ", not gated")
    text = f"MoE {mlp.top_k} of {mlp.experts}, width {mlp.intermediate}"
    if mlp.hidden != hidden:
        text += f" at latent {mlp.hidden}"
    if mlp.identity_experts:
        text += f", {mlp.identity_experts} identity"
    if mlp.shared_intermediate:
        text += f", shared {mlp.shared_intermediate}"
    if mlp.dense_intermediate:
        text += f", dense {mlp.dense_intermediate}"
    return text + ("" if mlp.matrices == 3 else ", not gated")


def formulas(spec: ModelSpec) -> list[str]:
    """The KV, state and expert formulas that apply to this model, with its numbers."""
    out: list[str] = []
    for group in spec.layers:
        out += [f for f in _attention_formulas(group.attention) if f not in out]
        if isinstance(group.mlp, MoeMlp):
            m = group.mlp
            text = f"expert weights = {m.matrices} x {m.hidden} x {m.intermediate} = {m.parameters_per_expert:,.0f}"
            text += f" per expert, {m.experts} per layer, divided by EP x expert TP"
            if text not in out:
                out.append(text)
    return out


def _attention_formulas(a: Attention | None) -> list[str]:
    if isinstance(a, GqaAttention):
        dims = f"{a.kv_heads} KV heads x ({a.head_dim} + {a.value_dim})"
        if a.extra_kv_elements:
            dims += f" + {a.extra_kv_elements:.0f} index"
        elements = f"{dims} = {a.kv_elements_per_token:,.0f} elements per token and layer"
        if a.window is not None and not a.chunked:
            return [f"windowed KV = {elements}, at most {a.window} tokens per sequence"]
        return [f"KV = {elements}, x 2 B (bf16) or 1 B (fp8)"]
    if isinstance(a, MlaAttention):
        latent = f"{a.kv_lora_rank} latent + {a.qk_rope_head_dim} rope"
        out = [
            f"KV = {latent} = {a.kv_elements_per_token:,.0f} elements per token and layer, not sharded by TP"
        ]
        if a.sparse:
            packed = a.kv_lora_rank + 16 + 2 * a.qk_rope_head_dim
            out.append(
                f"fp8 KV of sparse layers = {a.kv_lora_rank} + 16 scales + 2 x {a.qk_rope_head_dim} rope = {packed} B"
            )
        if a.indexer is not None and a.indexer.owned:
            i = a.indexer
            out.append(
                f"index key = {i.head_dim} x 2 B (bf16) or {i.key_bytes_per_token:.0f} B (fp8 with scales)"
            )
        return out
    if isinstance(a, CompressedAttention):
        packed = a.head_dim + a.rope_dim
        window = f"window = {a.window} tokens x {packed} B per layer and sequence, always packed"
        if a.ratio is None:
            return [window]
        entry = f"{2 * a.head_dim} B (bf16) or {packed} B (fp8 + bf16 rope)"
        if a.indexer is not None:
            entry += f", index key {2 * a.indexer.head_dim} B or {a.indexer.key_bytes_per_token:.0f} B,"
        return [f"KV = one entry of {entry} per {a.ratio} tokens", window]
    if isinstance(a, LinearAttention):
        return [
            f"{a.kind.value} state = {a.state_bytes_per_seq:,.0f} B per layer and sequence, whatever the length"
        ]
    return []
