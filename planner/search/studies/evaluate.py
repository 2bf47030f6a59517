"""What evaluating a point gives, and who can do it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from planner.domain.deployment import DeploymentPlan
from planner.domain.study import Scalar, StudyLevel
from planner.domain.workload import SloTargets


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """How much work one evaluation is. `requests_per_slot`: requests per request in flight, warm-up included.

    The requests of a run are bounded by `min_requests` and `max_requests`; `replications` have different seeds.
    """

    name: str
    requests_per_slot: float = 2.0
    min_requests: int = 200
    max_requests: int = 4000
    replications: int = 1

    def requests(self, concurrency: int) -> int:
        """Requests of one replication at this concurrency: at least two waves, so that a steady state exists."""
        wanted = math.ceil(self.requests_per_slot * concurrency)
        return max(min(max(wanted, self.min_requests), self.max_requests), 2 * concurrency)

    def settings(self) -> dict[str, Scalar]:
        """What identifies the fidelity in a specification."""
        return {
            "requests_per_slot": self.requests_per_slot,
            "min_requests": self.min_requests,
            "max_requests": self.max_requests,
            "replications": self.replications,
        }


SHORT = Fidelity(name="short", requests_per_slot=2.0, min_requests=200, max_requests=2000)
LONG = Fidelity(name="long", requests_per_slot=4.0, min_requests=1500, max_requests=20000, replications=3)
EXACT = Fidelity(name="exact", requests_per_slot=0.0, min_requests=1, max_requests=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Behaviour of a plan at its concurrency: medians over requests, output tokens/s per owned GPU.

    `log_se`: standard errors of the logarithms of rate, TPOT and TTFT. `error` says why there are no numbers.
    """

    output_tok_s_per_gpu: float = math.nan
    tpot_ms: float = math.nan
    ttft_ms: float = math.nan
    log_se: tuple[float, float, float] = (0.0, 0.0, 0.0)
    usd_per_m_output_tokens: float | None = None
    attributes: Mapping[str, Scalar] = field(default_factory=dict)
    error: str | None = None

    @property
    def usable(self) -> bool:
        """Whether all three figures are there and positive."""
        values = (self.output_tok_s_per_gpu, self.tpot_ms, self.ttft_ms)
        return self.error is None and all(math.isfinite(v) and v > 0.0 for v in values)

    @property
    def tok_s_user(self) -> float:
        """Decode speed seen by one user."""
        return 1000.0 / self.tpot_ms

    def constraints(self, slo: SloTargets) -> dict[str, float]:
        """Relative excess over each target; met at <= 0."""
        found: dict[str, float] = {}
        if slo.ttft_ms is not None:
            found["ttft_ms"] = self.ttft_ms / slo.ttft_ms - 1.0
        limit = slo.tpot_limit_ms
        if limit is not None:
            found["tpot_ms"] = self.tpot_ms / limit - 1.0
        return found

    def feasible(self, slo: SloTargets) -> bool:
        """Whether it ran and meets every target."""
        return self.usable and all(v <= 0.0 for v in self.constraints(slo).values())


class Evaluator(Protocol):
    """Evaluates plans of one problem. Same plan, fidelity and seed give the same observation."""

    @property
    def level(self) -> StudyLevel:
        """What kind of numbers it gives."""
        ...

    @property
    def version(self) -> str:
        """Version of the model behind the numbers; part of every result's identity."""
        ...

    def observe(self, plan: DeploymentPlan, *, fidelity: Fidelity, seed: int) -> Observation:
        """Evaluate `plan` at its concurrency. A plan that cannot run gives an observation with `error`."""
        ...
