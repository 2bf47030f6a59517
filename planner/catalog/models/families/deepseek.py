"""DeepSeek V2, V3, R1 (MLA), V3.2 (MLA with an indexer) and V4 (compressed shared-KV attention)."""

from __future__ import annotations

from planner.catalog.models.parts import (
    LAYERS,
    MLA_NAMES,
    Family,
    Part,
    Structure,
    first_dense,
    mixed_mlp,
    norms,
    read_mla,
    read_moe,
    read_mtp,
    stack,
)
from planner.catalog.models.view import ConfigView
from planner.domain.model import CompressedAttention, Indexer

# Layers of this ratio select compressed entries with an indexer and overlap their windows (DeepSeek-V4 report).
SELECTING_RATIO = 4


def read_indexer(view: ConfigView, *, owned: bool = True) -> Indexer:
    """The DSA indexer's shape."""
    return Indexer(
        heads=view.integer("index_n_heads"),
        head_dim=view.integer("index_head_dim"),
        top_k=view.integer("index_topk"),
        owned=owned,
    )


def build_mla(view: ConfigView) -> Structure:
    """DeepSeek V2, V3, R1, V3.2 and models of the same class (Kimi K2)."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    indexer = read_indexer(view) if view.has("index_topk", "index_n_heads", "index_head_dim") else None
    attention = read_mla(view, hidden, indexer=indexer, sparse=indexer is not None)
    mlp = mixed_mlp(view, first_dense(view, layers), read_moe(view, hidden), dense=("intermediate_size",))
    return Structure(
        hidden=hidden,
        layers=stack([attention] * layers, mlp),
        mtp_layers=read_mtp(view),
        other_parameters=norms(hidden, layers),
    )


def build_v32(view: ConfigView) -> Structure:
    """DeepSeek V3.2: the indexer's keys are required."""
    read_indexer(view)
    return build_mla(view)


def _compressed(view: ConfigView, hidden: int, ratio: int) -> CompressedAttention:
    """One V4 attention layer.

    Parameters: h*rq + rq*H*d + h*d (shared K and V), the grouped output H*d*ro + groups*ro*h, the compressor's
    value and gate projections (2*h*d, twice with overlapping windows), and where entries are selected the
    indexer rq*Hi*di + h*Hi with its own overlapping compressor 4*h*di.
    """
    heads, dim = view.integer("num_attention_heads"), view.integer("head_dim")
    q_rank, o_rank = view.integer("q_lora_rank"), view.integer("o_lora_rank")
    groups = view.integer("o_groups")
    parameters = hidden * q_rank + q_rank * heads * dim + hidden * dim
    parameters += heads * dim * o_rank + groups * o_rank * hidden
    indexer = None
    if ratio == SELECTING_RATIO:
        indexer = read_indexer(view)
        parameters += 4 * hidden * dim + 4 * hidden * indexer.head_dim
        parameters += q_rank * indexer.heads * indexer.head_dim + hidden * indexer.heads
    elif ratio:
        parameters += 2 * hidden * dim
    return CompressedAttention(
        heads=heads,
        head_dim=dim,
        rope_dim=view.integer("qk_rope_head_dim"),
        ratio=ratio or None,
        window=view.integer("sliding_window"),
        q_lora_rank=q_rank,
        o_lora_rank=o_rank,
        o_groups=groups,
        indexer=indexer,
        parameters=float(parameters),
    )


def build_v4(view: ConfigView) -> Structure:
    """DeepSeek V4: ``compress_ratios`` gives each layer's ratio (0: window only), then those of MTP layers.

    Outside the layers: hyper-connections (two per layer, h*n x (n*n + 2n) with n = ``hc_mult``) and the token
    to expert table of the first ``num_hash_layers``.
    """
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    moe = read_moe(view, hidden)
    if not view.has("compress_ratios"):
        view.missing(("compress_ratios",))
    ratios = view.integers("compress_ratios", length=layers) or [0] * layers
    kinds = {r: _compressed(view, hidden, r) for r in sorted(set(ratios))}
    streams = view.integer("hc_mult")
    hashed = view.optional_integer("num_hash_layers") or 0
    other = norms(hidden, layers) + layers * 2.0 * streams * hidden * (streams * streams + 2 * streams)
    other += float(hashed * view.integer("vocab_size") * moe.top_k)
    return Structure(
        hidden=hidden,
        layers=stack([kinds[r] for r in ratios], [moe] * layers),
        mtp_layers=read_mtp(view),
        other_parameters=other,
    )


V4_NAMES = {
    Part.ATTENTION: ("attn.wq_b", "attn.wkv"),
    Part.ATTENTION_OUTPUT: ("attn.wo_b",),
    Part.DENSE: ("ffn.w1",),
    Part.EXPERTS: ("ffn.experts.0.w1", "ffn.experts.0.w2", "ffn.experts"),
    Part.SHARED: ("ffn.shared_experts.w1", "ffn.shared_experts.w2"),
}

FAMILIES = (
    Family(
        name="deepseek-v4",
        architectures=("DeepseekV4ForCausalLM",),
        model_types=("deepseek_v4",),
        build=build_v4,
        markers=frozenset({"compress_ratios", "index_topk", "sliding_window"}),
        names=V4_NAMES,
    ),
    Family(
        name="deepseek-v3.2",
        architectures=("DeepseekV32ForCausalLM",),
        model_types=("deepseek_v32",),
        build=build_v32,
        markers=frozenset({"kv_lora_rank", "index_topk"}),
        names=MLA_NAMES,
    ),
    Family(
        name="deepseek-v3",
        architectures=("DeepseekV3ForCausalLM", "DeepseekV2ForCausalLM"),
        model_types=("deepseek_v3", "deepseek_v2"),
        build=build_mla,
        markers=frozenset({"kv_lora_rank"}),
        names=MLA_NAMES,
    ),
)
