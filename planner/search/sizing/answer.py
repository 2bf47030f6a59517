"""What sizing says; the document `wideplan.sizing/v1`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from planner.domain.deployment import DeploymentPlan
from planner.domain.errors import Issue
from planner.domain.evaluation import Evaluation
from planner.domain.problem import Assumption
from planner.domain.recommendation import Shortfall
from planner.search.sizing.load import Load, Reserve

IN_PLACE: Final = "rollout in place, one group in turn"
SURGE: Final = "rollout by surge, one group beside the old ones"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Price of the GPUs owned, used or not. `usd_per_m_output_tokens` at the asked load."""

    usd_per_gpu_hour: float
    usd_per_hour: float
    usd_per_m_output_tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """What is carried within the targets in one event, as load and as share of the asked load.

    `left`: groups that serve, e.g. ``1 of 2 prefill, 1 of 1 decode``. `recovered`: once lost groups have started again
    on the nodes that are left; None where nothing restarts. `extra_gpus`: owned beyond the fleet while it lasts, in whole nodes; `note` says so in words.
    """

    event: str
    left: str
    carries: float
    share: float
    recovered: float | None
    extra_gpus: int
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedPoint:
    """The smallest fleet that carries the load at `tok_s_user` or faster."""

    tok_s_user: float
    gpus: int
    usd_per_hour: float | None
    usd_per_m_output_tokens: float | None
    tpot_ms: float
    ttft_ms: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedFleet:
    """The smallest fleet of one GPU type and its plan. GPUs are owned in whole nodes.

    `scale_up_domains`: NVLink domains of several nodes that hold the groups unsplit (None where a node is the domain).
    `evaluation`: at the asked load. `gpus_enough`: fewer GPUs than one node that would
    do, where a node can be had in parts. `carries`: the most within the targets, limited by `binding`. `gpus_interval`:
    counts if the plan carries as much as the upper and as little as the lower end of its 80 % interval says (None:
    beyond the limit). `one_more_lost`: GPUs of the smallest fleet that carries the load with one node more lost than was
    asked for. `smaller_carries`: what the best plan on one node less carries (None: no such fleet).
    """

    gpus: int
    nodes: int
    scale_up_domains: int | None
    gpus_used: int
    gpus_enough: int | None
    plan: DeploymentPlan
    evaluation: Evaluation
    carries: float
    binding: str
    gpus_interval: tuple[int | None, int | None]
    one_more_lost: int | None
    smaller_carries: float | None
    smaller_binding: str
    cost: Cost | None
    headroom: tuple[Headroom, ...]
    frontier: tuple[SpeedPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAnswer:
    """One GPU type: a fleet, or why there is none."""

    gpu: str
    gpu_name: str
    fabric: str
    node: str
    gpus_per_node: int
    assumptions: tuple[Assumption, ...]
    fleet: SizedFleet | None
    shortfall: Shortfall | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A GPU type that was not sized, and why."""

    gpu: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingAnswer:
    """Everything `planner size` says. `cheapest` and `fewest` name GPU types; None when nothing carries the load."""

    model: str
    question: str
    load: Load
    load_definition: str
    reserve: Reserve
    assumptions: tuple[Assumption, ...]
    types: tuple[GpuAnswer, ...]
    left_out: tuple[LeftOut, ...]
    cheapest: str | None
    fewest: str | None
    largest_group: int
    model_version: str

    @property
    def chosen(self) -> GpuAnswer | None:
        """The cheapest type, or the one with the fewest GPUs where prices are missing."""
        name = self.cheapest or self.fewest
        return next((t for t in self.types if t.gpu == name), None)


def issue_text(issues: tuple[Issue, ...]) -> tuple[str, tuple[str, ...]]:
    """What binds and what would do, from refusals that arithmetic alone gives."""
    return "; ".join(f"{i.what}: {i.why}" for i in issues), tuple(i.fix for i in issues)
