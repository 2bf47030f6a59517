"""One scheduling pass of one engine rank, after vLLM V1: running requests first, then admissions.

Facts (vLLM 0.33, v1/core/sched/scheduler.py): FCFS; a running request that lacks blocks preempts the youngest running
one, which loses all blocks and goes back to the head of the queue; no admission in a pass that preempted; a prompt is
admitted only if it fits as a whole (``scheduler_reserve_full_isl``); a request whose KV is remote reserves its blocks,
leaves the queue and joins later without counting as running.
"""

from __future__ import annotations

from typing import Any, Final

from planner.simulation.kernels import cache
from planner.simulation.kernels import state as st
from planner.simulation.kernels.heap import push
from planner.simulation.kernels.jit import inlined, kernel
from planner.simulation.kernels.steptime import chunk_core_ms
from planner.simulation.kernels.transfer import setup_s


@inlined
def request_of(s: Any, q: int) -> int:
    """Request that sequence `q` belongs to."""
    n = s.world[0].requests
    return q if q < n else q - n


@kernel
def enqueue(s: Any, k: int, q: int) -> None:
    """Append sequence `q` to the waiting queue of rank `k`.

    Engines look at it only after a number of decode steps (`balance_steps`), as long as they have other work.
    """
    rank = s.rank[k]
    s.seq[q].eligible = s.world[0].now + s.role[rank.role].balance_steps * s.group[rank.group].decode_s
    s.seq[q].rank = k
    s.seq[q].next = -1
    if rank.tail >= 0:
        s.seq[rank.tail].next = q
    else:
        rank.head = q
    rank.tail = q
    rank.waiting += 1


@kernel
def _push_front(s: Any, k: int, q: int) -> None:
    rank = s.rank[k]
    s.seq[q].next = rank.head
    rank.head = q
    if rank.tail < 0:
        rank.tail = q
    rank.waiting += 1


@kernel
def _pop_front(s: Any, k: int) -> int:
    rank = s.rank[k]
    q = rank.head
    rank.head = s.seq[q].next
    if rank.head < 0:
        rank.tail = -1
    rank.waiting -= 1
    return q


@kernel
def make_ready(s: Any, q: int) -> None:
    """The KV of sequence `q` has arrived: it may run from the next pass on."""
    k = s.seq[q].rank
    rank = s.rank[k]
    s.seq[q].status = st.READY
    s.seq[q].next = -1
    if rank.ready_tail >= 0:
        s.seq[rank.ready_tail].next = q
    else:
        rank.ready_head = q
    rank.ready_tail = q
    rank.ready += 1
    rank.loading -= 1


@kernel
def _preempt(s: Any, k: int, q: int) -> None:
    seq = s.seq[q]
    req = s.req[request_of(s, q)]
    if s.role[s.rank[k].role].caching:
        cache.publish(s, k, req, seq, seq.computed // s.pool[k].block)
    cache.release(s, k, req, seq)
    seq.computed = 0
    seq.sched = 0
    seq.status = st.WAITING
    req.preempted += 1
    s.rank[k].preemptions += 1
    _push_front(s, k, q)


@kernel
def _grow(s: Any, k: int, seq: Any, tokens: int) -> bool:
    """Allocate blocks so that `seq` can hold `tokens`; False, and nothing done, when the pool is short."""
    need = (tokens + s.pool[k].block - 1) // s.pool[k].block - seq.blocks
    if need <= 0:
        return True
    if cache.available(s, k) < need:
        return False
    cache.take(s, k, need)
    seq.blocks += need
    seq.private += need
    return True


@inlined
def _note(rank: Any, by_chunk: Any, seq: Any, n: int, drafts: int) -> None:
    """Add `n` scheduled tokens of `seq` to the features of this step."""
    seq.sched = n
    rank.tok += n
    if n <= 1 + drafts and seq.computed > 0:
        rank.dec += 1
        rank.ctx += seq.computed + n
    else:
        rank.prefill_ms += chunk_core_ms(by_chunk, float(n), float(seq.computed))
        rank.prefill_tokens += n
    if seq.computed + n >= seq.tokens:
        rank.sampled += 1


_PROMPTS: Final = 1
_DECODES: Final = 2


@inlined
def schedule(s: Any, k: int, now: float, forced: bool) -> int:
    """Fill the next step of rank `k`; returns the tokens scheduled. Transfers and host loads may start.

    `forced`: the group has nothing else to do, so nobody waits for company. Engines that run prompts in steps of their
    own leave the decodes out of such a step.
    """
    rank = s.rank[k]
    role = s.role[rank.role]
    rank.tok = 0
    rank.dec = 0
    rank.ctx = 0
    rank.sampled = 0
    rank.prefill_ms = 0.0
    budget = role.max_tokens
    preempted = False
    if role.separate:
        budget = _continue(s, k, budget, _PROMPTS)
    else:
        budget = _continue(s, k, budget, _PROMPTS | _DECODES)
    if budget < 0:
        preempted = True
        budget = -budget - 1
    if not preempted and budget > 0 and rank.running < role.max_seqs and rank.ready + rank.waiting > 0:
        _admit(s, k, now, budget, forced)
    if role.separate and rank.prefill_ms == 0.0:
        _continue(s, k, role.max_tokens - rank.tok, _DECODES)
    used = s.pool[k].total - cache.available(s, k)
    rank.peak_used = max(rank.peak_used, used)
    return rank.tok


@inlined
def _continue(s: Any, k: int, budget: int, which: int) -> int:
    """Schedule running sequences: those with a prompt to compute, those that decode, or both.

    Returns the budget left; when somebody was preempted, minus one minus that.
    """
    rank = s.rank[k]
    role = s.role[rank.role]
    by_chunk = s.by_chunk[rank.role]
    preempted = False
    i = 0
    while i < rank.running:
        seq = s.seq[s.run[k, i]]
        todo = seq.tokens - seq.computed
        if seq.sched > 0 or (which & (_DECODES if todo == 1 else _PROMPTS)) == 0:
            i += 1
            continue
        if todo == 1:
            n = 1 + min(role.drafts, seq.stop - seq.tokens - 1) if role.drafts > 0 else 1
        else:
            n = min(todo, role.long_prefill)
        n = min(n, budget)
        if n <= 0:
            i += 1
            continue
        if seq.computed + n > seq.blocks * role.block:
            here = True
            while not _grow(s, k, seq, seq.computed + n):
                rank.running -= 1
                preempted = True
                victim = s.run[k, rank.running]
                _preempt(s, k, victim)
                if rank.running == i:
                    here = False
                    break
            if not here:
                break
        _note(rank, by_chunk, seq, n, role.drafts)
        budget -= n
        i += 1
    return -1 - budget if preempted else budget


@kernel
def _admit(s: Any, k: int, now: float, budget: int, forced: bool) -> None:
    rank = s.rank[k]
    role = s.role[rank.role]
    by_chunk = s.by_chunk[rank.role]
    while rank.ready > 0 and rank.running < role.max_seqs and budget > 0:
        q = rank.ready_head
        seq = s.seq[q]
        n = min(seq.tokens - seq.computed, budget)
        if not _grow(s, k, seq, seq.computed + n):
            return
        rank.ready_head = seq.next
        if rank.ready_head < 0:
            rank.ready_tail = -1
        rank.ready -= 1
        _start(s, k, q)
        _note(rank, by_chunk, seq, n, role.drafts)
        budget -= n
    while rank.waiting > 0 and rank.running < role.max_seqs and budget > 0:
        q = rank.head
        seq = s.seq[q]
        if not forced and now < seq.eligible:
            return
        req = s.req[request_of(s, q)]
        hit = 0
        if role.caching and req.path_n > 0:
            hit = cache.match(s, k, req, (seq.tokens - 1) // role.block)
        if seq.status == st.WAITING_REMOTE:
            if not _reserve(s, k, q, hit, seq.tokens + 1):
                return
            _pop_front(s, k)
            seq.status = st.LOADING
            rank.loading += 1
            push(s, now + setup_s(s, q), st.TRANSFER_START, q)
            continue
        found = hit
        if role.host_bytes_s > 0.0 and req.path_n > 0:
            found = max(hit, cache.match(s, s.world[0].ranks + k, req, (seq.tokens - 1) // role.block))
        todo = seq.tokens - found * role.block
        n = min(todo, role.long_prefill, budget)
        whole = seq.tokens if role.reserve_full else found * role.block + n
        if found > hit:
            if not _reserve(s, k, q, hit, whole):
                return
            _pop_front(s, k)
            seq.status = st.LOADING
            rank.loading += 1
            rank.queried += seq.tokens
            rank.hits += hit * role.block
            rank.host_hits += (found - hit) * role.block
            seq.computed = found * role.block
            begin = max(now, rank.host_free_at)
            rank.host_free_at = begin + (found - hit) * role.block * role.kv_bytes / role.host_bytes_s
            push(s, rank.host_free_at, st.LOAD_DONE, q)
            _count_hit(s, q, found * role.block)
            continue
        if not _fits(s, k, q, hit, whole):
            return
        _pop_front(s, k)
        cache.acquire(s, k, req, seq, hit)
        seq.computed = hit * role.block
        rank.queried += seq.tokens
        rank.hits += seq.computed
        _count_hit(s, q, seq.computed)
        _grow(s, k, seq, seq.computed + n)
        _start(s, k, q)
        _note(rank, by_chunk, seq, n, role.drafts)
        budget -= n


@kernel
def _count_hit(s: Any, q: int, tokens: int) -> None:
    req = s.req[request_of(s, q)]
    if q < s.world[0].requests:
        req.hit += tokens
    else:
        req.hit_prefill += tokens


@kernel
def _start(s: Any, k: int, q: int) -> None:
    rank = s.rank[k]
    s.seq[q].status = st.RUNNING
    s.run[k, rank.running] = q
    rank.running += 1


@kernel
def _fits(s: Any, k: int, q: int, hit: int, tokens: int) -> bool:
    """Whether the pool holds `tokens` of sequence `q`, `hit` blocks of which are cached.

    Engines that never evict a running request ask for room for the whole answer, beside what they promised to others.
    """
    block = s.pool[k].block
    need = (tokens + block - 1) // block - hit
    seq = s.seq[q]
    req = s.req[request_of(s, q)]
    if s.role[s.rank[k].role].reserve_answer:
        need = max(need, (seq.stop + block - 1) // block - hit)
        for i in range(s.rank[k].running):
            other = s.seq[s.run[k, i]]
            need += max((other.stop + block - 1) // block - other.blocks, 0)
    idle = cache.matched_unused(s, k, req, hit) if hit > 0 else 0
    return bool(cache.available(s, k) - idle >= need)


@kernel
def _reserve(s: Any, k: int, q: int, hit: int, tokens: int) -> bool:
    """Hold `hit` cached blocks and allocate the rest of `tokens` for KV that is about to arrive."""
    req = s.req[request_of(s, q)]
    seq = s.seq[q]
    if not _fits(s, k, q, hit, tokens):
        return False
    cache.acquire(s, k, req, seq, hit)
    seq.computed = hit * s.pool[k].block
    _grow(s, k, seq, tokens)
    return True
