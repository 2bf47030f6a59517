"""Gemma 4: sliding layers, global layers with their own head shape, a dense MLP beside the experts."""

from __future__ import annotations

from dataclasses import replace

from planner.catalog.models.parts import (
    LAYERS,
    STANDARD_NAMES,
    Family,
    Mlp,
    Part,
    Structure,
    gqa,
    norms,
    read_gqa,
    read_moe,
    stack,
)
from planner.catalog.models.view import ConfigView
from planner.domain.model import DenseMlp


def build(view: ConfigView) -> Structure:
    """Global layers use ``global_head_dim`` and ``num_global_key_value_heads``; K and V share one matrix there."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    types = view.words("layer_types", allowed=("sliding_attention", "full_attention"), length=layers)
    if not view.has("layer_types"):
        view.missing(("layer_types",))
    types = types or ["full_attention"] * layers
    sliding = read_gqa(view, hidden, window=view.integer("sliding_window"))
    if not view.has("attention_k_eq_v"):
        view.missing(("attention_k_eq_v",))
    shared = view.flag("attention_k_eq_v", default=False)
    full = gqa(
        hidden=hidden,
        heads=sliding.heads,
        kv_heads=view.integer("num_global_key_value_heads") if shared else sliding.kv_heads,
        head_dim=view.integer("global_head_dim"),
        key_value_shared=shared,
    )
    for key in ("num_kv_shared_layers", "hidden_size_per_layer_input"):
        if view.optional_integer(key):
            view.problem(
                "model.unsupported-structure",
                what=f"'{key}' is {view.raw(key)}",
                why="layers that share a KV cache or take per-layer inputs are not counted yet",
                fix="use a Gemma 4 checkpoint without per-layer inputs (26B-A4B, 31B)",
                key=key,
            )
    dense = view.integer("intermediate_size")
    mlp: Mlp = DenseMlp(intermediate=dense)
    if view.has("num_experts") and not view.has("enable_moe_block"):
        view.missing(("enable_moe_block",))
    if view.flag("enable_moe_block", default=False):
        width = ("moe_intermediate_size", "expert_intermediate_size")
        moe = read_moe(view, hidden, width=width, shared_width=0)
        mlp = replace(moe, dense_intermediate=dense)
    return Structure(
        hidden=hidden,
        layers=stack([sliding if t == "sliding_attention" else full for t in types], [mlp] * layers),
        other_parameters=2 * norms(hidden, layers),
    )


FAMILIES = (
    Family(
        name="gemma4",
        architectures=("Gemma4ForConditionalGeneration", "Gemma4ForCausalLM"),
        model_types=("gemma4_text", "gemma4"),
        build=build,
        markers=frozenset({"sliding_window", "num_kv_shared_layers"}),
        names={**STANDARD_NAMES, Part.EXPERTS: ("experts.0.gate_proj", "experts.gate_up_proj", "experts")},
        tied_by_default=True,
    ),
)
