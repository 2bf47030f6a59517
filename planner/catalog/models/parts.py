"""Building blocks of model structures: attention and expert layers with their parameter counts.

Counts are weights of matrices and convolutions per layer; norms are added per model. Formulas are stated where
they are computed and checked against published totals in tests/models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from planner.catalog.models.view import ConfigView
from planner.domain.model import (
    Attention,
    DenseMlp,
    GqaAttention,
    Indexer,
    LayerGroup,
    LinearAttention,
    LinearKind,
    MlaAttention,
    MoeMlp,
)

EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
TOP_K = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_topk",
    "moe_k",
    "top_k_experts",
)
SHARED_COUNT = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
SHARED_WIDTH = (
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "shared_intermediate_size",
    "share_expert_dim",
)
LAYERS = ("num_hidden_layers", "num_layers")
MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers")

Mlp = DenseMlp | MoeMlp


class Part(StrEnum):
    """Kinds of matrices that checkpoints quantise differently."""

    ATTENTION = "attention"
    ATTENTION_OUTPUT = "attention_output"
    LINEAR = "linear_attention"
    DENSE = "dense_mlp"
    EXPERTS = "experts"
    SHARED = "shared_experts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One decoder layer."""

    attention: Attention | None
    mlp: Mlp | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """What a family reads from a config: layers in order, and what lies outside them."""

    hidden: int
    layers: list[Layer]
    mtp_layers: int = 0
    other_parameters: float = 0.0
    notes: tuple[str, ...] = ()

    def groups(self) -> tuple[LayerGroup, ...]:
        """Identical layers counted together, in order of first appearance."""
        counts: dict[Layer, int] = {}
        for layer in self.layers:
            counts[layer] = counts.get(layer, 0) + 1
        return tuple(
            LayerGroup(count=n, attention=layer.attention, mlp=layer.mlp) for layer, n in counts.items()
        )


# Names of matrices inside one decoder layer, as quantisation lists spell them.
STANDARD_NAMES: dict[Part, tuple[str, ...]] = {
    Part.ATTENTION: ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    Part.ATTENTION_OUTPUT: ("self_attn.o_proj",),
    Part.LINEAR: ("linear_attn.in_proj_qkv", "linear_attn.in_proj_qkvz"),
    Part.DENSE: ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
    Part.EXPERTS: ("mlp.experts.0.gate_proj", "mlp.experts.0.down_proj", "mlp.experts"),
    Part.SHARED: (
        "mlp.shared_experts.gate_proj",
        "mlp.shared_expert.gate_proj",
        "mlp.shared_experts.down_proj",
        "mlp.shared_expert.down_proj",
    ),
}
MLA_NAMES = {
    **STANDARD_NAMES,
    Part.ATTENTION: ("self_attn.q_b_proj", "self_attn.q_proj", "self_attn.kv_b_proj"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How to read one architecture.

    `architectures`: values of ``architectures`` it answers for; `model_types`: used when a file has none.
    `markers`: keys that mean a structure only some families have and that this one understands.
    `tied_by_default`: what the model's own class does when ``tie_word_embeddings`` is absent.
    """

    name: str
    architectures: tuple[str, ...]
    model_types: tuple[str, ...]
    build: Callable[[ConfigView], Structure]
    markers: frozenset[str] = frozenset()
    names: dict[Part, tuple[str, ...]] = field(default_factory=lambda: STANDARD_NAMES)
    tied_by_default: bool = False


# --- attention ---


def gqa(
    *,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    v_head_dim: int | None = None,
    window: int | None = None,
    chunked: bool = False,
    gated: bool = False,
    key_value_shared: bool = False,
    sparse_tokens: int | None = None,
    index_heads: int = 0,
    extra_kv_elements: float = 0.0,
    extra_parameters: float = 0.0,
) -> GqaAttention:
    """Q (twice when gated), K, V and output projections; one matrix for K and V when they are shared."""
    value = head_dim if v_head_dim is None else v_head_dim
    key_value = kv_heads * head_dim if key_value_shared else kv_heads * (head_dim + value)
    parameters = hidden * (heads * head_dim * (2 if gated else 1) + key_value + heads * value)
    return GqaAttention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=v_head_dim,
        window=window,
        chunked=chunked,
        gated=gated,
        key_value_shared=key_value_shared,
        sparse_tokens=sparse_tokens,
        index_heads=index_heads,
        extra_kv_elements=extra_kv_elements,
        parameters=float(parameters) + extra_parameters,
    )


def read_gqa(
    view: ConfigView,
    hidden: int,
    *,
    derived_head_dim: bool = False,
    gated: bool = False,
    window: int | None = None,
    chunked: bool = False,
) -> GqaAttention:
    """GQA from the usual keys. `derived_head_dim`: the class computes head_dim from hidden size when absent."""
    heads = view.integer("num_attention_heads")
    kv_heads = view.integer("num_key_value_heads")
    if heads % kv_heads:
        view.wrong("num_key_value_heads", f"a divisor of the {heads} query heads")
    return gqa(
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=read_head_dim(view, hidden, heads=heads, derived=derived_head_dim),
        gated=gated,
        window=window,
        chunked=chunked,
    )


def read_head_dim(view: ConfigView, hidden: int, *, heads: int, derived: bool) -> int:
    """``head_dim``; only classes that define it as hidden / heads (`derived`) may leave it out."""
    if derived and not view.has("head_dim", "attention_head_dim"):
        if heads and hidden % heads:
            view.missing(("head_dim",))
        return max(1, hidden // max(1, heads))
    return view.integer("head_dim", "attention_head_dim")


def read_mla(
    view: ConfigView,
    hidden: int,
    *,
    indexer: Indexer | None = None,
    sparse: bool = False,
    gated: bool = False,
) -> MlaAttention:
    """Multi-head latent attention; ``q_lora_rank`` null means that queries are not compressed.

    Parameters: q (h*rq + rq*H*(dn+dr), or h*H*(dn+dr)) + h*(r+dr) + r*H*(dn+dv) + H*dv*h, the gate h*H*dv, and
    the indexer's (rq or h)*Hi*di + h*di + h*Hi.
    """
    heads = view.integer("num_attention_heads")
    rank = view.integer("kv_lora_rank")
    nope = view.integer("qk_nope_head_dim")
    rope = view.integer("qk_rope_head_dim")
    value = view.integer("v_head_dim")
    q_rank = view.optional_integer("q_lora_rank", minimum=1)
    if not view.mentions("q_lora_rank"):
        view.missing(("q_lora_rank",))
    queries = heads * (nope + rope)
    parameters = hidden * q_rank + q_rank * queries if q_rank else hidden * queries
    parameters += hidden * (rank + rope) + rank * heads * (nope + value) + heads * value * hidden
    if gated:
        parameters += hidden * heads * value
    if indexer is not None and indexer.owned:
        parameters += (q_rank or hidden) * indexer.heads * indexer.head_dim
        parameters += hidden * (indexer.head_dim + indexer.heads)
    return MlaAttention(
        heads=heads,
        q_lora_rank=q_rank,
        kv_lora_rank=rank,
        qk_nope_head_dim=nope,
        qk_rope_head_dim=rope,
        v_head_dim=value,
        indexer=indexer,
        sparse=sparse,
        sparse_top_k=indexer.top_k if indexer is not None else None,
        gated=gated,
        parameters=float(parameters),
    )


def kda(
    *, hidden: int, heads: int, head_dim: int, conv_kernel: int, full_rank_gate: bool = False
) -> LinearAttention:
    """Kimi delta attention: q, k, v, output, a low-rank decay, a gate of low or full rank, a beta per head.

    State: one float32 head_dim x head_dim matrix per head, and the 16-bit convolution inputs of q, k and v.
    """
    width = heads * head_dim
    low_rank = hidden * head_dim + head_dim * width
    gate = hidden * width if full_rank_gate else low_rank
    parameters = 4 * hidden * width + low_rank + gate + hidden * heads + 3 * width * conv_kernel
    return LinearAttention(
        kind=LinearKind.KDA,
        heads=heads,
        key_heads=heads,
        key_dim=head_dim,
        value_dim=head_dim,
        conv_kernel=conv_kernel,
        state_bytes_per_seq=float(heads * head_dim * head_dim * 4 + 3 * width * conv_kernel * 2),
        parameters=float(parameters),
    )


def gated_delta_net(
    *, hidden: int, key_heads: int, value_heads: int, key_dim: int, value_dim: int, conv_kernel: int
) -> LinearAttention:
    """Gated delta net: q, k, v, z, beta and decay projections, a convolution over q, k and v, the output.

    State: one float32 key_dim x value_dim matrix per value head, and the 16-bit convolution inputs.
    """
    keys, values = key_heads * key_dim, value_heads * value_dim
    channels = 2 * keys + values
    parameters = hidden * (2 * keys + 2 * values + 2 * value_heads) + channels * conv_kernel + values * hidden
    return LinearAttention(
        kind=LinearKind.GDN,
        heads=value_heads,
        key_heads=key_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        conv_kernel=conv_kernel,
        state_bytes_per_seq=float(value_heads * key_dim * value_dim * 4 + channels * conv_kernel * 2),
        parameters=float(parameters),
    )


def mamba2(
    *, hidden: int, heads: int, head_dim: int, groups: int, state: int, conv_kernel: int, state_bytes: int
) -> LinearAttention:
    """Mamba-2 mixer: input projection (z, x, B, C, dt), convolution over x, B and C, output projection.

    State: heads x head_dim x state values of `state_bytes` each, and the 16-bit convolution inputs.
    """
    inner = heads * head_dim
    channels = inner + 2 * groups * state
    parameters = hidden * (inner + channels + heads) + channels * conv_kernel + inner * hidden
    return LinearAttention(
        kind=LinearKind.MAMBA2,
        heads=heads,
        key_heads=groups,
        key_dim=state,
        value_dim=head_dim,
        conv_kernel=conv_kernel,
        state_bytes_per_seq=float(inner * state * state_bytes + channels * conv_kernel * 2),
        parameters=float(parameters),
    )


# --- feed-forward ---


def read_moe(
    view: ConfigView,
    hidden: int,
    *,
    width: Sequence[str] = ("moe_intermediate_size",),
    latent: Sequence[str] = (),
    matrices: int = 3,
    shared_width: int | None = None,
) -> MoeMlp:
    """Routed and shared experts from all spellings of their keys.

    `width`: keys of the expert width. `latent`: keys of the width experts run at when it is not the hidden size
    (adds the projections down and up). `shared_width`: total width of shared experts when the class fixes it
    (0: it has none).
    """
    experts = view.integer(*EXPERTS)
    top_k = view.integer(*TOP_K)
    intermediate = view.integer(*width)
    if top_k > experts:
        view.problem(
            "model.key-invalid",
            what=f"{top_k} experts per token of {experts}",
            why="a token cannot visit more experts than there are",
            fix="compare both keys with the published config.json",
        )
    latent_width = view.optional_integer(*latent, minimum=1) if latent else None
    return MoeMlp(
        experts=experts,
        top_k=top_k,
        intermediate=intermediate,
        hidden=latent_width or hidden,
        matrices=matrices,
        shared_intermediate=read_shared_width(view, intermediate) if shared_width is None else shared_width,
        shared_matrices=matrices,
        latent_projection_parameters=2.0 * hidden * latent_width if latent_width else 0.0,
    )


def read_shared_width(view: ConfigView, expert_width: int) -> int:
    """Total width of the shared experts.

    A width key states it (of all shared experts together); a count alone means so many of the experts' width;
    null means none, and so does a width beside a count of 0. One of the keys must be there.
    """
    if not view.mentions(*SHARED_COUNT, *SHARED_WIDTH):
        view.missing((*SHARED_COUNT, *SHARED_WIDTH))
    count = view.optional_integer(*SHARED_COUNT)
    total = view.optional_integer(*SHARED_WIDTH)
    if count == 0:
        return 0
    if total is not None:
        return total
    return (count or 0) * expert_width


def first_dense(view: ConfigView, layers: int) -> list[bool]:
    """Which layers are MoE, from ``mlp_layer_types``, ``moe_layer_freq`` or ``first_k_dense_replace``."""
    kinds = view.words("mlp_layer_types", allowed=("dense", "sparse", "moe"), length=layers)
    if kinds is not None:
        return [k != "dense" for k in kinds]
    if isinstance(view.raw("moe_layer_freq"), list):
        marks = view.integers("moe_layer_freq", length=layers)
        return [bool(m) for m in marks] if marks is not None else [True] * layers
    if not view.has("first_k_dense_replace"):
        view.missing(("first_k_dense_replace", "mlp_layer_types", "moe_layer_freq"))
        return [True] * layers
    dense = view.integer("first_k_dense_replace", minimum=0)
    every = view.optional_integer("moe_layer_freq", minimum=1) or 1
    return [i >= dense and i % every == 0 for i in range(layers)]


def stack(attention: Sequence[Attention], mlp: Sequence[Mlp]) -> list[Layer]:
    """Pair attention and feed-forward parts layer by layer."""
    return [Layer(attention=a, mlp=m) for a, m in zip(attention, mlp, strict=True)]


def mixed_mlp(view: ConfigView, moe: Sequence[bool], expert: MoeMlp, *, dense: Sequence[str]) -> list[Mlp]:
    """Experts where `moe`, a gated dense MLP of width `dense` elsewhere (the key is needed only then)."""
    if all(moe):
        return [expert] * len(moe)
    other = DenseMlp(intermediate=view.integer(*dense))
    return [expert if m else other for m in moe]


def read_mtp(view: ConfigView) -> int:
    """Number of MTP layers; absent means none."""
    return view.optional_integer(*MTP) or 0


def norms(hidden: int, layers: int) -> float:
    """Two norms per layer and the last one."""
    return float((2 * layers + 1) * hidden)


def dense_then_moe(view: ConfigView, attention: Attention | Sequence[Attention] | None = None) -> Structure:
    """First dense layers, then experts (``first_k_dense_replace``), under one `attention` or one per layer.

    Without `attention` it is GQA everywhere.
    """
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    if attention is None:
        attention = read_gqa(view, hidden)
    each = [attention] * layers if isinstance(attention, Attention) else attention
    mlp = mixed_mlp(view, first_dense(view, layers), read_moe(view, hidden), dense=("intermediate_size",))
    return Structure(
        hidden=hidden,
        layers=stack(each, mlp),
        mtp_layers=read_mtp(view),
        other_parameters=norms(hidden, layers),
    )
