"""What is simulated: roles with their step tables and KV capacity, the network between them, and the router."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.domain.deployment import Eplb, Role, RouterPolicy, Speculation
from planner.perf.tables import StepTables


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertBalance:
    """Load of the hottest expert rank relative to what the step tables assume, before and after EPLB.

    `drift_steps`: engine steps after which the imbalance has come back by 63 % of the difference; infinity keeps the
    balanced state until the next rearrangement. `pause_s`: stall of a synchronous rearrangement (measured 0.65-1.7 s
    for DeepSeek-R1 on 32 GB200, vllm PR 43219); asynchronous ones do not stall.
    """

    before: float = 1.0
    after: float = 1.0
    drift_steps: float = float("inf")
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTier:
    """KV offload to host memory: blocks per DP rank and the bandwidth of loading them back."""

    blocks: int
    gbps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Between a prefill and a serving rank. `gbps`: GB/s per direction of one rank's NICs."""

    gbps: float
    setup_ms: float = 1.0
    per_block_us: float = 4.0  # posting of one block's descriptors
    lease_s: float = 30.0  # NIXL kv_lease_duration
    heartbeat: bool = True  # the decoder extends the lease while the request queues
    recompute_on_expiry: bool = False  # kv_load_failure_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRole:
    """`groups` identical engine groups of `ranks` DP ranks each.

    `kv_blocks`: GPU blocks per rank. `lockstep`: ranks step together (MoE); otherwise they are independent engines.
    `kv_bytes_per_token`: what one rank receives per token of a transferred prompt.
    """

    name: str
    role: Role
    groups: int
    ranks: int
    gpus_per_rank: int
    tables: StepTables
    kv_blocks: int
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int
    lockstep: bool = True
    kv_bytes_per_token: float = 0.0
    network: Network | None = None
    speculation: Speculation | None = None
    eplb: Eplb | None = None
    experts: ExpertBalance = field(default_factory=ExpertBalance)
    host_tier: HostTier | None = None
    prefix_caching: bool = True
    reserve_full_isl: bool = True
    reserve_answer: bool = (
        False  # admit only what can be finished without eviction (TensorRT-LLM's default policy)
    )
    long_prefill_tokens: int = 0  # 0 = off
    graph_max_tokens: int = 512

    @property
    def gpus(self) -> int:
        """GPUs of the whole role."""
        return self.groups * self.ranks * self.gpus_per_rank


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterTiming:
    """Age of the router's signals. `scrape_ms` 0 = always fresh."""

    scrape_ms: float = 50.0
    precise_index: bool = False
    index_block_tokens: int = 64
    index_blocks_per_server: int = 31250
    index_max_tokens: int = 131072


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Everything but the traffic."""

    name: str
    roles: tuple[EngineRole, ...]
    router: RouterPolicy
    timing: RouterTiming = field(default_factory=RouterTiming)
    frontend_ms: float = 0.0
    engine: str = ""  # name and version

    @property
    def disaggregated(self) -> bool:
        """Whether prompts are prefilled on other ranks than they are served on."""
        return any(r.role is Role.PREFILL for r in self.roles)

    @property
    def gpus(self) -> int:
        """GPUs of all roles."""
        return sum(r.gpus for r in self.roles)

    @property
    def ranks(self) -> int:
        """DP ranks of all roles."""
        return sum(r.groups * r.ranks for r in self.roles)
