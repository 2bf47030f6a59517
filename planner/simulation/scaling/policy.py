"""How many groups a role should have: the arithmetic of the Kubernetes HorizontalPodAutoscaler.

With an average-value target, as KEDA's Prometheus scaler sets it: wanted = ceil(metric of all groups / target of one),
nothing changes within the tolerance, a decision to shrink is the largest recommendation of the stabilisation window, and
a step is limited. Source: kubernetes.io, "Horizontal Pod Autoscaling" (algorithm details, stabilisation window, scaling
policies), read 2026-11; defaults there: sync 15 s, tolerance 10 %, scale-down window 300 s, scale-up window 0 s, at most
4 pods (or doubling) per 15 s.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Metric(StrEnum):
    """What is measured of a role, summed over its serving groups. All can be scraped or are known to the router."""

    RUNNING = "running"  # requests on the role's ranks, queued ones included
    BACKLOG = "backlog"  # prompt tokens dispatched and not yet prefilled
    KV = "kv"  # share of the KV cache in use
    UTILISATION = "utilisation"  # share of the ranks that have work


UNIT = {
    Metric.RUNNING: "requests",
    Metric.BACKLOG: "prompt tokens waiting",
    Metric.KV: "KV cache in use",
    Metric.UTILISATION: "ranks with work",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePolicy:
    """Bounds and target of one role. `target`: value of the metric one group should carry."""

    metric: Metric
    target: float
    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What all roles share. Times in seconds; `step`: groups added or removed per decision at most."""

    sync_s: float = 15.0
    tolerance: float = 0.1
    up_window_s: float = 0.0
    down_window_s: float = 300.0
    step: int = 4
    average_s: float = 60.0  # the metric is averaged over this long, as a Prometheus query would


def recommended(total: float, *, current: int, policy: RolePolicy, tolerance: float) -> int:
    """Groups for a metric of `total` over the role, before windows and limits."""
    if current > 0 and abs(total / (policy.target * current) - 1.0) <= tolerance:
        wanted = current
    else:
        wanted = math.ceil(total / policy.target - 1e-9)
    return min(max(wanted, policy.least), policy.most)


@dataclass(slots=True)
class RoleScaler:
    """Decisions for one role over time."""

    policy: RolePolicy
    behaviour: Behaviour
    _history: deque[tuple[float, int]] = field(default_factory=deque)

    def decide(self, t: float, *, total: float, current: int) -> int:
        """Groups wanted at `t` seconds, given the metric over the role and the groups it has or is starting."""
        b = self.behaviour
        wanted = recommended(total, current=current, policy=self.policy, tolerance=b.tolerance)
        self._history.append((t, wanted))
        while self._history[0][0] < t - max(b.up_window_s, b.down_window_s):
            self._history.popleft()
        floor = min(n for s, n in self._history if s >= t - b.up_window_s)
        ceiling = max(n for s, n in self._history if s >= t - b.down_window_s)
        # grow only to what the whole up window asked for, shrink only to what the whole down window allows
        aim = min(max(current, floor), ceiling)
        return max(current - b.step, min(current + b.step, aim))


@dataclass(frozen=True, slots=True)
class Reading:
    """What an autoscaler sees of a role: the metric over its serving groups, and groups it has or is starting."""

    total: float
    current: int


@dataclass(slots=True)
class Independent:
    """Every role follows its own metric. `scalers` by role."""

    scalers: Mapping[str, RoleScaler]

    def decide(self, t: float, seen: Mapping[str, Reading]) -> dict[str, int]:
        """Groups wanted per role at `t` seconds."""
        return {
            role: scaler.decide(t, total=seen[role].total, current=seen[role].current)
            for role, scaler in self.scalers.items()
        }


@dataclass(slots=True)
class Together:
    """Whole copies of the plan: the role that needs most copies decides for all.

    `ratio`: groups per copy; `targets`: metric of one group; `copies` decides with a target of one copy.
    """

    copies: RoleScaler
    ratio: Mapping[str, int]
    targets: Mapping[str, float]

    def decide(self, t: float, seen: Mapping[str, Reading]) -> dict[str, int]:
        """Groups wanted per role at `t` seconds."""
        load = max(seen[r].total / (self.targets[r] * n) for r, n in self.ratio.items())
        current = max(-(-seen[r].current // n) for r, n in self.ratio.items())
        copies = self.copies.decide(t, total=load, current=current)
        return {r: copies * n for r, n in self.ratio.items()}
