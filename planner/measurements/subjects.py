"""From the names in a measured row to model, GPU, engine and engine groups that can be priced.

Rows name checkpoints loosely (``DeepSeek-R1-0528`` with ``fp4``); the structure comes from the catalogue, the formats
from the row. What rows leave open takes the default stated here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from planner.catalog.engines import load_engine
from planner.catalog.hardware import load_fabric, load_gpu, load_node
from planner.catalog.models import load_model
from planner.domain.deployment import All2AllBackend, Parallelism, Role, RolePlan, Speculation
from planner.domain.dtypes import KvDtype, WeightFormat
from planner.domain.engine import EngineName, EngineProfile
from planner.domain.errors import PlannerError
from planner.domain.hardware import Pool, Vendor
from planner.domain.model import ModelSpec, Quantization
from planner.measurements.points import PointConfig
from planner.measurements.widths import Widths

# Chance that one more draft is accepted, where a row says MTP is on but not how well it guesses. One draft: 82 %
# (71-93 %), published for Qwen MTP-1; three in a row: the mean gain of InferenceX rows with MTP over those without.
DEFAULT_ACCEPTANCE: Final = 0.65
SINGLE_DRAFT_ACCEPTANCE: Final = 0.82
DRAFTS_ALONE: Final = (
    3  # drafts of small attention-TP engines; InferenceX recipes use three below DP attention
)
DRAFTS_DP: Final = 1
MAX_SEQS: Final = 4096
TUNED_SEQS: Final = 256
TUNED_UTILISATION: Final = 0.95  # published runs raise it until the model and its load fit
DECODE_DISPATCH_TOKENS: Final = 256  # low-latency dispatch cap per rank that recipes use
SMALLEST_BUDGET: Final = 2048
ENGINES: Final = {
    "vllm": EngineName.VLLM,
    "atom": EngineName.VLLM,  # AMD's engine with vLLM's scheduling
    "sglang": EngineName.SGLANG,
    "trtllm": EngineName.TRTLLM,
}
_FORMATS: Final = {
    "fp8": WeightFormat.FP8_BLOCK,
    "w8a8": WeightFormat.INT8,
    "int8": WeightFormat.INT8,
    "w4afp8": WeightFormat.INT4,
    "int4": WeightFormat.INT4,
    "nvfp4": WeightFormat.NVFP4,
    "mxfp4": WeightFormat.MXFP4,
}


LONGEST_STRETCH: Final = (
    4.0  # sources stretch positions (YaRN factors up to 4); beyond that the length is a mistake
)


class CannotPriceError(Exception):
    """Internal: a row's names cannot be turned into something priceable."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Model, pool and engine of a configuration."""

    model: ModelSpec
    pool: Pool
    engine: EngineProfile


def subject_of(config: PointConfig, *, profiles: Path | None) -> Subject:
    """Profiles behind `config`. Raises `CannotPriceError` when a name is unknown."""
    try:
        gpu = load_gpu(config.gpu, overlay=profiles)
        node = load_node(f"generic-{gpu.id}", overlay=profiles)
        fabric = load_fabric(node.fabric, overlay=profiles)
        engine = load_engine(ENGINES[config.dialect].value, overlay=profiles)
    except PlannerError as error:
        raise CannotPriceError(error.issues[0].code, error.issues[0].what) from error
    model = _model(config.model, profiles)
    amd = gpu.vendor is Vendor.AMD
    model = replace(model, quantization=_formats(model, config.quantization, amd=amd))
    return Subject(model=model, pool=Pool(gpu=gpu, fabric=fabric, node=node, gpus=4096), engine=engine)


def check_context(config: PointConfig, model: ModelSpec) -> None:
    """Raises `CannotPriceError` for requests that no serving of `model` can take."""
    if config.isl + config.osl > LONGEST_STRETCH * model.max_position:
        raise CannotPriceError(
            "point.context",
            f"{config.isl} + {config.osl} tokens; {model.id} handles {model.max_position} per request",
        )


def _model(name: str, profiles: Path | None) -> ModelSpec:
    cleaned = re.sub(r"\s*\(.*\)$", "", name.strip())
    tries = [cleaned, re.sub(r"-\d{4}(?=-|$)", "", cleaned), cleaned.split("/")[0]]
    for suffix in ("-NVFP4", "-FP4-V2", "-FP4", "-W4AFP8", "-MXFP4", "-FP8"):
        tries += [
            re.sub(r"-\d{4}(?=-|$)", "", t)[: -len(suffix)]
            for t in tuple(tries)
            if t.upper().endswith(suffix)
        ]
    if cleaned.lower() == "deepseek":
        tries.append("DeepSeek-V3")
    first: PlannerError | None = None
    for attempt in tries:
        try:
            return load_model(attempt, overlay=profiles)
        except PlannerError as error:
            first = first or error
    reason = first.issues[0].what if first is not None else f"unknown model '{name}'"
    raise CannotPriceError("model.unknown", f"{reason}; {first.issues[0].fix if first else ''}")


def _formats(model: ModelSpec, label: str, *, amd: bool) -> Quantization:
    """Formats of `model` when its row says `label`; the catalogue's own where they agree or nothing is said."""
    own = model.quantization
    word = label.split(maxsplit=1)[0] if label else ""
    if word == "fp4":
        word = "mxfp4" if amd or "mxfp4" in own.label else "nvfp4"
    if not word or word in own.label or (word == "bf16" and own.experts is WeightFormat.BF16):
        return own
    if word == "bf16":
        return Quantization(label="bf16")
    fmt = _FORMATS.get(word)
    if fmt is None:
        raise CannotPriceError("point.quantization", f"quantisation '{label}' is not known")
    eight = fmt in {WeightFormat.FP8_BLOCK, WeightFormat.INT8}
    attention = fmt if eight else own.attention
    if not eight and attention is WeightFormat.FP8_BLOCK:
        attention = WeightFormat.BF16  # four-bit checkpoints keep latent attention in 16 bit
    return Quantization(
        attention=attention, attention_output=None, linear_attention=attention if eight else None, dense_mlp=fmt,
        experts=fmt, shared_experts=fmt, kv_cache=own.kv_cache, label=word,
    )  # fmt: skip


def kv_dtype_of(config: PointConfig, subject: Subject) -> KvDtype:
    """KV format where rows never say: fp8 where the engine's published recipes use it."""
    if "fp8 kv" in config.quantization or subject.model.quantization.kv_cache is KvDtype.FP8:
        return KvDtype.FP8
    if config.dialect == "trtllm":
        return KvDtype.FP8
    capability = subject.pool.gpu.compute_capability or ""
    return KvDtype.FP8 if capability.startswith("10") and config.dialect != "vllm" else KvDtype.BF16


def drafts_of(config: PointConfig, side: Widths) -> int:
    """Drafted tokens per step of a row with MTP."""
    if not config.mtp:
        return 0
    return config.draft_tokens or (DRAFTS_DP if side.dp > 1 else DRAFTS_ALONE)


def role_of(config: PointConfig, subject: Subject, side: Widths, role: Role) -> RolePlan:
    """The role plan of one side. Raises `CannotPriceError` for widths the model cannot have."""
    heads = subject.model.attention_heads
    if heads and heads % side.tp:
        raise CannotPriceError(
            "point.heads",
            f"{heads} attention heads cannot be split over tp={side.tp}; the widths are mislabelled",
        )
    expert_parallel = side.ep > 1
    engine = subject.engine
    drafts = drafts_of(config, side) if role is not Role.PREFILL else 0
    acceptance = SINGLE_DRAFT_ACCEPTANCE if drafts == 1 else DEFAULT_ACCEPTANCE
    gib = subject.pool.gpu.memory_gib
    budgets = engine.max_num_batched_tokens_by_gib
    budget = budgets[max(k for k in budgets if k <= gib)] if budgets else 8192
    if side.dp > 1 and role is Role.AGGREGATED:
        budget = max(
            budget // side.dp, SMALLEST_BUDGET
        )  # a chunk is shared by the ranks of an attention-DP server
    return RolePlan(
        role=role,
        groups=side.groups,
        parallelism=Parallelism(tp=side.tp, dp=side.dp, expert_parallel=expert_parallel),
        gpu=subject.pool.gpu.id,
        node=subject.pool.node.id,
        max_num_seqs=MAX_SEQS,
        max_num_batched_tokens=budget,
        kv_dtype=kv_dtype_of(config, subject),
        all2all=_backend(config, subject, side, role),
        dbo=config.dbo,
        eplb=None,
        speculation=Speculation(draft_tokens=drafts, acceptance=acceptance) if drafts else None,
        gpu_memory_utilization=engine.gpu_memory_utilization,
    )


def with_tuned_buffers(plan: RolePlan) -> RolePlan:
    """`plan` with exchange and sampler buffers as published runs size them: for their load, not for the defaults."""
    tokens = DECODE_DISPATCH_TOKENS if plan.role is Role.DECODE else plan.max_num_batched_tokens
    return replace(
        plan,
        max_num_seqs=TUNED_SEQS,
        max_num_batched_tokens=tokens,
        gpu_memory_utilization=TUNED_UTILISATION,
    )


def _backend(config: PointConfig, subject: Subject, side: Widths, role: Role) -> All2AllBackend:
    """Exchange the engines choose by default: gathered inside a node, DeepEP or NVLink kernels for wide EP."""
    if side.dp <= 1 or side.ep <= 1:
        return All2AllBackend.ALLGATHER_REDUCESCATTER
    if subject.pool.gpu.vendor is Vendor.AMD:
        low = All2AllBackend.MORI_LOW_LATENCY
        return All2AllBackend.MORI_HIGH_THROUGHPUT if role is Role.PREFILL else low
    domain = subject.pool.scale_up_gpus
    if config.dialect == "trtllm" and side.group_gpus <= domain:
        return All2AllBackend.FLASHINFER_NVLINK_TWO_SIDED
    if side.group_gpus <= 8 and config.dialect != "sglang":
        return All2AllBackend.ALLGATHER_REDUCESCATTER
    return (
        All2AllBackend.DEEPEP_HIGH_THROUGHPUT
        if role is not Role.DECODE
        else All2AllBackend.DEEPEP_LOW_LATENCY
    )
