"""Mixtral: every layer MoE, ``intermediate_size`` is the expert width."""

from __future__ import annotations

from planner.catalog.models.parts import (
    LAYERS,
    STANDARD_NAMES,
    Family,
    Part,
    Structure,
    norms,
    read_gqa,
    read_moe,
    stack,
)
from planner.catalog.models.view import ConfigView


def build(view: ConfigView) -> Structure:
    """The class derives ``head_dim`` from the hidden size when it is absent."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    attention = read_gqa(view, hidden, derived_head_dim=True)
    moe = read_moe(view, hidden, width=("intermediate_size",), shared_width=0)
    return Structure(
        hidden=hidden,
        layers=stack([attention] * layers, [moe] * layers),
        other_parameters=norms(hidden, layers),
    )


FAMILIES = (
    Family(
        name="mixtral",
        architectures=("MixtralForCausalLM",),
        model_types=("mixtral",),
        build=build,
        names={
            **STANDARD_NAMES,
            Part.EXPERTS: (
                "block_sparse_moe.experts.0.w1",
                "block_sparse_moe.experts.0.w2",
                "block_sparse_moe.experts",
            ),
        },
    ),
)
