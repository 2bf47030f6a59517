"""ERNIE 4.5 MoE, text and VL."""

from __future__ import annotations

from planner.catalog.models.parts import (
    LAYERS,
    Family,
    Structure,
    mixed_mlp,
    norms,
    read_gqa,
    read_moe,
    read_mtp,
    stack,
)
from planner.catalog.models.view import ConfigView


def _moe_layers(view: ConfigView, layers: int) -> list[bool]:
    """From ``moe_layer_start_index`` to ``moe_layer_end_index`` (-1 or absent: the last), each ``interval``-th."""
    start = view.per_layer("moe_layer_start_index", length=1, minimum=0)[0]
    every = view.optional_integer("moe_layer_interval", minimum=1) or 1
    raw = view.raw("moe_layer_end_index")
    last = raw[0] if isinstance(raw, list) and raw else raw
    end = layers - 1
    if isinstance(last, int) and not isinstance(last, bool) and last >= 0:
        end = last
    elif last not in (None, -1):
        view.wrong("moe_layer_end_index", "a layer number, or -1 for the last")
    return [start <= i <= end and (i + 1) % every == 0 for i in range(layers)]


def build(view: ConfigView) -> Structure:
    """ERNIE-VL states expert counts and widths as [text, vision]; vision experts count as weights only."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    attention = read_gqa(view, hidden, derived_head_dim=True)
    mask = _moe_layers(view, layers)
    counts, widths = view.raw("moe_num_experts"), view.raw("moe_intermediate_size")
    other = norms(hidden, layers)
    reader = view
    if isinstance(counts, list):
        experts = view.integers("moe_num_experts", length=2) or [1, 1]
        width = view.integers("moe_intermediate_size", length=2) or [1, 1]
        if not isinstance(widths, list):
            view.wrong("moe_intermediate_size", "a list [text, vision] like moe_num_experts")
        other += float(sum(mask) * 3 * hidden * width[1] * experts[1])
        reader = view.replaced(moe_num_experts=experts[0], moe_intermediate_size=width[0])
    mlp = mixed_mlp(view, mask, read_moe(reader, hidden), dense=("intermediate_size",))
    return Structure(
        hidden=hidden,
        layers=stack([attention] * layers, mlp),
        mtp_layers=read_mtp(view),
        other_parameters=other,
    )


FAMILIES = (
    Family(
        name="ernie4.5-moe",
        architectures=(
            "Ernie4_5_MoeForCausalLM",
            "Ernie4_5_MoEForCausalLM",
            "Ernie4_5_VLMoeForConditionalGeneration",
        ),
        model_types=("ernie4_5_moe", "ernie4_5_moe_vl"),
        build=build,
        tied_by_default=True,
    ),
)
