"""MiMo V2: sliding layers with their own head shape, K and V of different widths."""

from __future__ import annotations

from planner.catalog.models.parts import (
    LAYERS,
    Family,
    Structure,
    first_dense,
    gqa,
    mixed_mlp,
    norms,
    read_moe,
    read_mtp,
    stack,
)
from planner.catalog.models.view import ConfigView


def build(view: ConfigView) -> Structure:
    """``hybrid_layer_pattern`` marks sliding layers with 1; their shape is in the ``swa_*`` keys."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    full = gqa(
        hidden=hidden,
        heads=view.integer("num_attention_heads"),
        kv_heads=view.integer("num_key_value_heads"),
        head_dim=view.integer("head_dim"),
        v_head_dim=view.integer("v_head_dim"),
    )
    sliding = gqa(
        hidden=hidden,
        heads=view.integer("swa_num_attention_heads"),
        kv_heads=view.integer("swa_num_key_value_heads"),
        head_dim=view.integer("swa_head_dim"),
        v_head_dim=view.integer("swa_v_head_dim"),
        window=view.integer("sliding_window", "sliding_window_size"),
    )
    if not view.has("hybrid_layer_pattern"):
        view.missing(("hybrid_layer_pattern",))
    marks = view.integers("hybrid_layer_pattern", length=layers) or [0] * layers
    mlp = mixed_mlp(view, first_dense(view, layers), read_moe(view, hidden), dense=("intermediate_size",))
    return Structure(
        hidden=hidden,
        layers=stack([sliding if m else full for m in marks], mlp),
        mtp_layers=read_mtp(view),
        other_parameters=norms(hidden, layers),
    )


FAMILIES = (
    Family(
        name="mimo-v2",
        architectures=("MiMoV2FlashForCausalLM",),
        model_types=("mimo_v2_flash",),
        build=build,
        markers=frozenset({"sliding_window", "attention_chunk_size", "hybrid_layer_pattern"}),
    ),
)
