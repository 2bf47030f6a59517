"""GLM 4.5 to 4.7 (GQA) and GLM 5 (MLA with an indexer, shared between layers from 5.2 on)."""

from __future__ import annotations

from planner.catalog.models.families.deepseek import read_indexer
from planner.catalog.models.parts import (
    LAYERS,
    MLA_NAMES,
    Family,
    Structure,
    first_dense,
    mixed_mlp,
    norms,
    read_gqa,
    read_mla,
    read_moe,
    read_mtp,
    stack,
)
from planner.catalog.models.view import ConfigView


def build_gqa(view: ConfigView) -> Structure:
    """GLM 4.5, 4.6, 4.7."""
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


def build_dsa(view: ConfigView) -> Structure:
    """GLM 5: ``indexer_types`` says which layers own an indexer; without it and without a frequency all do."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    types = view.words("indexer_types", allowed=("full", "shared"), length=layers)
    if types is None:
        if (view.optional_integer("index_topk_freq", minimum=1) or 1) > 1:
            view.missing(("indexer_types",))
        types = ["full"] * layers
    kinds = {
        t: read_mla(view, hidden, indexer=read_indexer(view, owned=t == "full"), sparse=True)
        for t in set(types)
    }
    mlp = mixed_mlp(view, first_dense(view, layers), read_moe(view, hidden), dense=("intermediate_size",))
    return Structure(
        hidden=hidden,
        layers=stack([kinds[t] for t in types], mlp),
        mtp_layers=read_mtp(view),
        other_parameters=norms(hidden, layers),
    )


FAMILIES = (
    Family(
        name="glm-dsa",
        architectures=("GlmMoeDsaForCausalLM",),
        model_types=("glm_moe_dsa",),
        build=build_dsa,
        markers=frozenset({"kv_lora_rank", "index_topk"}),
        names=MLA_NAMES,
    ),
    Family(
        name="glm4-moe",
        architectures=("Glm4MoeForCausalLM", "Glm4vMoeForConditionalGeneration"),
        model_types=("glm4_moe", "glm4v_moe_text"),
        build=build_gqa,
    ),
)
