"""Router policies a study tries: a handful of named scorer mixes, since only their ratios matter."""

from __future__ import annotations

from dataclasses import dataclass

from planner.domain.deployment import RouterPolicy, Scorer, Strategy
from planner.domain.workload import Workload
from planner.search.plans import default_router


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterVariant:
    """A named policy; `None` of a strategy means that the default is kept."""

    name: str
    prefix: float
    active: float
    queue: float
    kv_utilisation: float

    def policy(self, strategy: Strategy, workload: Workload) -> RouterPolicy:
        """Scorers with these weights where they can act; prefix affinity needs shared prefixes on the decode side."""
        if self.name == DEFAULT:
            return default_router(strategy)
        shared = workload.prefix_hit > 0.0
        decode = self._scorers(prefix=shared or strategy is Strategy.AGGREGATED)
        prefill = self._scorers(prefix=True) if strategy is Strategy.DISAGGREGATED else ()
        return RouterPolicy(prefill_scorers=prefill, decode_scorers=decode)

    def _scorers(self, *, prefix: bool) -> tuple[Scorer, ...]:
        weights = (
            ("prefix-cache-scorer", self.prefix if prefix else 0.0),
            ("active-request-scorer", self.active),
            ("queue-scorer", self.queue),
            ("kv-cache-utilization-scorer", self.kv_utilisation),
        )
        return tuple(Scorer(type=t, weight=w) for t, w in weights if w > 0.0)


DEFAULT = "default"
_VARIANTS = (
    RouterVariant(name=DEFAULT, prefix=0.0, active=0.0, queue=0.0, kv_utilisation=0.0),
    RouterVariant(name="in-flight", prefix=1.0, active=3.0, queue=0.0, kv_utilisation=0.0),
    RouterVariant(name="scraped", prefix=3.0, active=0.0, queue=2.0, kv_utilisation=2.0),
    RouterVariant(name="prefix-heavy", prefix=5.0, active=1.0, queue=0.0, kv_utilisation=0.0),
)


def router_variants(workload: Workload) -> tuple[RouterVariant, ...]:
    """Policies worth trying for `workload`; without shared prefixes a heavy prefix weight changes nothing."""
    return tuple(v for v in _VARIANTS if workload.prefix_hit > 0.0 or v.name != "prefix-heavy")


DEFAULT_ONLY = _VARIANTS[:1]
