"""The event loop: arrivals, step ends, transfers, leases, and what the router sees and the report samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.simulation.kernels import cache, heap, transfer
from planner.simulation.kernels import state as st
from planner.simulation.kernels.group import complete, end_step, start_step, wake
from planner.simulation.kernels.heap import push
from planner.simulation.kernels.jit import kernel
from planner.simulation.kernels.scheduler import enqueue, make_ready
from planner.simulation.routing.route import route


@kernel
def run(s: Any, max_events: int, margin: int) -> int:
    """Process up to `max_events` events; returns how it stopped (`FINISHED`, `STALLED`, ...).

    `margin`: cache entries that must be free before an event, as one event may create that many.
    """
    w = s.world[0]
    for _ in range(max_events):
        if w.done + w.failed >= w.requests:
            return st.FINISHED
        if w.free_entries < margin:
            return st.NEED_ENTRIES
        if w.quiet_steps > w.quiet_limit:
            return st.LIVELOCK
        t_heap = s.heap[0].t if w.heap_n > 0 else np.inf
        t_arrival = np.inf
        if w.arrived < w.arrivals:
            t_arrival = s.req[s.order[w.arrived]].arrival + w.frontend_s
        now = min(t_heap, t_arrival, w.next_transfer)
        if now == np.inf:
            return st.STALLED
        if now > w.stop_at:
            return st.PAUSED
        _watch(s, now)
        w.now = now
        w.events += 1
        if w.next_transfer <= now:
            _transferred(s, transfer.finish(s, now), now)
        elif t_heap <= now:
            kind, arg = heap.pop(s)
            if kind == st.STEP_END:
                end_step(s, arg, now)
            elif kind == st.TRANSFER_START:
                _start_transfer(s, arg, now)
            elif kind == st.LOAD_DONE:
                make_ready(s, arg)
                wake(s, s.rank[s.seq[arg].rank].group)
            elif kind == st.LEASE_END:
                _lease_end(s, arg, now)
            elif kind == st.RETRY:
                _arrive(s, arg, now)
            else:
                s.req[arg].arrival = now - w.frontend_s
                _arrive(s, arg, now)
        else:
            r = s.order[w.arrived]
            w.arrived += 1
            _arrive(s, r, now)
        for i in range(w.woken):
            start_step(s, s.woken[i], now)
        w.woken = 0
    return st.RUNNING_ON


@kernel
def _arrive(s: Any, r: int, now: float) -> None:
    w = s.world[0]
    req = s.req[r]
    last = s.candidates.shape[1] - 1
    if s.candidates[1, last] == 0 or (w.disaggregated and s.candidates[0, last] == 0):
        # nobody admits requests: a 503, and the client comes back; its clock keeps running
        w.refused += 1
        push(s, now + w.retry_s, st.RETRY, r)
        return
    route(s, r)
    serving = s.seq[r]
    serving.tokens = req.isl
    serving.stop = req.isl + req.osl
    serving.last = -1.0
    if req.prefill >= 0:
        q = w.requests + r
        leg = s.seq[q]
        leg.tokens = req.isl
        leg.stop = req.isl + 1
        leg.last = -1.0
        leg.status = st.WAITING
        enqueue(s, req.prefill, q)
        wake(s, s.rank[req.prefill].group)
    else:
        serving.status = st.WAITING
        enqueue(s, req.serve, r)
        wake(s, s.rank[req.serve].group)


@kernel
def _start_transfer(s: Any, q: int, now: float) -> None:
    w = s.world[0]
    if s.seq[w.requests + q].status != st.PINNED:
        _lost(s, q)  # the lease ran out during the handshake
        return
    s.req[q].moved_from = now
    if s.seq[q].computed >= s.seq[q].tokens - 1:
        _transferred(s, q, now)
    else:
        transfer.begin(s, q, now)


@kernel
def _unpin(s: Any, q: int) -> None:
    leg = s.seq[q]
    s.rank[leg.rank].pinned -= leg.blocks
    cache.release(s, leg.rank, s.req[q - s.world[0].requests], leg)


@kernel
def _transferred(s: Any, q: int, now: float) -> None:
    """The serving rank has pulled the prompt's KV: release the source, let the sequence run."""
    w = s.world[0]
    source = w.requests + q
    seq = s.seq[q]
    s.req[q].moved_to = now
    if s.seq[source].status == st.PINNED:
        _unpin(s, source)
        s.seq[source].status = st.DONE
    seq.computed = seq.tokens - 1
    role = s.role[s.rank[seq.rank].role]
    if role.caching and s.req[q].path_n > 0:
        cache.publish(s, seq.rank, s.req[q], seq, seq.computed // role.block)
    make_ready(s, q)
    wake(s, s.rank[s.seq[source].rank].group)
    wake(s, s.rank[seq.rank].group)


@kernel
def _lease_end(s: Any, source: int, now: float) -> None:
    """A lease is extended while the puller's engine sends heartbeats or the pull runs; otherwise the blocks go."""
    w = s.world[0]
    leg = s.seq[source]
    if leg.status != st.PINNED:
        return
    q = source - w.requests
    role = s.role[s.rank[leg.rank].role]
    pulling = s.seq[q].status == st.LOADING
    if role.heartbeat or pulling:
        push(s, now + role.lease_s * (2.0 / 3.0), st.LEASE_END, source)
        return
    _unpin(s, source)
    leg.status = st.DONE
    s.rank[leg.rank].expired += 1
    if role.recompute_on_expiry:
        s.seq[q].status = st.WAITING
    else:
        _fail(s, q, now)
    wake(s, s.rank[leg.rank].group)
    wake(s, s.rank[s.seq[q].rank].group)


@kernel
def _lost(s: Any, q: int) -> None:
    """The source is gone while blocks are reserved here: recompute in place."""
    s.seq[q].status = st.READY
    make_ready(s, q)
    wake(s, s.rank[s.seq[q].rank].group)


@kernel
def _fail(s: Any, q: int, now: float) -> None:
    """Answer request `q` with an error while it waits in its serving rank's queue."""
    w = s.world[0]
    k = s.seq[q].rank
    rank = s.rank[k]
    previous = -1
    at = rank.head
    while at != q:
        previous = at
        at = s.seq[at].next
    if previous >= 0:
        s.seq[previous].next = s.seq[q].next
    else:
        rank.head = s.seq[q].next
    if rank.tail == q:
        rank.tail = previous
    rank.waiting -= 1
    rank.inflight -= 1
    rank.inflight_tokens -= s.req[q].charge
    s.req[q].charge = 0
    s.req[q].failed = 1
    s.req[q].finish = now
    s.seq[q].status = st.FAILED
    complete(s, q, now)
    w.done -= 1
    w.failed += 1


@kernel
def _watch(s: Any, now: float) -> None:
    """Before the state changes at `now`: refresh what the router scraped, and sample the occupancy series."""
    w = s.world[0]
    if w.scrape_s > 0.0:
        tick = int(now / w.scrape_s)
        if tick > w.scrape_tick:
            w.scrape_tick = tick
            for k in range(w.ranks):
                scrape(s, k)
    tick = int(now / w.sample_s)
    if tick > w.sample_tick:
        _sample(s, tick)


@kernel
def scrape(s: Any, k: int) -> None:
    """Copy the metrics of rank `k` into the router's view."""
    rank = s.rank[k]
    rank.seen_waiting = rank.waiting + rank.ready + rank.loading
    rank.seen_running = rank.running
    rank.seen_usage = 1.0 - cache.available(s, k) / s.pool[k].total


@kernel
def _sample(s: Any, tick: int) -> None:
    w = s.world[0]
    if w.samples == st.SAMPLES:
        for i in range(st.SAMPLES // 2):
            for kind in range(4):
                for j in range(4):
                    s.series[i, kind, j] = s.series[2 * i, kind, j]
        w.samples = st.SAMPLES // 2
        w.sample_s *= 2.0
        tick = tick >> 1
    w.sample_tick = tick
    i = w.samples
    w.samples += 1
    s.series[i, 3, 0] = tick * w.sample_s
    for kind in range(3):
        for j in range(4):
            s.series[i, kind, j] = 0.0
    for k in range(w.ranks):
        rank = s.rank[k]
        kind = s.role[rank.role].kind
        s.series[i, kind, 0] += rank.waiting + rank.ready + rank.loading
        s.series[i, kind, 1] += rank.running
        s.series[i, kind, 2] += s.pool[k].total - cache.available(s, k)
        s.series[i, kind, 3] += s.group[rank.group].stepping
