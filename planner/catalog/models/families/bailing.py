"""Ling and Ring (Bailing MoE) and the Ling 3 hybrid of MLA and Kimi delta attention."""

from __future__ import annotations

from planner.catalog.models.families.kimi import KDA_NAMES
from planner.catalog.models.parts import (
    LAYERS,
    Family,
    Structure,
    first_dense,
    kda,
    mixed_mlp,
    norms,
    read_gqa,
    read_mla,
    read_moe,
    read_mtp,
    stack,
)
from planner.catalog.models.view import ConfigView


def build_moe(view: ConfigView) -> Structure:
    """Ling 1 and 2."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    attention = read_gqa(view, hidden)
    mlp = mixed_mlp(view, first_dense(view, layers), read_moe(view, hidden), dense=("intermediate_size",))
    return Structure(
        hidden=hidden,
        layers=stack([attention] * layers, mlp),
        mtp_layers=read_mtp(view),
        other_parameters=norms(hidden, layers),
    )


def build_hybrid(view: ConfigView) -> Structure:
    """Ling 3: the last layer of each ``layer_group_size`` is MLA, the others are KDA with ``head_dim`` heads."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    group = view.integer("layer_group_size")
    full = read_mla(view, hidden)
    linear = kda(
        hidden=hidden,
        heads=view.integer("num_attention_heads"),
        head_dim=view.integer("head_dim"),
        conv_kernel=view.integer("short_conv_kernel_size"),
    )
    mlp = mixed_mlp(view, first_dense(view, layers), read_moe(view, hidden), dense=("intermediate_size",))
    return Structure(
        hidden=hidden,
        layers=stack([full if (i + 1) % group == 0 else linear for i in range(layers)], mlp),
        mtp_layers=read_mtp(view),
        other_parameters=norms(hidden, layers),
    )


FAMILIES = (
    Family(
        name="bailing-hybrid",
        architectures=("BailingHybridForCausalLM",),
        model_types=("bailing_hybrid",),
        build=build_hybrid,
        markers=frozenset({"kv_lora_rank", "layer_group_size"}),
        names=KDA_NAMES,
    ),
    Family(
        name="bailing-moe",
        architectures=("BailingMoeForCausalLM", "BailingMoeV2ForCausalLM"),
        model_types=("bailing_moe", "bailing_moe_v2"),
        build=build_moe,
    ),
)
