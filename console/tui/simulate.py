"""Run one simulation for the app: what `planner simulate` does, with progress handed over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.domain.deployment import DeploymentPlan

if TYPE_CHECKING:
    from planner.simulation.result import SimulationResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to simulate. None: the plan's own router, workload, concurrency, and as many requests as usual."""

    plan: DeploymentPlan
    router: str | None = None
    workload: str | None = None
    concurrency: int | None = None
    requests: int | None = None
    seed: int = 0

    @property
    def name(self) -> str:
        """For tables."""
        parts = [self.router or "", self.plan.label(), self.workload or ""]
        return ", ".join(p for p in parts if p)


def simulate_wish(wish: Wish, progress: Callable[[int, int], None]) -> SimulationResult:
    """Simulate `wish`. The same seed gives the same traffic to every router. Raises PlannerError."""
    from planner.simulation.engine import simulate
    from planner.simulation.from_plan import cluster_from_plan
    from planner.simulation.presets import router_named
    from planner.simulation.traffic import Arrival
    from planner.simulation.workloads import Asked, traffic_of

    plan = wish.plan
    found = router_named(wish.router) if wish.router is not None else None
    cluster = cluster_from_plan(
        plan,
        router=found.policy if found is not None else plan.router,
        timing=found.timing if found is not None else None,
    )
    w = plan.workload
    own = wish.workload is None
    asked = Asked(
        workload=wish.workload or f"{w.isl}/{w.osl}",
        arrival=Arrival.CLOSED,
        concurrency=wish.concurrency or plan.concurrency,
        requests=wish.requests,
        length_cv=w.length_cv if own else 0.0,
        shared_prefix_tokens=int(w.isl * w.prefix_hit) if own else 0,
    )
    traffic = traffic_of(asked, seed=wish.seed)
    return simulate(
        replace(cluster, name=wish.name), traffic, seed=wish.seed, slo=plan.slo, progress=progress
    )
