"""MiniMax M2 (GQA) and M3 (GQA with block-sparse attention, MSA)."""

from __future__ import annotations

from planner.catalog.models.parts import (
    LAYERS,
    STANDARD_NAMES,
    Family,
    Part,
    Structure,
    first_dense,
    gqa,
    mixed_mlp,
    norms,
    read_gqa,
    read_moe,
    read_mtp,
    stack,
)
from planner.catalog.models.view import ConfigView

NAMES = {
    **STANDARD_NAMES,
    Part.EXPERTS: (
        "block_sparse_moe.experts.0.w1",
        "block_sparse_moe.experts.0.w2",
        "block_sparse_moe.experts",
    ),
    Part.SHARED: ("block_sparse_moe.shared_experts.gate_proj", "block_sparse_moe.shared_experts.down_proj"),
}


def build_m2(view: ConfigView) -> Structure:
    """MiniMax M2: ``intermediate_size`` is the expert width; MTP modules count only with ``use_mtp``."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    attention = read_gqa(view, hidden)
    moe = read_moe(view, hidden, width=("moe_intermediate_size", "intermediate_size"))
    mtp = view.optional_integer("num_mtp_modules") or 0
    return Structure(
        hidden=hidden,
        layers=stack([attention] * layers, [moe] * layers),
        mtp_layers=mtp if view.flag("use_mtp", default=False) else 0,
        other_parameters=norms(hidden, layers),
    )


def build_m3(view: ConfigView) -> Structure:
    """MiniMax M3: sparse layers attend to ``sparse_topk_blocks`` blocks, chosen with one cached index key.

    The index adds h*Hi*di query and h*di key weights, and di cached elements per token, to each sparse layer.
    """
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    dense = read_gqa(view, hidden)
    sparse_view = view.child("sparse_attention_config")
    index_dim = sparse_view.integer("sparse_index_dim")
    index_heads = sparse_view.integer("sparse_num_index_heads")
    blocks = sparse_view.integer("sparse_topk_blocks") * sparse_view.integer("sparse_block_size")
    sparse = gqa(
        hidden=hidden,
        heads=dense.heads,
        kv_heads=dense.kv_heads,
        head_dim=dense.head_dim,
        sparse_tokens=blocks,
        index_heads=index_heads,
        extra_kv_elements=float(index_dim),
        extra_parameters=float(hidden * (index_heads + 1) * index_dim),
    )
    if not sparse_view.has("sparse_attention_freq"):
        sparse_view.missing(("sparse_attention_freq",))
    marks = sparse_view.integers("sparse_attention_freq", length=layers) or [1] * layers
    if not sparse_view.flag("use_sparse_attention", default=True):
        marks = [0] * layers
    moe = read_moe(view, hidden, width=("moe_intermediate_size", "intermediate_size"))
    mlp = mixed_mlp(view, first_dense(view, layers), moe, dense=("dense_intermediate_size",))
    mtp = read_mtp(view) or view.optional_integer("num_mtp_modules") or 0
    return Structure(
        hidden=hidden,
        layers=stack([sparse if m else dense for m in marks], mlp),
        mtp_layers=mtp,
        other_parameters=norms(hidden, layers),
    )


FAMILIES = (
    Family(
        name="minimax-m2",
        architectures=("MiniMaxM2ForCausalLM",),
        model_types=("minimax_m2",),
        build=build_m2,
        names=NAMES,
    ),
    Family(
        name="minimax-m3",
        architectures=(
            "MiniMaxM3ForCausalLM",
            "MiniMaxM3SparseForCausalLM",
            "MiniMaxM3SparseForConditionalGeneration",
        ),
        model_types=("minimax_m3", "minimax_m3_vl"),
        build=build_m3,
        markers=frozenset({"sparse_attention_config"}),
        names=NAMES,
    ),
)
