"""gpt-oss: full and sliding GQA layers in turn, MXFP4 experts."""

from __future__ import annotations

from planner.catalog.models.parts import LAYERS, Family, Structure, norms, read_gqa, read_moe, stack
from planner.catalog.models.view import ConfigView


def build(view: ConfigView) -> Structure:
    """``intermediate_size`` is the expert width; ``layer_types`` names the sliding layers."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    if not view.has("layer_types"):
        view.missing(("layer_types",))
    types = view.words("layer_types", allowed=("sliding_attention", "full_attention"), length=layers)
    full = read_gqa(view, hidden)
    sliding = read_gqa(view, hidden, window=view.integer("sliding_window"))
    moe = read_moe(view, hidden, width=("moe_intermediate_size", "intermediate_size"), shared_width=0)
    attention = [sliding if t == "sliding_attention" else full for t in types or ["full_attention"] * layers]
    return Structure(
        hidden=hidden,
        layers=stack(attention, [moe] * layers),
        other_parameters=norms(hidden, layers),
    )


FAMILIES = (
    Family(
        name="gpt-oss",
        architectures=("GptOssForCausalLM",),
        model_types=("gpt_oss",),
        build=build,
        markers=frozenset({"sliding_window"}),
    ),
)
