"""Hunyuan A13B (per-layer lists) and Hy3."""

from __future__ import annotations

from planner.catalog.models.parts import (
    LAYERS,
    Family,
    Mlp,
    Structure,
    dense_then_moe,
    norms,
    read_gqa,
    read_moe,
    read_mtp,
    stack,
)
from planner.catalog.models.view import ConfigView

_PER_LAYER = ("moe_topk", "moe_intermediate_size", "num_shared_expert")


def build_v1(view: ConfigView) -> Structure:
    """Hunyuan A13B: ``moe_topk``, ``moe_intermediate_size`` and ``num_shared_expert`` may be lists per layer."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    attention = read_gqa(view, hidden, derived_head_dim=True)
    lists = {key: view.per_layer(key, length=layers, minimum=0) for key in _PER_LAYER if view.has(key)}
    cache: dict[tuple[int, ...], Mlp] = {}
    mlp: list[Mlp] = []
    for i in range(layers):
        values = {key: column[i] for key, column in lists.items()}
        shape = tuple(values.values())
        if shape not in cache:
            cache[shape] = read_moe(view.replaced(**values), hidden)
        mlp.append(cache[shape])
    return Structure(
        hidden=hidden,
        layers=stack([attention] * layers, mlp),
        mtp_layers=read_mtp(view),
        other_parameters=norms(hidden, layers),
    )


def build_v3(view: ConfigView) -> Structure:
    """Hy3: dense layers first, then experts with a shared one."""
    return dense_then_moe(view)


FAMILIES = (
    Family(
        name="hunyuan-v1-moe",
        architectures=("HunYuanMoEV1ForCausalLM",),
        model_types=("hunyuan_v1_moe",),
        build=build_v1,
        tied_by_default=True,
    ),
    Family(name="hy-v3", architectures=("HYV3ForCausalLM",), model_types=("hy_v3",), build=build_v3),
)
