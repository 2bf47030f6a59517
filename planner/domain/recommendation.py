"""The answer to a planning problem: frontier, ranked plans, the pick, and why."""

from __future__ import annotations

from dataclasses import dataclass

from planner.domain.deployment import DeploymentPlan, Strategy
from planner.domain.evaluation import Evaluation
from planner.domain.problem import Assumption


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Role configurations left out by one rule."""

    code: str
    title: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceCounts:
    """Size of the space. `points` = (configuration x load) points priced; the front is exact over them. `reachable` of them
    run without queueing for KV room or prefill.

    `role_configurations` = legal + excluded. `dominated` role configurations are legal but lose to another of the same
    shape at every load, so leaving them out of the pairing cannot change the front. `sampled`: the pool is so large that
    only a sample of the numbers of groups was priced; the front is then exact for the points priced, not for the space.
    """

    role_configurations: int
    legal: int
    dominated: int
    points: int
    reachable: int
    meeting_slo: int
    exclusions: tuple[Exclusion, ...]
    sampled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint:
    """One non-dominated point. Rates per GPU are per GPU owned."""

    strategy: Strategy
    label: str
    tok_s_user: float
    output_tok_s_per_gpu: float
    ttft_ms: float
    tpot_ms: float
    concurrency: float
    gpus_used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedPlan:
    """A plan with its numbers. `rank` 1 is the pick among plans that meet the targets.

    `distinguishable` is False when its throughput interval overlaps the first plan's.
    `loses` says in words what it gives up against the first plan.
    """

    rank: int
    plan: DeploymentPlan
    evaluation: Evaluation
    meets_slo: bool
    distinguishable: bool
    loses: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """Why nothing meets the targets: the limit that binds, the nearest plan, and what would do."""

    binding: str
    nearest: RankedPlan | None
    needed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Everything `planner recommend` says; the document `wideplan.recommendation/v1`."""

    name: str
    question: str
    assumptions: tuple[Assumption, ...]
    space: SpaceCounts
    frontier: tuple[FrontierPoint, ...]
    ranked: tuple[RankedPlan, ...]
    pick: RankedPlan | None
    reasons: tuple[str, ...]
    shortfall: Shortfall | None
    model_version: str
