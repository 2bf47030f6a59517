"""Llama-Nemotron (DeciLM): dense layers whose blocks were searched, each with its own shape or none."""

from __future__ import annotations

from collections.abc import Mapping

from planner.catalog.models.parts import LAYERS, Family, Layer, Structure, gqa, norms
from planner.catalog.models.view import ConfigView
from planner.domain.model import Attention, DenseMlp

# The class rounds the feed-forward width 2/3 * multiplier * hidden up to a multiple of this.
WIDTH_MULTIPLE = 256


def build(view: ConfigView) -> Structure:
    """``block_configs`` has one entry per layer: heads per KV group and width multiplier, or ``no_op``."""
    layers = view.layers(*LAYERS)
    hidden = view.integer("hidden_size")
    heads = view.integer("num_attention_heads")
    blocks = view.raw("block_configs")
    if blocks is None:
        view.missing(("block_configs",))
        blocks = []
    if not isinstance(blocks, list) or (blocks and len(blocks) != layers):
        view.wrong("block_configs", f"a list of {layers} blocks")
        blocks = []
    built: list[Layer] = []
    linear = 0
    for block in blocks:
        attention = block.get("attention") if isinstance(block, Mapping) else None
        ffn = block.get("ffn") if isinstance(block, Mapping) else None
        if not isinstance(attention, Mapping) or not isinstance(ffn, Mapping):
            view.wrong("block_configs", "a list of {attention: {...}, ffn: {...}} blocks")
            break
        linear += bool(attention.get("replace_with_linear")) + bool(ffn.get("replace_with_linear"))
        built.append(Layer(attention=_attention(view, attention, hidden, heads), mlp=_mlp(view, ffn, hidden)))
    return Structure(
        hidden=hidden,
        layers=built,
        other_parameters=norms(hidden, layers) + float(linear * hidden * hidden),
    )


def _replaced(block: Mapping[str, object]) -> bool:
    return bool(block.get("no_op")) or bool(block.get("replace_with_linear"))


def _attention(view: ConfigView, block: Mapping[str, object], hidden: int, heads: int) -> Attention | None:
    if _replaced(block):
        return None
    group, window = block.get("n_heads_in_group"), block.get("window_length")
    usable = isinstance(group, int) and group > 0 and heads % group == 0 and hidden % heads == 0
    if not usable or not (window is None or (isinstance(window, int) and window > 0)):
        view.wrong("block_configs", "a list of blocks whose n_heads_in_group divides num_attention_heads")
        return None
    assert isinstance(group, int)  # noqa: S101 - checked above
    return gqa(
        hidden=hidden,
        heads=heads,
        kv_heads=heads // group,
        head_dim=hidden // heads,
        window=window if isinstance(window, int) else None,
    )


def _mlp(view: ConfigView, block: Mapping[str, object], hidden: int) -> DenseMlp | None:
    if _replaced(block):
        return None
    multiplier = block.get("ffn_mult")
    if not isinstance(multiplier, int | float) or not 0 < multiplier < 1000:
        view.wrong("block_configs", "a list of blocks with a positive ffn_mult")
        return None
    width = int(2 * multiplier * hidden / 3)
    return DenseMlp(intermediate=-(-width // WIDTH_MULTIPLE) * WIDTH_MULTIPLE)


FAMILIES = (
    Family(
        name="nemotron-nas",
        architectures=("DeciLMForCausalLM",),
        model_types=("nemotron-nas",),
        build=build,
        markers=frozenset({"block_configs"}),
    ),
)
