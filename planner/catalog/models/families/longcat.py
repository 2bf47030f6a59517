"""LongCat Flash: two attention blocks and two dense MLPs per layer, experts beside them, some of them identity."""

from __future__ import annotations

from dataclasses import replace

from planner.catalog.models.parts import (
    LAYERS,
    MLA_NAMES,
    Family,
    Layer,
    Structure,
    norms,
    read_mla,
    read_moe,
    read_mtp,
)
from planner.catalog.models.view import ConfigView
from planner.domain.model import DenseMlp


def build(view: ConfigView) -> Structure:
    """Each of ``num_layers`` counts as two: attention with a dense MLP and the experts, attention with a dense MLP.

    ``zero_expert_num`` identity experts take part in routing and cost nothing.
    """
    layers = view.layers("num_layers", *LAYERS)
    hidden = view.integer("hidden_size")
    attention = read_mla(view, hidden)
    dense = view.integer("ffn_hidden_size")
    moe = replace(
        read_moe(view, hidden, width=("expert_ffn_hidden_size", "moe_intermediate_size"), shared_width=0),
        dense_intermediate=dense,
        identity_experts=view.integer("zero_expert_num", minimum=0),
    )
    pair = [Layer(attention=attention, mlp=moe), Layer(attention=attention, mlp=DenseMlp(intermediate=dense))]
    return Structure(
        hidden=hidden,
        layers=pair * layers,
        mtp_layers=read_mtp(view),
        other_parameters=norms(hidden, 2 * layers),
    )


FAMILIES = (
    Family(
        name="longcat-flash",
        architectures=("LongcatFlashForCausalLM",),
        model_types=("longcat_flash",),
        build=build,
        markers=frozenset({"kv_lora_rank", "zero_expert_num"}),
        names=MLA_NAMES,
    ),
)
