"""A DP group as one stepping entity: all ranks schedule, the slowest sets the pace, all emit together."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.simulation.kernels import cache, rng
from planner.simulation.kernels import state as st
from planner.simulation.kernels.heap import push
from planner.simulation.kernels.jit import inlined, kernel
from planner.simulation.kernels.scheduler import enqueue, request_of, schedule
from planner.simulation.kernels.steptime import group_step_s


@kernel
def wake(s: Any, g: int) -> None:
    """Group `g` may have work now: the event loop tries to start a step once the current event is dealt with."""
    group = s.group[g]
    if group.stepping or group.woken:
        return
    w = s.world[0]
    group.woken = 1
    s.woken[w.woken] = g
    w.woken += 1


@inlined
def start_step(s: Any, g: int, now: float) -> None:
    """Start a step of the idle group `g` if any of its ranks has schedulable work."""
    group = s.group[g]
    group.woken = 0
    work = 0
    for k in range(group.first, group.end):
        work += schedule(s, k, now, False)
    if work == 0 and s.role[group.role].balance_steps > 0.0:
        for k in range(group.first, group.end):
            work += schedule(s, k, now, True)
    if work == 0:
        return
    pause = _balance_experts(s, group)
    if group.stall_until > now:  # the engine rebuilds its communicators: no step before that is done
        pause += group.stall_until - now
        group.paused_s += group.stall_until - now
    step = group_step_s(s, g)
    if group.with_prefill == 0:
        group.decode_s = step
    duration = step + pause
    group.stepping = 1
    group.began = now
    group.steps += 1
    group.busy_s += duration
    for k in range(group.first, group.end):
        if s.rank[k].tok > 0:
            s.rank[k].busy_steps += 1
    push(s, now + duration, st.STEP_END, g)


@inlined
def _balance_experts(s: Any, group: Any) -> float:
    """Expert imbalance of this step relative to the tables, under EPLB; returns the pause of a rearrangement.

    The factor is `scale_before` until the first rearrangement, `scale_after` right after one, and drifts back
    with the traffic: the last windows' loads predict the next ones less and less well.
    """
    role = s.role[group.role]
    pause = 0.0
    if role.eplb:
        group.eplb_in -= 1
        group.since_eplb += 1
        if group.eplb_in <= 0:
            group.eplb_in = role.eplb_interval
            group.since_eplb = 0
            group.rearranged += 1
            pause = role.eplb_pause_s
            group.paused_s += pause
    if group.rearranged > 0:
        drifted = 1.0 - np.exp(-group.since_eplb / role.drift_steps)
        group.experts_scale = role.scale_after + (role.scale_before - role.scale_after) * drifted
    else:
        group.experts_scale = role.scale_before
    return pause


@inlined
def gap_bin(gap_s: float) -> int:
    """Histogram bin of an inter-token gap."""
    if gap_s <= st.GAP_LOW_S:
        return 0
    return min(int(np.log10(gap_s / st.GAP_LOW_S) * st.GAP_PER_DECADE) + 1, st.GAP_BINS - 1)


@inlined
def end_step(s: Any, g: int, now: float) -> None:
    """Apply the outputs of the step that ends now; the next one starts if there is work."""
    group = s.group[g]
    group.stepping = 0
    regular = 0
    for k in range(group.first, group.end):
        if s.rank[k].running > 0:
            regular += _apply(s, k, group.began, now)
    if regular > 0:
        s.gaps[gap_bin(now - group.began)] += regular
    wake(s, g)


@kernel
def _accepted(s: Any, q: int, seq: Any, role: Any) -> int:
    """Tokens a verification step yields: one, plus drafts until the first rejection."""
    count = 1
    limit = min(role.drafts, seq.stop - seq.tokens - 1)
    seed = s.world[0].seed
    while count <= limit:
        seq.draws += 1
        if rng.uniform(seed, rng.ACCEPTANCE, int(q), int(seq.draws)) >= role.acceptance:
            # later positions of this step are not reached; their draws are skipped, not reused
            break
        count += 1
    return count


@inlined
def _apply(s: Any, k: int, began: float, now: float) -> int:
    """Outputs of rank `k`; returns how many sequences emitted one step after their previous token."""
    rank = s.rank[k]
    role = s.role[rank.role]
    regular = 0
    kept = 0
    emitted = 0
    for i in range(rank.running):
        q = s.run[k, i]
        seq = s.seq[q]
        n = seq.sched
        seq.sched = 0
        finished = False
        if n > 0:
            todo = seq.tokens - seq.computed
            seq.computed += n
            if seq.computed < seq.tokens:
                _publish_prompt(s, k, q, seq)
            else:
                if todo > 1:
                    _publish_prompt(s, k, q, seq)
                    more = 1
                elif n > 1:
                    more = _accepted(s, q, seq, role)
                else:
                    more = 1
                seq.tokens += more
                seq.computed = seq.tokens - 1
                emitted += more
                if seq.last == began:
                    regular += 1
                elif seq.last >= 0.0:
                    s.gaps[gap_bin(now - seq.last)] += 1.0
                else:
                    _first_token(s, k, q, now)
                seq.last = now
                finished = seq.tokens >= seq.stop
        if finished:
            _finish(s, k, q, now)
        else:
            s.run[k, kept] = q
            kept += 1
    rank.running = kept
    w = s.world[0]
    if emitted > 0:
        w.quiet_steps = 0
    else:
        w.quiet_steps += 1
    if role.kind != st.PREFILL:
        rank.output_tokens += emitted
    return regular


@kernel
def _publish_prompt(s: Any, k: int, q: int, seq: Any) -> None:
    if s.role[s.rank[k].role].caching:
        req = s.req[request_of(s, q)]
        if req.path_n > 0:
            cache.publish(s, k, req, seq, seq.computed // s.pool[k].block)


@kernel
def _first_token(s: Any, k: int, q: int, now: float) -> None:
    """The router learns of the first chunk: the prompt's tokens are no longer in flight."""
    if q < s.world[0].requests:
        req = s.req[q]
        req.first = now
        s.rank[k].inflight_tokens -= req.charge
        req.charge = 0


@kernel
def _finish(s: Any, k: int, q: int, now: float) -> None:
    w = s.world[0]
    seq = s.seq[q]
    r = request_of(s, q)
    req = s.req[r]
    rank = s.rank[k]
    rank.inflight -= 1
    if q >= w.requests:
        # the prefill leg is done: blocks stay pinned until the serving rank has pulled them
        req.prefilled = now
        rank.inflight_tokens -= req.charge_prefill
        req.charge_prefill = 0
        seq.status = st.PINNED
        rank.pinned += seq.blocks
        role = s.role[rank.role]
        if role.lease_s > 0.0:
            push(s, now + role.lease_s, st.LEASE_END, q)
        s.seq[r].status = st.WAITING_REMOTE
        enqueue(s, req.serve, r)
        wake(s, s.rank[req.serve].group)
        return
    _publish_answer(s, k, r, seq)
    cache.release(s, k, req, seq)
    seq.status = st.DONE
    req.finish = now
    rank.requests += 1
    complete(s, r, now)


@kernel
def _publish_answer(s: Any, k: int, r: int, seq: Any) -> None:
    req = s.req[r]
    role = s.role[s.rank[k].role]
    if not role.caching or req.path_n == 0:
        return
    cache.publish(s, k, req, seq, seq.computed // s.pool[k].block)
    if role.host_bytes_s > 0.0:
        scratch = s.seq[len(s.seq) - 1]
        cache.remember(s, s.world[0].ranks + k, req, scratch, req.isl // role.block)


@kernel
def complete(s: Any, r: int, now: float) -> None:
    """Request `r` has left the system: its session or the closed loop issues the next one."""
    w = s.world[0]
    w.done += 1
    req = s.req[r]
    follow = req.follow
    if follow < 0 and w.pool_next < w.pool_end:
        follow = s.pool_order[w.pool_next]
        w.pool_next += 1
    if follow >= 0:
        push(s, now + s.req[follow].think + w.frontend_s, st.ARRIVE, follow)
