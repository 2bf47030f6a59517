"""Figures of a simulation as frozen values."""

from __future__ import annotations

from dataclasses import dataclass

from planner.domain.deployment import Role


@dataclass(frozen=True, slots=True)
class Figure:
    """A statistic with its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Statistics over requests, in milliseconds. `reliable_p99` is False below 1,000 values."""

    count: int
    mean: Figure
    p50: Figure
    p90: Figure
    p99: Figure
    reliable_p99: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFigures:
    """Totals of one DP rank over the whole run."""

    rank: int
    group: int
    requests: int
    output_tokens: int
    prefill_tokens: int
    busy_share: float  # of the group's steps
    hit_rate: float  # of prompt tokens looked up
    peak_kv_share: float
    preemptions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFigures:
    """Totals of one role over the whole run. Shares are of step time unless named otherwise."""

    name: str
    role: Role
    gpus: int
    steps: int
    step_ms: float  # mean
    busy_share: float  # of the simulated time
    straggler_share: float  # step time spent waiting for the slowest rank's attention
    dummy_share: float  # rank-steps without work
    dbo_share: float  # steps that overlapped
    rearrangements: int  # of experts
    paused_s: float
    hit_rate: float  # of prompt tokens looked up, GPU tier
    host_hit_rate: float
    preemptions: int
    expired_leases: int
    peak_kv_share: float  # of the fullest rank
    ranks: tuple[RankFigures, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSeries:
    """Occupancy of all roles of one kind over time, sampled at `SimulationResult.series_s`."""

    role: Role
    waiting: tuple[float, ...]
    running: tuple[float, ...]
    kv_share: tuple[float, ...]
    busy_share: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTrace:
    """One request's life. Times in seconds; NaN where it did not happen."""

    request: int
    session: int
    arrival_s: float
    prefilled_s: float
    transfer_from_s: float
    transfer_to_s: float
    first_token_s: float
    finish_s: float
    isl: int
    osl: int
    prefill_rank: int
    serving_rank: int
    hit_tokens: int
    preemptions: int
    failed: bool
    measured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """What a simulation says about a plan under a workload.

    Rates count the measurement window only: after the warm-up requests and, in a closed loop, before the run-down.
    TPOT = (E2E - TTFT) / (output tokens - 1); ITL is the gap between streamed chunks.
    """

    cluster: str
    workload: str
    engine: str  # name and version the prediction is for
    replications: int
    requests: int
    measured: int
    warmup: int
    failed: int
    window_s: float
    simulated_s: float
    wall_s: float
    events: int
    gpus: int
    requests_per_s: float
    goodput_per_s: float | None  # requests meeting every target; None without targets
    output_tok_s: Figure
    total_tok_s: float
    ttft_ms: Distribution
    tpot_ms: Distribution
    itl_ms: Distribution
    e2e_ms: Distribution
    transfer_ms: Distribution | None
    prefix_hit_rate: float  # of prompt tokens, where they were prefilled
    prefilled_in_place: int  # requests the decider kept on their serving rank
    mean_in_flight: float
    roles: tuple[RoleFigures, ...]
    series_s: tuple[float, ...]
    series: tuple[RoleSeries, ...]
    notes: tuple[str, ...]
    trace: tuple[RequestTrace, ...] = ()

    @property
    def output_tok_s_per_gpu(self) -> float:
        """Output tokens per second and GPU of the whole plan."""
        return self.output_tok_s.value / self.gpus
