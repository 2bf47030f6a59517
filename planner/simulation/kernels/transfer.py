"""KV transfers: setup time, then bytes at the rate two shared NICs allow.

Each NIC splits its bandwidth evenly over the flows it carries, and a flow gets the smaller of its two shares; the
shares change whenever a flow begins or ends, so the completion times are recomputed then.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.simulation.kernels.jit import kernel


@kernel
def _rerate(s: Any, now: float, since: float) -> None:
    w = s.world[0]
    soonest = np.inf
    for f in range(w.flows):
        q = s.flow[f].seq
        s.flow[f].left -= s.flow[f].rate * (now - since)
        destination = s.rank[s.seq[q].rank]
        source = s.rank[s.seq[w.requests + q].rank]
        rate = min(
            s.role[source.role].nic_bytes_s / source.out_flows,
            s.role[destination.role].nic_bytes_s / destination.in_flows,
        )
        s.flow[f].rate = rate
        soonest = min(soonest, now + max(s.flow[f].left, 0.0) / rate)
    w.next_transfer = soonest
    w.rated_at = now


@kernel
def begin(s: Any, q: int, now: float) -> None:
    """Put the pull of serving sequence `q` on the network."""
    w = s.world[0]
    seq = s.seq[q]
    destination = s.rank[seq.rank]
    source = s.rank[s.seq[w.requests + q].rank]
    tokens = seq.tokens - 1 - seq.computed
    f = w.flows
    w.flows += 1
    s.flow[f].seq = q
    s.flow[f].left = tokens * s.role[destination.role].kv_bytes
    s.flow[f].rate = 0.0
    source.out_flows += 1
    destination.in_flows += 1
    _rerate(s, now, w.rated_at)


@kernel
def setup_s(s: Any, q: int) -> float:
    """Handshake and descriptor posting before the bytes of sequence `q` flow."""
    seq = s.seq[q]
    role = s.role[s.rank[seq.rank].role]
    return role.setup_s + role.per_block_s * (seq.tokens - 1 - seq.computed) / role.block


@kernel
def finish(s: Any, now: float) -> int:
    """Take the flow that ends now off the network; returns its serving sequence."""
    w = s.world[0]
    best = 0
    least = np.inf
    for f in range(w.flows):
        left = (s.flow[f].left - s.flow[f].rate * (now - w.rated_at)) / s.flow[f].rate
        if left < least:
            least = left
            best = f
    q = s.flow[best].seq
    since = w.rated_at
    s.rank[s.seq[w.requests + q].rank].out_flows -= 1
    s.rank[s.seq[q].rank].in_flows -= 1
    w.flows -= 1
    last = s.flow[w.flows]
    s.flow[best].seq, s.flow[best].left, s.flow[best].rate = last.seq, last.left, last.rate
    _rerate(s, now, since)
    return int(q)
