"""Scorers on scraped load: ``queue-scorer``, ``running-requests-size-scorer``, ``kv-cache-utilization-scorer``, ``load-aware-scorer``.

Formulas: llm-d-router at ebab687 (2026-08-22), plugins/scheduling. Values are as old as the last scrape.
"""

from __future__ import annotations

from typing import Any

from planner.simulation.kernels.jit import kernel
from planner.simulation.routing.codes import KEPT, VALUE


@kernel
def _spread(s: Any, ranks: Any, n: int) -> None:
    """(max - x) / (max - min) over the kept candidates; 1 for all when equal."""
    low = 1e300
    high = -1e300
    for i in range(n):
        k = ranks[i]
        if s.score[KEPT, k] > 0.0:
            low = min(low, s.score[VALUE, k])
            high = max(high, s.score[VALUE, k])
    for i in range(n):
        k = ranks[i]
        s.score[VALUE, k] = 1.0 if high <= low else (high - s.score[VALUE, k]) / (high - low)


@kernel
def queue(s: Any, ranks: Any, n: int) -> None:
    """Fewest waiting requests score 1, most 0."""
    for i in range(n):
        s.score[VALUE, ranks[i]] = s.rank[ranks[i]].seen_waiting
    _spread(s, ranks, n)


@kernel
def running(s: Any, ranks: Any, n: int) -> None:
    """Fewest running requests score 1, most 0."""
    for i in range(n):
        s.score[VALUE, ranks[i]] = s.rank[ranks[i]].seen_running
    _spread(s, ranks, n)


@kernel
def kv_usage(s: Any, ranks: Any, n: int) -> None:
    """Free share of the KV cache."""
    for i in range(n):
        s.score[VALUE, ranks[i]] = 1.0 - s.rank[ranks[i]].seen_usage


@kernel
def load_aware(s: Any, ranks: Any, n: int, threshold: float) -> None:
    """0.5 without a queue, falling to 0 at `threshold` waiting requests."""
    for i in range(n):
        waiting = s.rank[ranks[i]].seen_waiting
        s.score[VALUE, ranks[i]] = 0.5 * (1.0 - min(float(waiting), threshold) / threshold)
