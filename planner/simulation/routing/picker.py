"""llm-d scheduling profile: filters, weighted scorers, picker."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.simulation.kernels import rng
from planner.simulation.kernels.jit import kernel
from planner.simulation.routing import codes, inflight, load, prefix


@kernel
def pick_llm_d(s: Any, ranks: Any, n: int, r: int, leg: int) -> int:
    """Total(endpoint) = sum of weight x clamp01(score) over the scorers of profile `leg`; then the picker chooses."""
    req = s.req[r]
    picker = codes.MAX_SCORE
    for i in range(n):
        s.score[codes.TOTAL, ranks[i]] = 0.0
        s.score[codes.KEPT, ranks[i]] = 1.0
    for p in range(s.plugins.shape[1]):
        plugin = s.plugins[leg, p]
        if plugin.code == 0:
            break
        if plugin.code >= codes.MAX_SCORE:
            picker = plugin.code
        elif plugin.code < codes.PREFIX_CACHE:
            _filter(s, ranks, n, req, r, plugin)
        else:
            _score(s, ranks, n, req, leg, plugin)
            for i in range(n):
                value = min(1.0, max(0.0, s.score[codes.VALUE, ranks[i]]))
                s.score[codes.TOTAL, ranks[i]] += plugin.weight * value
    return _pick(s, ranks, n, r, leg, picker)


@kernel
def _filter(s: Any, ranks: Any, n: int, req: Any, r: int, plugin: Any) -> None:
    if plugin.code == codes.PREFIX_AFFINITY:
        prefix.affinity_filter(s, ranks, n, req.isl, r, plugin.p0, plugin.p1, plugin.p2, plugin.p3)
        return
    # utilization-filter: drop what exceeds a cap; when all do, keep them all
    kept = 0
    for i in range(n):
        rank = s.rank[ranks[i]]
        over = (
            rank.inflight > plugin.p0
            or rank.seen_running > plugin.p1
            or rank.seen_waiting > plugin.p2
            or rank.seen_usage > plugin.p3
        )
        s.score[codes.VALUE, ranks[i]] = 0.0 if over else s.score[codes.KEPT, ranks[i]]
        if s.score[codes.VALUE, ranks[i]] > 0.0:
            kept += 1
    if kept > 0:
        for i in range(n):
            s.score[codes.KEPT, ranks[i]] = s.score[codes.VALUE, ranks[i]]


@kernel
def _score(s: Any, ranks: Any, n: int, req: Any, leg: int, plugin: Any) -> None:
    code = plugin.code
    if code == codes.PREFIX_CACHE:
        prefix.prefix_cache(s, ranks, n, req.isl, plugin.p0, plugin.p1)
    elif code == codes.QUEUE:
        load.queue(s, ranks, n)
    elif code == codes.RUNNING_REQUESTS:
        load.running(s, ranks, n)
    elif code == codes.KV_USAGE:
        load.kv_usage(s, ranks, n)
    elif code == codes.LOAD_AWARE:
        load.load_aware(s, ranks, n, plugin.p0)
    elif code == codes.ACTIVE_REQUEST:
        inflight.active_request(s, ranks, n, plugin.p0, plugin.p1)
    elif code == codes.TOKEN_LOAD:
        inflight.token_load(s, ranks, n, req.isl, plugin.p0)
    elif code == codes.NO_HIT_LRU:
        prefix.no_hit_lru(s, ranks, n)
    elif code == codes.SESSION_AFFINITY:
        for i in range(n):
            bound = req.session >= 0 and s.session_rank[leg, req.session] == ranks[i]
            s.score[codes.VALUE, ranks[i]] = 1.0 if bound else 0.0
    else:  # scorers whose signal is absent here (no LoRA adapters, no context-length labels): the same for all
        for i in range(n):
            s.score[codes.VALUE, ranks[i]] = 0.5


@kernel
def _pick(s: Any, ranks: Any, n: int, r: int, leg: int, picker: int) -> int:
    """`max-score-picker` breaks ties at random; `weighted-random-picker` takes the largest U^(1/score)."""
    seed = s.world[0].seed
    key = 2 * r + leg
    positive = False
    for i in range(n):
        if s.score[codes.KEPT, ranks[i]] > 0.0 and s.score[codes.TOTAL, ranks[i]] > 0.0:
            positive = True
    best = -1
    highest = -np.inf
    tied = 0
    for i in range(n):
        k = ranks[i]
        if s.score[codes.KEPT, k] <= 0.0:
            continue
        if picker == codes.MAX_SCORE:
            value = s.score[codes.TOTAL, k]
        else:
            value = np.log(rng.uniform(seed, rng.PICKER, key, i) + 1e-12)
            if picker == codes.WEIGHTED_RANDOM and positive:
                value = value / s.score[codes.TOTAL, k] if s.score[codes.TOTAL, k] > 0.0 else -1e300
        if value > highest:
            highest, best, tied = value, k, 1
        elif value == highest:
            tied += 1
            if rng.uniform(seed, rng.ROUTE_TIES, key, i) * tied < 1.0:
                best = k
    return int(best)
