"""Where a request goes: serving rank first, then the decider, then the prefill rank (or the reverse order)."""

from __future__ import annotations

from typing import Any

from planner.simulation.kernels import cache
from planner.simulation.kernels.jit import kernel
from planner.simulation.routing import codes, prefix, simple
from planner.simulation.routing.picker import pick_llm_d


@kernel
def _pick(s: Any, leg: int, r: int) -> int:
    ranks = s.candidates[leg]
    n = s.candidates[leg, s.candidates.shape[1] - 1]
    router = s.world[0].router
    if router == codes.RANDOM:
        return simple.pick_random(s, ranks, n, r, leg)
    if router == codes.ROUND_ROBIN:
        return simple.pick_round_robin(s, ranks, n, leg)
    if router == codes.LEAST_QUEUE:
        return simple.pick_least_queue(s, ranks, n, r, leg)
    if router == codes.VLLM_DP:
        return simple.pick_vllm_dp(s, ranks, n)
    return pick_llm_d(s, ranks, n, r, leg)


@kernel
def _dispatch(s: Any, leg: int, r: int) -> int:
    """Choose a rank for one leg of request `r` and book it in the router's own state."""
    w = s.world[0]
    req = s.req[r]
    ranks = s.candidates[leg]
    n = s.candidates[leg, s.candidates.shape[1] - 1]
    prefix.match_all(s, ranks, n, req)
    k = _pick(s, leg, r)
    cold = prefix.is_cold(s, ranks, n)
    matched = s.score[codes.MATCHED, k]
    charge = int(req.isl - matched)
    s.rank[k].inflight += 1
    s.rank[k].inflight_tokens += charge
    if leg == 0:
        req.prefill = k
        req.charge_prefill = charge
    else:
        req.serve = k
        req.charge = charge
    if cold:
        w.cold += 1
        s.rank[k].cold_use = w.cold
    if req.session >= 0:
        s.session_rank[leg, req.session] = k
    if w.index == codes.INDEX_APPROXIMATE and req.path_n > 0:
        pool = 2 * w.ranks + k
        upto = min(int(req.isl), int(w.index_tokens)) // s.pool[pool].block
        cache.remember(s, pool, req, s.seq[len(s.seq) - 1], upto)
    return int(matched)


@kernel
def route(s: Any, r: int) -> None:
    """Set `serve` and, when the prompt is prefilled elsewhere, `prefill` of request `r`."""
    w = s.world[0]
    req = s.req[r]
    req.prefill = -1
    if w.disaggregated and w.prefill_first:
        _dispatch(s, 0, r)
        _dispatch(s, 1, r)
        return
    matched = _dispatch(s, 1, r)
    if not w.disaggregated:
        return
    if w.decider == codes.PREFIX_BASED:
        short = w.decider_non_cached == 0 or req.isl < w.decider_prompt or req.isl < w.decider_non_cached
        if short or req.isl - matched < w.decider_non_cached:
            w.not_disaggregated += 1
            return
    _dispatch(s, 0, r)
