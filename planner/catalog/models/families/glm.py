"""GLM 4.5 to 4.7 (GQA) and GLM 5 (MLA with an indexer, shared between layers from 5.2 on)."""

from __future__ import annotations

from planner.catalog.models.families.deepseek import read_indexer
from planner.catalog.models.parts import (
    LAYERS,
    MLA_NAMES,
    Family,
    Structure,
    dense_then_moe,
    read_mla,
)
from planner.catalog.models.view import ConfigView


def build_gqa(view: ConfigView) -> Structure:
    """GLM 4.5, 4.6, 4.7."""
    return dense_then_moe(view)


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
    return dense_then_moe(view, [kinds[t] for t in types])


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
