"""Kimi K2 (DeepSeek-V3 class), Kimi Linear and Kimi K3 (MLA with Kimi delta attention)."""

from __future__ import annotations

from planner.catalog.models.families.deepseek import build_mla
from planner.catalog.models.parts import (
    LAYERS,
    MLA_NAMES,
    Family,
    Part,
    Structure,
    first_dense,
    kda,
    mixed_mlp,
    norms,
    read_mla,
    read_moe,
    read_mtp,
    stack,
)
from planner.catalog.models.view import ConfigView

KDA_NAMES = {**MLA_NAMES, Part.LINEAR: ("self_attn.q_proj", "self_attn.k_proj")}


def build_linear(view: ConfigView) -> Structure:
    """Kimi Linear and K3: ``linear_attn_config`` lists the KDA and the full-attention layers, counted from 1."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    linear_view = view.child("linear_attn_config")
    linear = kda(
        hidden=hidden,
        heads=linear_view.integer("num_heads"),
        head_dim=linear_view.integer("head_dim"),
        conv_kernel=linear_view.integer("short_conv_kernel_size"),
        full_rank_gate=linear_view.flag("use_full_rank_gate", default=False),
    )
    full = read_mla(view, hidden, gated=view.flag("mla_use_output_gate", default=False))
    for key in ("full_attn_layers", "kda_layers"):
        if not linear_view.has(key):
            linear_view.missing((key,))
    full_at = linear_view.integers("full_attn_layers", minimum=1) or []
    kda_at = linear_view.integers("kda_layers", minimum=1) or []
    if not view.issues and sorted(full_at + kda_at) != list(range(1, layers + 1)):
        linear_view.problem(
            "model.key-invalid",
            what=f"{len(full_at)} full-attention and {len(kda_at)} KDA layers",
            why=f"together they must name each of the {layers} layers once, counted from 1",
            fix="compare full_attn_layers and kda_layers with the published config.json",
            key="full_attn_layers",
        )
    chosen = set(full_at)
    moe = read_moe(view, hidden, latent=("routed_expert_hidden_size",))
    mlp = mixed_mlp(view, first_dense(view, layers), moe, dense=("intermediate_size",))
    return Structure(
        hidden=hidden,
        layers=stack([full if i + 1 in chosen else linear for i in range(layers)], mlp),
        mtp_layers=read_mtp(view),
        other_parameters=norms(hidden, layers),
    )


def build_k3(view: ConfigView) -> Structure:
    """Kimi K3: as Kimi Linear, but the gates and the experts' latent width must be stated."""
    for key in ("mla_use_output_gate", "routed_expert_hidden_size"):
        if not view.mentions(key):
            view.missing((key,))
    linear_view = view.child("linear_attn_config")
    if not linear_view.mentions("use_full_rank_gate"):
        linear_view.missing(("use_full_rank_gate",))
    return build_linear(view)


_MARKERS = frozenset({"kv_lora_rank", "linear_attn_config", "routed_expert_hidden_size"})
FAMILIES = (
    Family(
        name="kimi-k3",
        architectures=("KimiK3ForConditionalGeneration",),
        model_types=("kimi_k3",),
        build=build_k3,
        markers=_MARKERS,
        names=KDA_NAMES,
    ),
    Family(
        name="kimi-linear",
        architectures=("KimiLinearForCausalLM",),
        model_types=("kimi_linear",),
        build=build_linear,
        markers=_MARKERS,
        names=KDA_NAMES,
    ),
    Family(
        name="kimi-k2",
        architectures=("KimiK25ForConditionalGeneration", "KimiK2ForCausalLM"),
        model_types=("kimi_k2", "kimi_k25"),
        build=build_mla,
        markers=frozenset({"kv_lora_rank"}),
        names=MLA_NAMES,
    ),
)
