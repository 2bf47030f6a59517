"""Step 3.7: full and sliding GQA layers, the first layers dense."""

from __future__ import annotations

from planner.catalog.models.parts import (
    LAYERS,
    Family,
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


def build(view: ConfigView) -> Structure:
    """Sliding layers may have their own number of heads (``num_sliding_attention_heads``)."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    full = read_gqa(view, hidden)
    sliding = gqa(
        hidden=hidden,
        heads=view.optional_integer("num_sliding_attention_heads", minimum=1) or full.heads,
        kv_heads=full.kv_heads,
        head_dim=full.head_dim,
        window=view.integer("sliding_window"),
    )
    if not view.has("layer_types"):
        view.missing(("layer_types",))
    types = view.words("layer_types", allowed=("sliding_attention", "full_attention"), length=layers)
    attention = [sliding if t == "sliding_attention" else full for t in types or ["full_attention"] * layers]
    mlp = mixed_mlp(view, first_dense(view, layers), read_moe(view, hidden), dense=("intermediate_size",))
    return Structure(
        hidden=hidden,
        layers=stack(attention, mlp),
        mtp_layers=read_mtp(view),
        other_parameters=norms(hidden, layers),
    )


FAMILIES = (
    Family(
        name="step3.7",
        architectures=("Step3p7FlashForCausalLM", "Step3p7ForConditionalGeneration"),
        model_types=("step3p7", "step3p7_text"),
        build=build,
        markers=frozenset({"sliding_window"}),
    ),
)
