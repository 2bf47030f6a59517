"""Ling and Ring (Bailing MoE) and the Ling 3 hybrid of MLA and Kimi delta attention."""

from __future__ import annotations

from planner.catalog.models.families.kimi import KDA_NAMES
from planner.catalog.models.parts import (
    LAYERS,
    Family,
    Structure,
    dense_then_moe,
    kda,
    read_mla,
)
from planner.catalog.models.view import ConfigView


def build_moe(view: ConfigView) -> Structure:
    """Ling 1 and 2."""
    return dense_then_moe(view)


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
    return dense_then_moe(view, [full if (i + 1) % group == 0 else linear for i in range(layers)])


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
