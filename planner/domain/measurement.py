"""Measured serving results in one vocabulary, whatever tool wrote them.

Canonical units: milliseconds, tokens per second, per GPU *of the whole deployment* (prefill and decode GPUs together).
TPOT = (E2E - TTFT) / (output tokens - 1) per request, then its statistics over requests. ITL is the gap between two
streamed chunks, pooled over requests; with speculative decoding or a stream interval a chunk holds several tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from planner.domain.deployment import Parallelism, Role, Strategy
from planner.domain.engine import EngineName
from planner.domain.workload import Workload


class BenchmarkFormat(StrEnum):
    """File formats results can be read from."""

    VLLM_BENCH_SERVE = "vllm-bench-serve"
    VLLM_BENCH_SWEEP = "vllm-bench-sweep"
    GUIDELLM = "guidellm"
    AIPERF = "aiperf"
    INFERENCE_PERF = "inference-perf"
    LLM_D_REPORT = "llm-d-benchmark-report"
    INFERENCEX = "inferencex"
    WIDEPLAN_CSV = "wideplan-csv"


class MeasurementFlag(StrEnum):
    """Why a measurement deserves a second look; flagged results are kept, never dropped."""

    FAILED_REQUESTS = "failed requests"
    NO_WARM_UP = "no warm-up recorded"
    CANCELLED = "run was cancelled or incomplete"
    FEW_REQUESTS = "fewer requests than two per concurrent user"
    TPOT_FROM_RATE = "TPOT derived from the per-user rate"
    SUSPECT_CONFIGURATION = "source marks the configuration as unreliable"
    QUALITY_CHECK_FAILED = "source marks the run as failing its quality check"
    DENOMINATOR_INFERRED = "per-GPU denominator inferred from the total"
    SINGLE_PHASE = "one phase measured alone"
    PERCENTILE_ASSUMED = "percentile not stated by the source"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRole:
    """One role of the measured deployment: `groups` engine groups of `tp` x `dp` GPUs.

    `ep` is the expert-parallel width (1 = experts are sharded like the dense layers). SGLang and TensorRT-LLM also
    run widths between 1 and tp x dp, which `Parallelism` cannot express; `parallelism` is None for those.
    """

    role: Role
    gpu: str
    groups: int
    tp: int
    dp: int
    ep: int
    dcp: int = 1

    @property
    def gpus_per_group(self) -> int:
        """GPUs of one engine group."""
        return self.tp * self.dp

    @property
    def gpus(self) -> int:
        """GPUs of the whole role."""
        return self.groups * self.gpus_per_group

    @property
    def parallelism(self) -> Parallelism | None:
        """The widths in the planner's terms; None when experts use a mix of EP and TP."""
        if self.ep not in {1, self.gpus_per_group}:
            return None
        return Parallelism(tp=self.tp, dp=self.dp, expert_parallel=self.ep > 1, dcp=self.dcp)

    def label(self) -> str:
        """Short text such as ``2x(tp1,dp8,ep8)``."""
        parts = [f"tp{self.tp}", f"dp{self.dp}"]
        if self.ep > 1:
            parts.append(f"ep{self.ep}")
        if self.dcp > 1:
            parts.append(f"dcp{self.dcp}")
        return f"{self.groups}x({','.join(parts)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLoad:
    """How requests were offered. `concurrency` None = unbounded; `request_rate_per_s` None = as fast as possible."""

    concurrency: float | None = None
    request_rate_per_s: float | None = None
    turns: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSettings:
    """Engine features that change speed. None means the source does not say."""

    dbo: bool | None = None
    eplb: bool | None = None
    mtp: bool | None = None
    draft_tokens: int | None = None
    acceptance_length: float | None = None  # mean tokens accepted per step, the verified one included
    quantization: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Statistics of one latency over requests (over gaps for ITL), in milliseconds; None = not reported."""

    mean_ms: float | None = None
    p50_ms: float | None = None
    p90_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    std_ms: float | None = None

    @property
    def known(self) -> bool:
        """Whether any statistic is reported."""
        return any(
            v is not None
            for v in (self.mean_ms, self.p50_ms, self.p90_ms, self.p95_ms, self.p99_ms, self.std_ms)
        )

    @property
    def typical_ms(self) -> float | None:
        """The median, or the mean where no median is reported."""
        return self.p50_ms if self.p50_ms is not None else self.mean_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredResult:
    """What was measured. Rates are per GPU of the whole deployment."""

    output_tok_s_per_gpu: float | None = None
    input_tok_s_per_gpu: float | None = None
    requests_per_s: float | None = None
    ttft: Latency = field(default_factory=Latency)
    tpot: Latency = field(default_factory=Latency)
    itl: Latency = field(default_factory=Latency)
    e2e: Latency = field(default_factory=Latency)
    completed: int | None = None
    failed: int | None = None
    duration_s: float | None = None

    @property
    def total_tok_s_per_gpu(self) -> float | None:
        """Input plus output tokens per second and GPU; None unless both are known."""
        if self.output_tok_s_per_gpu is None or self.input_tok_s_per_gpu is None:
            return None
        return self.output_tok_s_per_gpu + self.input_tok_s_per_gpu

    @property
    def tok_s_user(self) -> float | None:
        """Decode speed seen by one user: 1000 / typical TPOT."""
        tpot = self.tpot.typical_ms
        return 1000.0 / tpot if tpot else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementOrigin:
    """Where a measurement came from. `supplied` lists what the user added because the file does not say it."""

    format: BenchmarkFormat
    file: str
    raw_sha256: str
    position: str = ""  # which run inside the file, e.g. ``$.benchmarks[2]`` or ``line 4``
    tool_version: str | None = None
    measured_at: datetime | None = None
    supplied: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measured operating point with its complete configuration."""

    model: str
    strategy: Strategy
    roles: tuple[MeasuredRole, ...]
    engine: EngineName
    engine_version: str
    workload: Workload
    load: MeasuredLoad
    settings: MeasuredSettings
    result: MeasuredResult
    origin: MeasurementOrigin
    flags: tuple[MeasurementFlag, ...] = ()

    @property
    def gpus(self) -> int:
        """GPUs of all roles."""
        return sum(r.gpus for r in self.roles)

    @property
    def gpu(self) -> str:
        """GPU type of the decode side (the only pool when aggregated)."""
        return self.roles[-1].gpu

    def role(self, role: Role) -> MeasuredRole | None:
        """The first role of that kind, if there is one."""
        return next((r for r in self.roles if r.role is role), None)

    def label(self) -> str:
        """Short text such as ``P 2x(tp1,dp8,ep8) D 1x(tp1,dp16,ep16)``."""
        if self.strategy is Strategy.AGGREGATED:
            return " + ".join(r.label() for r in self.roles)
        return " ".join(f"{'P' if r.role is Role.PREFILL else 'D'} {r.label()}" for r in self.roles)
