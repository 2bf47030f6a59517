"""Which weight format each part of a checkpoint has, from any of the published ways of saying so.

Forms (reference: published config.json and hf_quant_config.json files): DeepSeek block fp8, fp8 with fp4 experts,
gpt-oss MXFP4, compressed-tensors groups, ModelOpt (one algorithm, or a map per module), GPTQ and AWQ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate

from planner.catalog.models.parts import Family, Layer, Part, Structure
from planner.catalog.models.view import ConfigView, is_integer
from planner.domain.dtypes import KvDtype, WeightFormat
from planner.domain.model import DenseMlp, LinearAttention, MoeMlp, Quantization

_ALGORITHMS = {
    "FP8": WeightFormat.FP8,
    "FP8_PER_CHANNEL_PER_TOKEN": WeightFormat.FP8,
    "FP8_PB_WO": WeightFormat.FP8_BLOCK,
    "FP8_BLOCK": WeightFormat.FP8_BLOCK,
    "NVFP4": WeightFormat.NVFP4,
    "W4A16_NVFP4": WeightFormat.NVFP4_A16,
    "MXFP4": WeightFormat.MXFP4,
    "W4A8_MXFP4_FP8": WeightFormat.MXFP4,
    "MXFP8": WeightFormat.MXFP8,
    "W4A16": WeightFormat.INT4,
    "W4A16_AWQ": WeightFormat.INT4,
    "W8A8_SQ_PER_CHANNEL": WeightFormat.INT8,
    "NONE": WeightFormat.BF16,
}
_UNQUANTISED_DTYPES = {"bfloat16", "float16", "half", "auto"}
# Roots that repositories put before the decoder; removed from module names and from patterns alike.
_ROOTS = ("model.", "language_model.", "backbone.", "transformer.", "text_model.")
_EXCLUSIONS = ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers")
HEAD_NAMES = ("lm_head", "head")
EMBEDDING_NAMES = ("embed_tokens", "embeddings", "embed")


def canonical(name: str) -> str:
    """Module name or pattern without the roots before ``layers``, ``lm_head`` and the like."""
    stripped = True
    while stripped:
        stripped = False
        for root in _ROOTS:
            if name.startswith(root):
                name, stripped = name.removeprefix(root), True
    return name


class ModuleMatcher:
    """Whether a module name is named by a list of names, wildcards and ``re:`` expressions.

    A plain name matches itself, all modules under it, and any module that has it as a run of whole components
    (``gate`` matches ``layers.3.mlp.gate``, not ``layers.3.mlp.gate_proj``). Wildcards match the whole name or a
    parent of it. Roots before the decoder are ignored on both sides.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._plain: set[str] = set()
        wildcards: list[str] = []
        self._wild: list[re.Pattern[str]] = []
        for pattern in patterns:
            if pattern.startswith("re:"):
                self._wild.append(re.compile(pattern[3:]))
                continue
            name = canonical(pattern)
            if any(c in name for c in "*?["):
                wildcards.append(f"(?:{translate(name)})")
            elif name:
                self._plain.add(name)
        if wildcards:
            self._wild.append(re.compile("|".join(wildcards)))

    def __bool__(self) -> bool:
        return bool(self._plain or self._wild)

    def matches(self, module: str) -> bool:
        """Whether `module` (canonical name) is on the list."""
        parts = module.split(".")
        if self._plain:
            for start in range(len(parts)):
                for end in range(start + 1, len(parts) + 1):
                    if ".".join(parts[start:end]) in self._plain:
                        return True
        # `re:` patterns may spell out a root, so they also see the name with the usual ones.
        names = [module, *(".".join(parts[:n]) for n in range(1, len(parts)))]
        rooted = [f"model.{module}", f"language_model.model.{module}", f"model.language_model.{module}"]
        return any(w.match(n) for w in self._wild for n in (*names, *rooted))


@dataclass(frozen=True, slots=True)
class _Rules:
    """`base` for what nothing else names, `excluded` modules unquantised, `named` modules with their own format."""

    base: WeightFormat
    excluded: ModuleMatcher
    named: tuple[tuple[ModuleMatcher, WeightFormat], ...] = ()
    experts: WeightFormat | None = None
    label: str = "bf16"

    def of(self, module: str) -> WeightFormat:
        for matcher, fmt in self.named:
            if matcher.matches(module):
                return fmt
        return WeightFormat.BF16 if self.excluded.matches(module) else self.base


def read_quantization(
    view: ConfigView, text: ConfigView, *, separate: ConfigView | None, family: Family, structure: Structure
) -> Quantization:
    """Weight formats per part, and the KV dtype the checkpoint declares.

    `view` is the whole config, `text` its language model, `separate` a hf_quant_config.json beside it, used when
    the config has no quantisation of its own. Parts whose layers differ get the format of most layers.
    """
    keys = ("quantization_config", "compression_config")
    config = next((v.child(k) for v in (view, text) for k in keys if v.has(k)), None)
    modelopt = None
    if separate is not None:
        modelopt = separate.child("quantization") if separate.has("quantization") else separate
    chosen = config or modelopt
    dtype = text.text("torch_dtype", "dtype") or view.text("torch_dtype", "dtype")
    if dtype is not None and dtype.removeprefix("torch.") not in _UNQUANTISED_DTYPES:
        view.problem(
            "model.dtype-unknown",
            what=f"checkpoint type '{dtype}'",
            why="weights outside the quantised parts are counted at two bytes",
            fix="use a bfloat16 or float16 checkpoint",
            key="torch_dtype",
        )
    if chosen is None:
        return Quantization(label="bf16")
    rules = _rules(chosen, text)
    kv = next((k for k in (_kv_dtype(v) for v in (config, modelopt) if v is not None) if k), None)
    return _per_part(rules, family, structure, kv)


# --- reading each form ---


def _rules(view: ConfigView, text: ConfigView) -> _Rules:
    excluded = ModuleMatcher(_exclusions(view))
    method = (view.text("quant_method") or "").lower()
    algorithm = (view.text("quant_algo") or "").upper()
    block = view.has("weight_block_size")
    if view.has("quantized_layers"):
        base = WeightFormat.BF16
        if method == "fp8":
            base = WeightFormat.FP8_BLOCK if block else WeightFormat.FP8
        named = tuple(_named(view))
        label = " + ".join(
            sorted({f.value for _, f in named} | ({base.value} if base.value != "bf16" else set()))
        )
        # The exclusion list belongs to the named algorithm; what it names keeps the base format.
        return _Rules(base, ModuleMatcher(()), named, label=f"mixed ({label})")
    if algorithm and algorithm != "MIXED_PRECISION":
        return _Rules(_algorithm(view, algorithm), excluded, label=algorithm.lower())
    if method in {"fp8", "fbgemm_fp8"}:
        base = WeightFormat.FP8_BLOCK if block else WeightFormat.FP8
        expert_dtype = text.text("expert_dtype")
        if expert_dtype in {"fp4", "mxfp4"}:
            return _Rules(base, excluded, experts=WeightFormat.MXFP4, label=f"{base.value} + mxfp4 experts")
        if expert_dtype not in {None, "fp8"}:
            text.wrong("expert_dtype", "fp4 or fp8")
        return _Rules(base, excluded, label=base.value)
    if method in {"mxfp4", "mxfp8", "nvfp4"}:
        fmt = WeightFormat(method)
        return _Rules(fmt, excluded, label=method)
    if method in {"gptq", "awq", "auto-round", "gptq_marlin", "awq_marlin"}:
        bits = view.integer("bits", "w_bit")
        if bits not in {4, 8}:
            view.wrong("bits", "4 or 8")
        return _Rules(
            WeightFormat.INT8 if bits == 8 else WeightFormat.INT4, excluded, label=f"{method} int{bits}"
        )
    if view.has("config_groups"):
        return _groups(view, excluded)
    shown = method or algorithm or "none"
    view.problem(
        "model.quantization-unknown",
        what=f"quantisation method '{shown}'",
        why="the bytes per weight cannot be told from it",
        fix="use fp8, mxfp4, compressed-tensors, modelopt (quant_algo), gptq or awq; or plan the bf16 checkpoint",
        key="quant_method",
    )
    return _Rules(WeightFormat.BF16, excluded)


def _algorithm(view: ConfigView, algorithm: str) -> WeightFormat:
    fmt = _ALGORITHMS.get(algorithm)
    if fmt is None:
        view.problem(
            "model.quantization-unknown",
            what=f"quantisation algorithm '{algorithm}'",
            why="the bytes per weight cannot be told from it",
            fix=f"known algorithms: {', '.join(sorted(_ALGORITHMS))}",
            key="quant_algo",
        )
        return WeightFormat.BF16
    return fmt


def _exclusions(view: ConfigView) -> list[str]:
    out: list[str] = []
    for key in _EXCLUSIONS:
        value = view.raw(key)
        if value is None:
            continue
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            view.wrong(key, "a list of module names")
            continue
        for pattern in value:
            if pattern.startswith("re:") and not _compiles(pattern[3:]):
                view.wrong(key, f"free of broken expressions such as '{pattern}'")
            else:
                out.append(pattern)
    return out


def _compiles(expression: str) -> bool:
    try:
        re.compile(expression)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _named(view: ConfigView) -> Iterable[tuple[ModuleMatcher, WeightFormat]]:
    layers = view.raw("quantized_layers")
    if not isinstance(layers, Mapping):
        view.wrong("quantized_layers", "an object of module names")
        return
    by_algorithm: dict[str, list[str]] = {}
    for name, entry in layers.items():
        algorithm = entry.get("quant_algo") if isinstance(entry, Mapping) else None
        if not isinstance(algorithm, str):
            view.wrong("quantized_layers", "an object of {quant_algo: ...} entries")
            return
        by_algorithm.setdefault(algorithm.upper(), []).append(name)
    for algorithm, names in by_algorithm.items():
        yield ModuleMatcher(names), _algorithm(view, algorithm)


def _groups(view: ConfigView, excluded: ModuleMatcher) -> _Rules:
    """compressed-tensors: each group has a weight format and targets (class name, module names or ``re:``)."""
    groups = view.raw("config_groups")
    if not isinstance(groups, Mapping) or not groups:
        view.wrong("config_groups", "an object with at least one group")
        return _Rules(WeightFormat.BF16, excluded)
    base = WeightFormat.BF16
    named: list[tuple[ModuleMatcher, WeightFormat]] = []
    formats: list[str] = []
    for name, group in groups.items():
        fmt = _group_format(group)
        targets = group.get("targets") if isinstance(group, Mapping) else None
        if fmt is None:
            view.wrong("config_groups", f"free of unknown weight formats (group '{name}')")
            continue
        formats.append(fmt.value)
        listed = targets if isinstance(targets, list) else ["Linear"]
        names = [t for t in listed if isinstance(t, str) and t != "Linear"]
        names = [t for t in names if not t.startswith("re:") or _compiles(t[3:])]
        if names:
            named.append((ModuleMatcher(names), fmt))
        if "Linear" in listed:
            base = fmt
    return _Rules(base, excluded, tuple(named), label=" + ".join(dict.fromkeys(formats)))


def _group_format(group: object) -> WeightFormat | None:
    weights = group.get("weights") if isinstance(group, Mapping) else None
    if not isinstance(weights, Mapping):
        return None
    bits, kind, size = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
    activations = group.get("input_activations") if isinstance(group, Mapping) else None
    if kind == "int":
        return {4: WeightFormat.INT4, 8: WeightFormat.INT8}.get(bits)  # type: ignore[arg-type]
    if kind != "float" or not is_integer(bits):
        return None
    if bits == 8:
        if size == 32:
            return WeightFormat.MXFP8
        return WeightFormat.FP8_BLOCK if weights.get("strategy") == "block" else WeightFormat.FP8
    if bits == 4 and size == 32:
        return WeightFormat.MXFP4
    if bits == 4:
        return WeightFormat.NVFP4 if activations else WeightFormat.NVFP4_A16
    return None


def _kv_dtype(view: ConfigView) -> KvDtype | None:
    """The KV dtype a checkpoint asks for: ``kv_cache_quant_algo`` or ``kv_cache_scheme``."""
    for key in ("kv_cache_quant_algo", "kv_cache_scheme"):
        value = view.raw(key)
        if value is None:
            continue
        if isinstance(value, str) and value.upper() in {"FP8", "NONE", "AUTO"}:
            return KvDtype.FP8 if value.upper() == "FP8" else None
        if isinstance(value, Mapping) and value.get("num_bits") == 8 and value.get("type") == "float":
            return KvDtype.FP8
        view.wrong(
            key, "FP8 or an 8-bit float scheme; other KV formats are a planning choice, not read from here"
        )
    return None


# --- from modules to parts ---


def _per_part(rules: _Rules, family: Family, structure: Structure, kv: KvDtype | None) -> Quantization:
    votes: dict[Part, Counter[WeightFormat]] = {part: Counter() for part in Part}
    for index, layer in enumerate(structure.layers):
        for part in _parts_of(layer):
            for name in family.names.get(part, ())[:1]:
                votes[part][_module_format(rules, family, part, f"layers.{index}.", name)] += 1
    chosen = {part: _most(counter) for part, counter in votes.items()}
    head = next((f for f in (_listed(rules, n) for n in HEAD_NAMES) if f is not None), WeightFormat.BF16)
    embedding = next((f for f in (_listed(rules, n) for n in EMBEDDING_NAMES) if f is not None), None)
    attention = chosen[Part.ATTENTION] or chosen[Part.LINEAR] or WeightFormat.BF16
    return Quantization(
        attention=attention,
        attention_output=chosen[Part.ATTENTION_OUTPUT],
        linear_attention=chosen[Part.LINEAR],
        dense_mlp=chosen[Part.DENSE] or WeightFormat.BF16,
        experts=chosen[Part.EXPERTS] or WeightFormat.BF16,
        shared_experts=chosen[Part.SHARED] or WeightFormat.BF16,
        embedding=embedding or WeightFormat.BF16,
        lm_head=head,
        kv_cache=kv,
        label=rules.label,
    )


def _parts_of(layer: Layer) -> Iterable[Part]:
    if isinstance(layer.attention, LinearAttention):
        yield Part.LINEAR
    elif layer.attention is not None:
        yield Part.ATTENTION
        yield Part.ATTENTION_OUTPUT
    if isinstance(layer.mlp, DenseMlp):
        yield Part.DENSE
    elif isinstance(layer.mlp, MoeMlp):
        yield Part.EXPERTS
        if layer.mlp.shared_intermediate:
            yield Part.SHARED
        if layer.mlp.dense_intermediate:
            yield Part.DENSE


def _module_format(rules: _Rules, family: Family, part: Part, prefix: str, name: str) -> WeightFormat:
    """Format of one part of one layer: the part is excluded when any spelling of it is."""
    if part is Part.EXPERTS and rules.experts is not None:
        return rules.experts
    spellings = [prefix + n for n in family.names.get(part, (name,))]
    for matcher, fmt in rules.named:
        if any(matcher.matches(s) for s in spellings):
            return fmt
    return WeightFormat.BF16 if any(rules.excluded.matches(s) for s in spellings) else rules.base


def _listed(rules: _Rules, name: str) -> WeightFormat | None:
    """Embedding and head are quantised only where a list names them."""
    return next((fmt for matcher, fmt in rules.named if matcher.matches(name)), None)


def _most(counter: Counter[WeightFormat]) -> WeightFormat | None:
    """Most frequent format; the larger one on a tie."""
    if not counter:
        return None
    return max(counter, key=lambda f: (counter[f], f.bytes_per_weight))
