"""What the planner is asked: model, hardware, traffic, service levels and the bounds of the search."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from planner.domain.calibration import Calibration
from planner.domain.deployment import Speculation, Strategy
from planner.domain.dtypes import KvDtype
from planner.domain.hardware import Pool
from planner.domain.model import ModelSpec
from planner.domain.workload import SloTargets, Workload

# A plan that promises a TTFT keeps its prefill groups at most this busy: lockstep loses up to 15 % of their capacity to
# uneven steps (simulated), capacity is known to about 15 % (docs/accuracy.md), and past saturation TTFT is all queue.
PREFILL_HEADROOM: Final = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """A default that was filled in, said to the user."""

    name: str
    value: str
    why: str
    flag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBounds:
    """Limits on the enumerated space; empty tuples mean every legal value."""

    strategies: tuple[Strategy, ...] = (Strategy.AGGREGATED, Strategy.DISAGGREGATED)
    kv_dtypes: tuple[KvDtype, ...] = ()
    max_tp: int = 16
    allow_dbo: bool = True
    allow_eplb: bool = True
    max_concurrency_per_rank: int = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningProblem:
    """A complete question. `prefill_pool` and `decode_pool` are the same object unless GPU types differ."""

    name: str
    model: ModelSpec
    prefill_pool: Pool
    decode_pool: Pool
    workload: Workload
    slo: SloTargets
    engine: str
    engine_version: str
    usd_per_gpu_hour: float | None
    bounds: SearchBounds = field(default_factory=SearchBounds)
    speculation: Speculation | None = None
    calibration: Calibration | None = None  # the user's own, for exactly this model, GPU, engine and version
    assumptions: tuple[Assumption, ...] = ()

    @property
    def heterogeneous(self) -> bool:
        """Whether prefill and decode use different GPU types."""
        return self.prefill_pool.gpu.id != self.decode_pool.gpu.id

    @property
    def gpus(self) -> int:
        """GPUs owned: one shared pool, or the sum of two."""
        if self.prefill_pool is self.decode_pool:
            return self.decode_pool.gpus
        return self.prefill_pool.gpus + self.decode_pool.gpus
