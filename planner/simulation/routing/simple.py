"""Routers without plugins: random, round robin, least queue, and vLLM's internal DP balancer."""

from __future__ import annotations

from typing import Any

from planner.simulation.kernels import rng
from planner.simulation.kernels.jit import kernel


@kernel
def pick_random(s: Any, ranks: Any, n: int, r: int, leg: int) -> int:
    """Uniform choice."""
    return int(ranks[min(int(rng.uniform(s.world[0].seed, rng.RANDOM_ROUTE, r, leg) * n), n - 1)])


@kernel
def pick_round_robin(s: Any, ranks: Any, n: int, leg: int) -> int:
    """One after the other, per role."""
    w = s.world[0]
    if leg == 0:
        w.turn_prefill += 1
        return int(ranks[(w.turn_prefill - 1) % n])
    w.turn += 1
    return int(ranks[(w.turn - 1) % n])


@kernel
def pick_least_queue(s: Any, ranks: Any, n: int, r: int, leg: int) -> int:
    """Fewest waiting plus running requests as last scraped; ties at random."""
    best = -1
    least = 1 << 60
    tied = 0
    for i in range(n):
        k = ranks[i]
        load = s.rank[k].seen_waiting + s.rank[k].seen_running
        if load < least:
            least, best, tied = load, k, 1
        elif load == least:
            tied += 1
            if rng.uniform(s.world[0].seed, rng.ROUTE_TIES, 2 * r + leg, i) * tied < 1.0:
                best = k
    return int(best)


@kernel
def pick_vllm_dp(s: Any, ranks: Any, n: int) -> int:
    """vLLM 0.33 client balancer (v1/engine/core_client.py): own in-flight count against the coordinator's snapshot.

    max(in flight, waiting + running) + 6 x waiting x max(0, usage - 0.5); lowest wins, first on ties.
    """
    best = -1
    least = 1e300
    for i in range(n):
        rank = s.rank[ranks[i]]
        load = float(max(rank.inflight, rank.seen_waiting + rank.seen_running))
        load += 6.0 * rank.seen_waiting * max(0.0, rank.seen_usage - 0.5)
        if load < least:
            least = load
            best = ranks[i]
    return int(best)
