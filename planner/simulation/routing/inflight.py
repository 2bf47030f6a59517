"""Scorers on the router's own, always fresh counts: ``active-request-scorer`` and ``token-load-scorer``.

Formulas: llm-d-router at ebab687 (2026-08-22). Requests count from dispatch to the end of the stream, prompt tokens
until the first chunk.
"""

from __future__ import annotations

from typing import Any

from planner.simulation.kernels.jit import kernel
from planner.simulation.routing.codes import KEPT, MATCHED, VALUE


@kernel
def active_request(s: Any, ranks: Any, n: int, idle: float, busy_score: float) -> None:
    """1 up to `idle` requests in flight, else (max - n) / max x `busy_score`."""
    most = 0
    for i in range(n):
        if s.score[KEPT, ranks[i]] > 0.0:
            most = max(most, s.rank[ranks[i]].inflight)
    for i in range(n):
        count = s.rank[ranks[i]].inflight
        value = 1.0
        if count > idle:
            value = (most - count) / most * busy_score
        s.score[VALUE, ranks[i]] = value


@kernel
def token_load(s: Any, ranks: Any, n: int, isl: int, threshold: float) -> None:
    """1 - min(tokens, T) / T with tokens in flight plus this request's uncached ones."""
    for i in range(n):
        k = ranks[i]
        tokens = s.rank[k].inflight_tokens + isl - s.score[MATCHED, k]
        s.score[VALUE, k] = 1.0 - min(tokens, threshold) / threshold
