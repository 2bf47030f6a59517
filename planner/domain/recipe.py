"""A named planning input with the outcome it is expected to have."""

from __future__ import annotations

from dataclasses import dataclass

from planner.domain.deployment import Strategy
from planner.domain.provenance import Source
from planner.domain.workload import SloTargets, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipePool:
    """GPUs of one type, by catalogue names. Without `node` the usual shape for GPU and fabric is taken."""

    gpu: str
    gpus: int
    fabric: str
    node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedOutcome:
    """What planning this recipe should end in; the rates are output tokens/s per GPU of the whole plan.

    `low` and `high` bound the published or measured rate at the recipe's service levels; None leaves a side open.
    """

    source: Source
    feasible: bool = True
    strategy: Strategy | None = None
    output_tok_s_per_gpu_low: float | None = None
    output_tok_s_per_gpu_high: float | None = None


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
