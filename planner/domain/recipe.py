"""A named planning input, the outcome published for it, and the outcome this version plans."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from planner.domain.deployment import Strategy
from planner.domain.provenance import Estimate, Provenance, Source
from planner.domain.workload import SloTargets, Workload


class RecipeFamily(StrEnum):
    """What question a recipe belongs to."""

    NETWORK = "network"
    HARDWARE = "hardware"
    MODEL = "model"
    TRAFFIC = "traffic"
    GOAL = "goal"
    LIMITS = "limits"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipePool:
    """GPUs of one type, by catalogue names. Without `node` the usual shape for GPU and fabric is taken."""

    gpu: str
    gpus: int
    fabric: str
    node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedOutcome:
    """What was published for a question like this one; the rates are output tokens/s per GPU of the whole plan.

    `low` and `high` bound the published or measured rate at the recipe's service levels; None leaves a side open.
    """

    source: Source
    feasible: bool = True
    strategy: Strategy | None = None
    output_tok_s_per_gpu_low: float | None = None
    output_tok_s_per_gpu_high: float | None = None

    def overlaps(self, rate: Estimate) -> bool:
        """Whether the published rates share a value with the interval of a predicted one."""
        low, high = self.output_tok_s_per_gpu_low, self.output_tok_s_per_gpu_high
        return (low is None or rate.high >= low) and (high is None or rate.low <= high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A complete planning input. Either `pool` is given, or both `prefill_pool` and `decode_pool`.

    `strategies` empty means that both are planned. `usd_per_gpu_hour` None takes the GPU's own default price.
    """

    id: str
    why: str
    model: str
    workload: Workload
    slo: SloTargets
    engine: str
    family: RecipeFamily | None = None
    engine_version: str | None = None
    pool: RecipePool | None = None
    prefill_pool: RecipePool | None = None
    decode_pool: RecipePool | None = None
    strategies: tuple[Strategy, ...] = ()
    usd_per_gpu_hour: float | None = None
    expected: ExpectedOutcome | None = None

    @property
    def pools(self) -> tuple[RecipePool, ...]:
        """The shared pool, or the prefill and the decode pool."""
        return tuple(p for p in (self.pool, self.prefill_pool, self.decode_pool) if p is not None)

    @property
    def gpus(self) -> int:
        """GPUs of all pools."""
        return sum(p.gpus for p in self.pools)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFigures:
    """Numbers of one plan at its planned load; rates per GPU are per GPU owned, times are medians."""

    output_tok_s_per_gpu: Estimate
    ttft_ms: Estimate
    tpot_ms: Estimate
    tok_s_user: float
    concurrency: int
    usd_per_m_output_tokens: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherStrategy:
    """The best plan of the strategy that was not picked."""

    strategy: Strategy
    plan: str
    output_tok_s_per_gpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOutcome:
    """What this version of the planner answers to a recipe; kept beside it so that a change shows in review.

    `plan` has one text per role in the notation of ``planner estimate``, `roles` their names. When nothing meets the
    targets, `feasible` is False, plan and figures are those of the nearest plan (empty when there is none) and `needed`
    says what would do. `calibration` is a hash of the calibration files behind the figures.
    """

    recipe: str
    feasible: bool
    strategy: Strategy | None
    roles: tuple[str, ...]
    plan: tuple[str, ...]
    gpus_used: int
    gpus_owned: int
    figures: PlannedFigures | None
    binding: str
    needed: tuple[str, ...]
    other: OtherStrategy | None
    provenance: Provenance | None
    extrapolates: tuple[str, ...]
    engine: str
    model_version: str
    calibration: str
