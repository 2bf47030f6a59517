"""Nemotron-H: Mamba-2, attention, MoE and MLP layers interleaved, each a layer of its own."""

from __future__ import annotations

from planner.catalog.models.parts import (
    MTP,
    Family,
    Layer,
    Part,
    Structure,
    mamba2,
    read_gqa,
    read_moe,
)
from planner.catalog.models.view import ConfigView
from planner.domain.model import DenseMlp, LinearAttention

_BY_LETTER = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
_SHARED_WIDTH = "moe_shared_expert_intermediate_size"
_STATE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def _layer_types(view: ConfigView) -> list[str]:
    types = view.words("layers_block_type", allowed=_BY_LETTER.values())
    if types is not None:
        return types
    pattern = view.text("hybrid_override_pattern")
    if pattern is None:
        if not view.has("layers_block_type", "hybrid_override_pattern"):
            view.missing(("layers_block_type", "hybrid_override_pattern"))
        return []
    if not pattern or not set(pattern) <= set(_BY_LETTER):
        view.wrong("hybrid_override_pattern", "a text of the letters M, E, * and -")
        return []
    count = view.optional_integer("num_hidden_layers", minimum=1)
    if count is not None and count != len(pattern):
        view.wrong("num_hidden_layers", f"{len(pattern)}, the length of hybrid_override_pattern")
    return [_BY_LETTER[c] for c in pattern]


def _mamba(view: ConfigView, hidden: int) -> LinearAttention:
    # Engines keep the state in the model's own type when the checkpoint names none.
    dtype = view.text("mamba_ssm_cache_dtype", "mamba_ssm_dtype", "dtype", "torch_dtype")
    if dtype is None:
        view.missing(("mamba_ssm_cache_dtype", "torch_dtype"))
    elif dtype.removeprefix("torch.") not in _STATE_BYTES:
        view.wrong("mamba_ssm_cache_dtype", f"one of {', '.join(_STATE_BYTES)}")
    return mamba2(
        hidden=hidden,
        heads=view.integer("mamba_num_heads"),
        head_dim=view.integer("mamba_head_dim"),
        groups=view.integer("n_groups"),
        state=view.integer("ssm_state_size"),
        conv_kernel=view.integer("conv_kernel"),
        state_bytes=_STATE_BYTES.get((dtype or "").removeprefix("torch."), 4),
    )


def build(view: ConfigView) -> Structure:
    """``hybrid_override_pattern`` or ``layers_block_type`` names each layer; MLPs have no gate with relu2."""
    hidden = view.integer("hidden_size")
    types = _layer_types(view)
    activation = view.text("mlp_hidden_act")
    if activation is None and {"moe", "mlp"} & set(types):
        view.missing(("mlp_hidden_act",))
    matrices = 2 if activation == "relu2" else 3
    kinds: dict[str, Layer] = {}
    for kind in dict.fromkeys(types):
        if kind == "mamba":
            kinds[kind] = Layer(attention=_mamba(view, hidden), mlp=None)
        elif kind == "attention":
            kinds[kind] = Layer(attention=read_gqa(view, hidden), mlp=None)
        elif kind == "mlp":
            mlp = DenseMlp(intermediate=view.integer("intermediate_size"), matrices=matrices)
            kinds[kind] = Layer(attention=None, mlp=mlp)
        else:
            if view.optional_integer("n_shared_experts") and not view.has(_SHARED_WIDTH):
                view.missing((_SHARED_WIDTH,))  # wider than a routed expert: a count says nothing
            moe = read_moe(view, hidden, latent=("moe_latent_size",), matrices=matrices)
            kinds[kind] = Layer(attention=None, mlp=moe)
    return Structure(
        hidden=hidden,
        layers=[kinds[t] for t in types],
        mtp_layers=view.optional_integer(*MTP) or 0,
        other_parameters=float((len(types) + 1) * hidden),  # one norm per layer
    )


FAMILIES = (
    Family(
        name="nemotron-h",
        architectures=("NemotronHForCausalLM",),
        model_types=("nemotron_h",),
        build=build,
        markers=frozenset({"ssm_state_size", "moe_latent_size"}),
        names={
            Part.ATTENTION: ("mixer.q_proj", "mixer.k_proj", "mixer.v_proj"),
            Part.ATTENTION_OUTPUT: ("mixer.o_proj",),
            Part.LINEAR: ("mixer.in_proj",),
            Part.DENSE: ("mixer.up_proj", "mixer.down_proj"),
            Part.EXPERTS: ("mixer.experts.0.up_proj", "mixer.experts.0.down_proj", "mixer.experts"),
            Part.SHARED: ("mixer.shared_experts.up_proj", "mixer.shared_experts.down_proj"),
        },
    ),
)
