"""Which family reads which architecture. A new family is one module in families/ and one line here."""

from __future__ import annotations

from planner.catalog.models.families import (
    bailing,
    deepseek,
    ernie,
    gemma4,
    glm,
    gpt_oss,
    hunyuan,
    kimi,
    llama4,
    longcat,
    mimo,
    minimax,
    mixtral,
    nemotron,
    nemotron_nas,
    qwen,
    step,
)
from planner.catalog.models.parts import EXPERTS, Family
from planner.catalog.models.view import ConfigView
from planner.domain.errors import did_you_mean

FAMILIES: tuple[Family, ...] = (
    *deepseek.FAMILIES,
    *kimi.FAMILIES,
    *glm.FAMILIES,
    *qwen.FAMILIES,
    *minimax.FAMILIES,
    *gpt_oss.FAMILIES,
    *llama4.FAMILIES,
    *mixtral.FAMILIES,
    *nemotron.FAMILIES,
    *nemotron_nas.FAMILIES,
    *gemma4.FAMILIES,
    *ernie.FAMILIES,
    *hunyuan.FAMILIES,
    *bailing.FAMILIES,
    *step.FAMILIES,
    *mimo.FAMILIES,
    *longcat.FAMILIES,
)
_BY_ARCHITECTURE = {a: f for f in FAMILIES for a in f.architectures}
_BY_MODEL_TYPE = {t: f for f in FAMILIES for t in f.model_types}

# Families without experts refuse their keys.
# MARKERS: keys that change memory or time and that a family has to know about. A config that has one of them, set to
# something that takes effect, must not be read by a family that would ignore it.
_DENSE_FAMILIES = frozenset({"llama", "qwen3", "qwen3.5", "nemotron-nas"})
MARKERS = (
    "kv_lora_rank",
    "compress_ratios",
    "index_topk",
    "linear_attn_config",
    "linear_num_value_heads",
    "ssm_state_size",
    "sparse_attention_config",
    "attention_chunk_size",
    "hybrid_layer_pattern",
    "moe_latent_size",
    "routed_expert_hidden_size",
    "zero_expert_num",
    "layer_group_size",
    "num_kv_shared_layers",
    "block_configs",
)


def find_family(view: ConfigView, text: ConfigView) -> tuple[Family, str] | None:
    """Family and architecture name; None with the problem recorded when no family fits.

    ``architectures`` decides (of the whole config, then of its language model), then ``model_type``: repacks
    rename the latter. The language model's own keys must be ones the family understands.
    """
    named: list[str] = []
    for v in (view, text):
        listed = v.raw("architectures")
        if isinstance(listed, list):
            named += [a for a in listed if isinstance(a, str)]
    found = next(((_BY_ARCHITECTURE[a], a) for a in named if a in _BY_ARCHITECTURE), None)
    if found is None and not named:
        types = [t for t in (text.text("model_type"), view.text("model_type")) if t]
        found = next(((_BY_MODEL_TYPE[t], t) for t in types if t in _BY_MODEL_TYPE), None)
        named = types
    if found is None:
        if not named:
            view.missing(("architectures", "model_type"))
        else:
            view.problem(
                "model.architecture-unknown",
                what=f"architecture '{named[0]}'",
                why="no family of the catalogue reads it, and a generic reading would be a guess",
                fix=did_you_mean(named[0], _BY_ARCHITECTURE),
                key="architectures",
            )
        return None
    _refuse_foreign(text, found[0])
    return found


def _refuse_foreign(text: ConfigView, family: Family) -> None:
    for key in MARKERS:
        if text.has(key) and text.raw(key) not in (0, [], {}) and key not in family.markers:
            _foreign(text, family, key)
    if "sliding_window" not in family.markers and text.raw("use_sliding_window") is True:
        _foreign(text, family, "sliding_window")
    if (
        "sliding_window" not in family.markers
        and text.has("sliding_window")
        and not text.has("use_sliding_window")
    ):
        _foreign(text, family, "sliding_window")
    if family.name in _DENSE_FAMILIES:
        for key in EXPERTS:
            if text.raw(key) not in (None, 0, 1):
                _foreign(text, family, key)


def _foreign(text: ConfigView, family: Family, key: str) -> None:
    text.problem(
        "model.unsupported-structure",
        what=f"'{key}' in a config of the {family.name} family",
        why="the key changes what a layer stores or computes, and this family's reader does not know it",
        fix="check 'architectures' in the file; a changed architecture needs a reader of its own",
        key=key,
    )
