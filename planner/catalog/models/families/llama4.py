"""Llama 3 (dense) and Llama 4 (chunked attention, one implicit shared expert)."""

from __future__ import annotations

from planner.catalog.models.parts import (
    LAYERS,
    STANDARD_NAMES,
    Family,
    Part,
    Structure,
    mixed_mlp,
    norms,
    read_gqa,
    read_moe,
    read_mtp,
    stack,
)
from planner.catalog.models.view import ConfigView
from planner.domain.model import DenseMlp

# Llama4TextConfig: layers without rotary embedding attend globally, one in four when no list is given.
NO_ROPE_INTERVAL = 4

LLAMA4_NAMES = {
    **STANDARD_NAMES,
    Part.DENSE: ("feed_forward.gate_proj", "feed_forward.down_proj"),
    Part.EXPERTS: (
        "feed_forward.experts.gate_up_proj",
        "feed_forward.experts.down_proj",
        "feed_forward.experts",
    ),
    Part.SHARED: ("feed_forward.shared_expert.gate_proj", "feed_forward.shared_expert.down_proj"),
}


def build_dense(view: ConfigView) -> Structure:
    """Llama 3 and other dense decoders whose class derives ``head_dim`` when it is absent."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    attention = read_gqa(view, hidden, derived_head_dim=True)
    mlp = DenseMlp(intermediate=view.integer("intermediate_size"))
    return Structure(
        hidden=hidden,
        layers=stack([attention] * layers, [mlp] * layers),
        mtp_layers=read_mtp(view),
        other_parameters=norms(hidden, layers),
    )


def _chunked_layers(view: ConfigView, layers: int) -> list[bool]:
    types = view.words("layer_types", allowed=("chunked_attention", "full_attention"), length=layers)
    if types is not None:
        return [t == "chunked_attention" for t in types]
    rotary = view.integers("no_rope_layers", length=layers)
    if rotary:
        return [bool(r) for r in rotary]  # the list marks layers that do have rotary embedding with 1
    interval = view.optional_integer("no_rope_layer_interval", minimum=1) or NO_ROPE_INTERVAL
    return [(i + 1) % interval != 0 for i in range(layers)]


def build_llama4(view: ConfigView) -> Structure:
    """Llama 4: MoE on every ``interleave_moe_layer_step``-th layer (or ``moe_layers``), chunks on rotary layers."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    chunk = view.integer("attention_chunk_size")
    full = read_gqa(view, hidden)
    local = read_gqa(view, hidden, window=chunk, chunked=True)
    listed = view.integers("moe_layers")
    if listed is not None:
        mask = [i in set(listed) for i in range(layers)]
    else:
        step = view.integer("interleave_moe_layer_step")
        mask = [(i + 1) % step == 0 for i in range(layers)]
    width = view.integer("intermediate_size")
    moe = read_moe(view, hidden, width=("intermediate_size",), shared_width=width)
    return Structure(
        hidden=hidden,
        layers=stack(
            [local if c else full for c in _chunked_layers(view, layers)],
            mixed_mlp(view, mask, moe, dense=("intermediate_size_mlp",)),
        ),
        other_parameters=norms(hidden, layers),
    )


FAMILIES = (
    Family(
        name="llama4",
        architectures=("Llama4ForConditionalGeneration", "Llama4ForCausalLM"),
        model_types=("llama4_text", "llama4"),
        build=build_llama4,
        markers=frozenset({"attention_chunk_size"}),
        names=LLAMA4_NAMES,
    ),
    Family(
        name="llama",
        architectures=("LlamaForCausalLM", "MiMoForCausalLM"),
        model_types=("llama", "mimo"),
        build=build_dense,
    ),
)
