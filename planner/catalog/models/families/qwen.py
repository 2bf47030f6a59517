"""Qwen3 dense and MoE, Qwen3-VL, Qwen3-Next and Qwen3.5/3.6 (gated attention with gated delta nets)."""

from __future__ import annotations

from planner.catalog.models.parts import (
    LAYERS,
    Family,
    Structure,
    gated_delta_net,
    mixed_mlp,
    norms,
    read_gqa,
    read_moe,
    read_mtp,
    stack,
)
from planner.catalog.models.view import ConfigView
from planner.domain.model import Attention, DenseMlp


def _moe_layers(view: ConfigView, layers: int) -> list[bool]:
    """Every ``decoder_sparse_step``-th layer, except those of ``mlp_only_layers``; step 1 when absent."""
    step = view.optional_integer("decoder_sparse_step", minimum=1) or 1
    dense = set(view.integers("mlp_only_layers") or ())
    return [(i + 1) % step == 0 and i not in dense for i in range(layers)]


def build_dense(view: ConfigView) -> Structure:
    """Qwen3 and other plain GQA decoders whose configs state ``head_dim``."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    attention = read_gqa(view, hidden)
    mlp = DenseMlp(intermediate=view.integer("intermediate_size"))
    return Structure(
        hidden=hidden,
        layers=stack([attention] * layers, [mlp] * layers),
        mtp_layers=read_mtp(view),
        other_parameters=norms(hidden, layers),
    )


def build_moe(view: ConfigView) -> Structure:
    """Qwen3 MoE: no shared experts."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    attention = read_gqa(view, hidden)
    moe = read_moe(view, hidden, shared_width=0)
    mlp = mixed_mlp(view, _moe_layers(view, layers), moe, dense=("intermediate_size",))
    return Structure(
        hidden=hidden,
        layers=stack([attention] * layers, mlp),
        mtp_layers=read_mtp(view),
        other_parameters=norms(hidden, layers),
    )


def _hybrid_attention(view: ConfigView, hidden: int, layers: int) -> list[Attention]:
    full = read_gqa(view, hidden, gated=view.flag("attn_output_gate", default=True))
    linear = gated_delta_net(
        hidden=hidden,
        key_heads=view.integer("linear_num_key_heads"),
        value_heads=view.integer("linear_num_value_heads"),
        key_dim=view.integer("linear_key_head_dim"),
        value_dim=view.integer("linear_value_head_dim"),
        conv_kernel=view.integer("linear_conv_kernel_dim"),
    )
    types = view.words("layer_types", allowed=("linear_attention", "full_attention"), length=layers)
    if types is not None:
        return [full if t == "full_attention" else linear for t in types]
    every = view.integer("full_attention_interval")
    return [full if (i + 1) % every == 0 else linear for i in range(layers)]


def build_hybrid_moe(view: ConfigView) -> Structure:
    """Qwen3-Next and Qwen3.5/3.6 MoE: full attention on every n-th layer, delta nets elsewhere."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    attention = _hybrid_attention(view, hidden, layers)
    if not view.has("shared_expert_intermediate_size"):
        view.missing(("shared_expert_intermediate_size",))
    mask = _moe_layers(view, layers)
    mlp = mixed_mlp(view, mask, read_moe(view, hidden), dense=("intermediate_size",))
    return Structure(
        hidden=hidden,
        layers=stack(attention, mlp),
        mtp_layers=read_mtp(view),
        other_parameters=norms(hidden, layers) + float(sum(mask) * hidden),  # the shared expert's gate
    )


def build_hybrid_dense(view: ConfigView) -> Structure:
    """Qwen3.5/3.6 dense."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    mlp = DenseMlp(intermediate=view.integer("intermediate_size"))
    return Structure(
        hidden=hidden,
        layers=stack(_hybrid_attention(view, hidden, layers), [mlp] * layers),
        mtp_layers=read_mtp(view),
        other_parameters=norms(hidden, layers),
    )


_LINEAR = frozenset({"linear_num_value_heads"})
FAMILIES = (
    Family(
        name="qwen3-moe",
        architectures=("Qwen3MoeForCausalLM", "Qwen3VLMoeForConditionalGeneration"),
        model_types=("qwen3_moe", "qwen3_vl_moe_text"),
        build=build_moe,
    ),
    Family(
        name="qwen3-next",
        architectures=("Qwen3NextForCausalLM",),
        model_types=("qwen3_next",),
        build=build_hybrid_moe,
        markers=_LINEAR,
    ),
    Family(
        name="qwen3.5-moe",
        architectures=("Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"),
        model_types=("qwen3_5_moe_text", "qwen3_5_moe"),
        build=build_hybrid_moe,
        markers=_LINEAR,
    ),
    Family(
        name="qwen3.5",
        architectures=("Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"),
        model_types=("qwen3_5_text", "qwen3_5"),
        build=build_hybrid_dense,
        markers=_LINEAR,
    ),
    Family(
        name="qwen3",
        architectures=("Qwen3ForCausalLM", "Qwen3VLForConditionalGeneration"),
        model_types=("qwen3", "qwen3_vl_text"),
        build=build_dense,
    ),
)
