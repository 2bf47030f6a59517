"""Numbers for a plan, each with unit, interval and provenance."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from planner.domain.deployment import Role
from planner.domain.provenance import Estimate, Provenance


class StepTerm(StrEnum):
    """Parts of one engine step; together they are the step time."""

    DENSE_GEMM = "dense GEMM"
    ATTENTION = "attention"
    EXPERTS = "experts"
    DISPATCH = "dispatch"
    COMBINE = "combine"
    COLLECTIVES = "TP collectives"
    HEAD = "head and sampling"
    HOST = "host overhead"
    DBO = "DBO overlap"  # negative when overlap pays


@dataclass(frozen=True, slots=True, kw_only=True)
class TermTime:
    """Time of one part of the step and where its curve comes from."""

    term: StepTerm
    ms: float
    provenance: Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBreakdown:
    """Where the time of one step of one role goes. `tokens` are per DP rank and step."""

    role: Role
    tokens: float
    total_ms: float
    terms: tuple[TermTime, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBreakdown:
    """Device memory of one rank, in GiB. `kv` is what is left for the KV cache."""

    role: Role
    total_gib: float
    reserved_gib: float  # kept free by gpu_memory_utilization
    weights_attention_gib: float
    weights_experts_gib: float
    weights_other_gib: float
    activations_gib: float
    graphs_gib: float
    buffers_gib: float  # NCCL, NVSHMEM, DeepEP, context
    kv_gib: float
    kv_bytes_per_token: float
    kv_tokens_per_rank: int  # per DP rank


class Binding(StrEnum):
    """What stops an operating point from serving more."""

    TTFT = "TTFT target"
    TPOT = "TPOT target"
    KV_CAPACITY = "KV capacity"
    MAX_NUM_SEQS = "max_num_seqs"
    PREFILL_RATE = "prefill rate"
    DECODE_RATE = "decode rate"
    LOAD = "offered load"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Predicted behaviour of one plan at one load.

    Rates are per GPU of the whole plan (all GPUs used by it). TTFT and TPOT are medians over requests;
    TPOT = (E2E - TTFT) / (output tokens - 1). `tok_s_user` = 1000 / TPOT.
    """

    ttft_ms: Estimate
    tpot_ms: Estimate
    output_tok_s_per_gpu: Estimate
    tok_s_user: float
    total_tok_s_per_gpu: float
    requests_per_s: float
    concurrency: float
    usd_per_m_output_tokens: float | None
    steps: tuple[StepBreakdown, ...]
    memory: tuple[MemoryBreakdown, ...]
    kv_transfer_ms: float
    binding: Binding
    provenance: Provenance
    extrapolates: tuple[str, ...]  # dimensions outside the data behind the curves; empty = interpolates
    engine: str
    model_version: str
