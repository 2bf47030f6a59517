"""A deployment decision: roles, widths, limits, router. The unit that is priced, saved and exported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from planner.domain.dtypes import KvDtype
from planner.domain.workload import SloTargets, Workload


class Strategy(StrEnum):
    """Whether prefill and decode share engines."""

    AGGREGATED = "aggregated"
    DISAGGREGATED = "disaggregated"


class Role(StrEnum):
    """What a group of engines does."""

    PREFILL = "prefill"
    DECODE = "decode"
    AGGREGATED = "aggregated"


class All2AllBackend(StrEnum):
    """vLLM ``--all2all-backend`` values that can be planned with."""

    ALLGATHER_REDUCESCATTER = "allgather_reducescatter"
    DEEPEP_HIGH_THROUGHPUT = "deepep_high_throughput"
    DEEPEP_LOW_LATENCY = "deepep_low_latency"
    DEEPEP_V2 = "deepep_v2"
    FLASHINFER_NVLINK_ONE_SIDED = "flashinfer_nvlink_one_sided"
    FLASHINFER_NVLINK_TWO_SIDED = "flashinfer_nvlink_two_sided"
    MORI_HIGH_THROUGHPUT = "mori_high_throughput"
    MORI_LOW_LATENCY = "mori_low_latency"
    NIXL_EP = "nixl_ep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """Widths of one engine group (one DP group).

    `tp`: attention tensor parallel size inside a DP rank; `dp`: DP ranks; `expert_parallel`: vLLM's switch.
    `dcp`: decode context parallel size (re-uses TP ranks). GPUs = tp x dp. EP width = tp x dp when expert
    parallel is on; otherwise every expert is sharded over the same tp x dp GPUs.
    """

    tp: int = 1
    dp: int = 1
    expert_parallel: bool = False
    dcp: int = 1

    @property
    def gpus(self) -> int:
        """GPUs of one group."""
        return self.tp * self.dp

    @property
    def ep(self) -> int:
        """Expert-parallel width (1 when off)."""
        return self.tp * self.dp if self.expert_parallel else 1

    @property
    def moe_tp(self) -> int:
        """Ways each expert's own matrices are split (1 when expert parallel is on)."""
        return 1 if self.expert_parallel else self.tp * self.dp

    def label(self) -> str:
        """Short text such as ``tp1,dp16,ep16``; ``noep`` where several DP ranks shard every expert instead."""
        parts = [f"tp{self.tp}", f"dp{self.dp}"]
        if self.expert_parallel:
            parts.append(f"ep{self.ep}")
        elif self.dp > 1:
            parts.append("noep")
        if self.dcp > 1:
            parts.append(f"dcp{self.dcp}")
        return ",".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Eplb:
    """Expert-parallel load balancing (vLLM ``--enable-eplb``)."""

    redundant_experts: int = 0
    window_size: int = 1000
    step_interval: int = 3000
    use_async: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """Multi-token prediction with a stated acceptance per position (an input, never guessed)."""

    draft_tokens: int
    acceptance: float  # probability that one more drafted token is accepted, 0..1

    @property
    def tokens_per_step(self) -> float:
        """Expected accepted tokens per decode step, the verified one included."""
        a = self.acceptance
        return sum(a**i for i in range(self.draft_tokens + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePlan:
    """One role of a plan: `groups` identical engine groups on one GPU type.

    `max_num_seqs` and `max_num_batched_tokens` are per DP rank, as vLLM counts them.
    `concurrency` is the mean number of requests in flight per DP rank at the planned load.
    """

    role: Role
    groups: int
    parallelism: Parallelism
    gpu: str
    node: str
    max_num_seqs: int
    max_num_batched_tokens: int
    kv_dtype: KvDtype
    all2all: All2AllBackend = All2AllBackend.ALLGATHER_REDUCESCATTER
    dbo: bool = False
    eplb: Eplb | None = None
    speculation: Speculation | None = None
    gpu_memory_utilization: float = 0.92
    block_size: int = 64
    concurrency: float = 0.0

    @property
    def gpus(self) -> int:
        """GPUs of the whole role."""
        return self.groups * self.parallelism.gpus

    def label(self) -> str:
        """Short text such as ``2x(tp1,dp8,ep8)``."""
        return f"{self.groups}x({self.parallelism.label()})"


class RouterKind(StrEnum):
    """Families of request routing."""

    RANDOM = "random"
    ROUND_ROBIN = "round-robin"
    LEAST_QUEUE = "least-queue"
    VLLM_DP = "vllm-dp"  # the balancer inside a multi-rank vLLM server
    LLM_D = "llm-d"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """One llm-d endpoint-picker scorer with its weight and parameters."""

    type: str
    weight: float = 1.0
    parameters: Mapping[str, float | int | str | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterPolicy:
    """How requests are assigned to DP ranks; scorers per role are llm-d endpoint-picker plugins."""

    kind: RouterKind = RouterKind.LLM_D
    prefill_scorers: tuple[Scorer, ...] = ()
    decode_scorers: tuple[Scorer, ...] = ()
    decider: str = "always-disagg-pd-decider"
    decider_parameters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPlan:
    """A complete decision that can be priced, saved, exported and compared with a live cluster."""

    name: str
    model: str
    strategy: Strategy
    roles: tuple[RolePlan, ...]
    router: RouterPolicy
    engine: str
    engine_version: str
    fabric: str
    workload: Workload
    slo: SloTargets
    concurrency: int  # requests in flight over the whole plan
    gpus_owned: int
    max_model_len: int
    peak_prefill_tok_s_per_rank: float | None = None

    @property
    def gpus_used(self) -> int:
        """GPUs of all roles."""
        return sum(r.gpus for r in self.roles)

    def role(self, role: Role) -> RolePlan | None:
        """The first plan of `role`, if there is one."""
        return next((r for r in self.roles if r.role is role), None)

    def label(self) -> str:
        """Short text such as ``P 2x(tp1,dp8,ep8) D 1x(tp1,dp16,ep16)``."""
        if self.strategy is Strategy.AGGREGATED:
            return " + ".join(r.label() for r in self.roles)
        return " ".join(f"{'P' if r.role is Role.PREFILL else 'D'} {r.label()}" for r in self.roles)
