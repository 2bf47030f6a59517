"""Prefix matching against the router's index, ``prefix-cache-scorer``, ``prefix-cache-affinity-filter``, ``no-hit-lru-scorer``.

Formulas: llm-d-router at ebab687 (2026-08-22).
"""

from __future__ import annotations

from typing import Any

from planner.simulation.kernels import rng
from planner.simulation.kernels.jit import kernel
from planner.simulation.routing import codes


@kernel
def match_all(s: Any, ranks: Any, n: int, req: Any) -> None:
    """Matched prompt tokens of every candidate, from the precise or the approximate index."""
    w = s.world[0]
    for i in range(n):
        s.score[codes.MATCHED, ranks[i]] = 0.0
    if w.index == codes.INDEX_NONE:
        return
    base = 2 * w.ranks if w.index == codes.INDEX_APPROXIMATE else 0
    before = 0
    for i in range(req.path_n):
        upto = s.path[req.path + i, 1]
        if i == req.path_n - 1:
            upto = req.isl
        e = s.node_head[s.path[req.path + i, 0]]
        while e >= 0:
            entry = s.entry[e]
            k = entry.pool - base
            if base == 0 and k >= w.ranks:
                k -= w.ranks  # KV events tell the precise index of the host tier too
            if 0 <= k < w.ranks:
                block = s.pool[entry.pool].block
                begin = before // block
                if s.score[codes.MATCHED, k] >= begin * block:
                    held = min(entry.blocks, upto // block - begin)
                    s.score[codes.MATCHED, k] = max(s.score[codes.MATCHED, k], float((begin + held) * block))
            e = entry.far
        before = upto


@kernel
def prefix_cache(s: Any, ranks: Any, n: int, isl: int, length_weight: float, scale: float) -> None:
    """w x min(1, matched / scale)^2 + (1 - w) x matched / prompt."""
    for i in range(n):
        matched = s.score[codes.MATCHED, ranks[i]]
        length = min(1.0, matched / scale)
        s.score[codes.VALUE, ranks[i]] = (
            length_weight * length * length + (1.0 - length_weight) * matched / isl
        )


@kernel
def affinity_filter(
    s: Any,
    ranks: Any,
    n: int,
    isl: int,
    r: int,
    threshold: float,
    penalty_s: float,
    tok_s: float,
    explore: float,
) -> None:
    """Keep endpoints that hold at least `threshold` of the prompt, unless their queue costs too much TTFT."""
    if explore > 0.0 and rng.uniform(s.world[0].seed, rng.EXPLORE, r, 0) < explore:
        return
    best_sticky = 1e300
    best_other = 1e300
    for i in range(n):
        k = ranks[i]
        if s.score[codes.KEPT, k] <= 0.0:
            continue
        ttft = s.rank[k].inflight_tokens / tok_s
        if s.score[codes.MATCHED, k] >= threshold * isl:
            best_sticky = min(best_sticky, ttft)
        else:
            best_other = min(best_other, ttft)
    if best_sticky >= 1e300 or (best_other < 1e300 and best_sticky - best_other > penalty_s):
        return
    for i in range(n):
        if s.score[codes.MATCHED, ranks[i]] < threshold * isl:
            s.score[codes.KEPT, ranks[i]] = 0.0


@kernel
def is_cold(s: Any, ranks: Any, n: int) -> bool:
    """Whether no candidate holds any part of the prompt."""
    cold = True
    for i in range(n):
        cold = cold and s.score[codes.MATCHED, ranks[i]] <= 0.0
    return cold


@kernel
def no_hit_lru(s: Any, ranks: Any, n: int) -> None:
    """Cold requests go to the endpoint that took a cold request longest ago; warm ones score 0.5 everywhere."""
    if n == 1 or not is_cold(s, ranks, n):
        for i in range(n):
            s.score[codes.VALUE, ranks[i]] = 0.5 if n > 1 else 1.0
        return
    never = 0
    for i in range(n):
        if s.rank[ranks[i]].cold_use == 0:
            never += 1
    seen = 0
    for i in range(n):
        use = s.rank[ranks[i]].cold_use
        if use == 0:
            s.score[codes.VALUE, ranks[i]] = 1.0 - seen / (n - 1)
            seen += 1
            continue
        older = 0
        for j in range(n):
            other = s.rank[ranks[j]].cold_use
            if 0 < other < use:
                older += 1
        s.score[codes.VALUE, ranks[i]] = max(0.0, 1.0 - (never + older) / (n - 1))
