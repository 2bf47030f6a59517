"""Block pools and the prefix cache, as runs of blocks along a radix tree.

A prompt is a path of tree nodes (shared system prompt, session, trace segment). A pool holds, per node, a *run*: the
first `blocks` blocks of that node's stretch. Because prompts split exactly at node borders, a whole run is touched and
released at once; evicting a run from its end therefore equals vLLM's block-wise LRU (suffixes go before prefixes), and
one list operation stands for hundreds of blocks. The same code keeps three kinds of pool: GPU blocks, the host tier and
the router's approximate index.

Invariant of every pool: free + (private blocks of live sequences) + (blocks of all runs) = total.
"""

from __future__ import annotations

from typing import Any

from planner.simulation.kernels.jit import inlined, kernel
from planner.simulation.kernels.rng import mix


@kernel
def _home(node: int, pool: int, mask: int) -> int:
    return mix(int(node) * 31 + int(pool) * 0x9E3779) & mask


@kernel
def find(s: Any, pool: int, node: int) -> int:
    """Run of `node` in `pool`, or -1."""
    mask = len(s.table) - 1
    slot = _home(node, pool, mask)
    while True:
        e = s.table[slot]
        if e < 0:
            return -1
        if s.entry[e].node == node and s.entry[e].pool == pool:
            return e
        slot = (slot + 1) & mask


@kernel
def _insert(s: Any, pool: int, node: int) -> int:
    w = s.world[0]
    e = w.free_entry
    entry = s.entry[e]
    w.free_entry = entry.next
    w.free_entries -= 1
    entry.pool = pool
    entry.node = node
    entry.blocks = 0
    entry.ref = 0
    entry.prev = -1
    entry.next = -1
    entry.near = -1
    entry.far = s.node_head[node]
    if entry.far >= 0:
        s.entry[entry.far].near = e
    s.node_head[node] = e
    index(s, e)
    return e


@kernel
def index(s: Any, e: int) -> None:
    """Enter run `e` into the hash table."""
    mask = len(s.table) - 1
    slot = _home(s.entry[e].node, s.entry[e].pool, mask)
    while s.table[slot] >= 0:
        slot = (slot + 1) & mask
    s.table[slot] = e


@kernel
def _remove(s: Any, e: int) -> None:
    entry = s.entry[e]
    mask = len(s.table) - 1
    hole = _home(entry.node, entry.pool, mask)
    while s.table[hole] != e:
        hole = (hole + 1) & mask
    # close the gap, so that probing never meets a tombstone
    slot = hole
    while True:
        slot = (slot + 1) & mask
        other = s.table[slot]
        if other < 0:
            break
        home = _home(s.entry[other].node, s.entry[other].pool, mask)
        if ((slot - home) & mask) >= ((slot - hole) & mask):
            s.table[hole] = other
            hole = slot
    s.table[hole] = -1
    if entry.near >= 0:
        s.entry[entry.near].far = entry.far
    else:
        s.node_head[entry.node] = entry.far
    if entry.far >= 0:
        s.entry[entry.far].near = entry.near
    w = s.world[0]
    entry.next = w.free_entry
    w.free_entry = e
    w.free_entries += 1


@kernel
def _unlink(s: Any, e: int) -> None:
    """Take run `e` out of its pool's LRU list: it is in use."""
    entry = s.entry[e]
    pool = s.pool[entry.pool]
    if entry.prev >= 0:
        s.entry[entry.prev].next = entry.next
    else:
        pool.head = entry.next
    if entry.next >= 0:
        s.entry[entry.next].prev = entry.prev
    else:
        pool.tail = entry.prev
    entry.prev = -1
    entry.next = -1
    pool.evictable -= entry.blocks


@kernel
def _append(s: Any, e: int) -> None:
    """Put run `e` at the young end of its pool's LRU list."""
    entry = s.entry[e]
    pool = s.pool[entry.pool]
    entry.prev = pool.tail
    entry.next = -1
    if pool.tail >= 0:
        s.entry[pool.tail].next = e
    else:
        pool.head = e
    pool.tail = e
    pool.evictable += entry.blocks


@inlined
def available(s: Any, pool: int) -> int:
    """Blocks that can be allocated: free ones and cached ones nobody uses."""
    return s.pool[pool].free + s.pool[pool].evictable


@kernel
def take(s: Any, pool: int, count: int) -> None:
    """Allocate `count` available blocks, evicting the oldest unused runs from their ends."""
    p = s.pool[pool]
    while p.free < count:
        e = p.head
        entry = s.entry[e]
        gone = min(count - p.free, entry.blocks)
        entry.blocks -= gone
        p.evictable -= gone
        p.free += gone
        p.evicted += gone
        if entry.blocks == 0:
            _unlink(s, e)
            _remove(s, e)
    p.free -= count


@kernel
def _node_end(s: Any, req: Any, i: int, block: int, limit: int) -> int:
    """Block at which the `i`-th node of the prompt ends; a session's own node grows with its answers."""
    if i == req.path_n - 1 and req.session >= 0:
        return limit
    return min(s.path[req.path + i, 1] // block, limit)


@kernel
def match(s: Any, pool: int, req: Any, limit: int) -> int:
    """Blocks of the request's tokens found in `pool`, at most `limit`."""
    block = s.pool[pool].block
    begin = 0
    for i in range(req.path_n):
        end = _node_end(s, req, i, block, limit)
        if end <= begin:
            continue
        e = find(s, pool, s.path[req.path + i, 0])
        if e < 0:
            return begin
        held = s.entry[e].blocks
        if held < end - begin:
            return begin + held
        begin = end
    return begin


@kernel
def matched_unused(s: Any, pool: int, req: Any, hit: int) -> int:
    """Blocks that stop being evictable when a prompt with `hit` matched blocks takes hold of its runs."""
    block = s.pool[pool].block
    begin = 0
    idle = 0
    for i in range(req.path_n):
        if begin >= hit:
            break
        end = _node_end(s, req, i, block, hit)
        e = find(s, pool, s.path[req.path + i, 0])
        if e >= 0 and s.entry[e].ref == 0:
            idle += s.entry[e].blocks
        begin = max(begin, end)
    return idle


@kernel
def _hold(s: Any, pool: int, node: int) -> int:
    e = find(s, pool, node)
    if e < 0:
        e = _insert(s, pool, node)
    elif s.entry[e].ref == 0:
        _unlink(s, e)
    s.entry[e].ref += 1
    return e


@kernel
def acquire(s: Any, pool: int, req: Any, seq: Any, hit: int) -> None:
    """Hold the runs behind the first `hit` blocks; `seq` must hold nothing yet."""
    block = s.pool[pool].block
    begin = 0
    for i in range(req.path_n):
        if begin >= hit:
            break
        end = _node_end(s, req, i, block, hit)
        _hold(s, pool, s.path[req.path + i, 0])
        seq.refs = i + 1
        begin = max(begin, end)
    seq.blocks = hit


@kernel
def publish(s: Any, pool: int, req: Any, seq: Any, upto: int) -> None:
    """Make the first `upto` full blocks of `seq` findable; what it computed privately becomes part of the runs.

    Blocks that another sequence published meanwhile stay private duplicates until release.
    """
    block = s.pool[pool].block
    begin = 0
    for i in range(req.path_n):
        if begin >= upto:
            break
        end = _node_end(s, req, i, block, upto)
        node = s.path[req.path + i, 0]
        if i >= seq.refs:
            e = _hold(s, pool, node)
            seq.refs = i + 1
        else:
            e = find(s, pool, node)
        more = min(end - begin - s.entry[e].blocks, seq.private)
        if more > 0:
            s.entry[e].blocks += more
            seq.private -= more
        begin = max(begin, end)


@kernel
def release(s: Any, pool: int, req: Any, seq: Any) -> None:
    """Give back everything `seq` holds: private blocks become free, runs become evictable, suffixes first."""
    for i in range(seq.refs - 1, -1, -1):
        e = find(s, pool, s.path[req.path + i, 0])
        s.entry[e].ref -= 1
        if s.entry[e].ref == 0:
            if s.entry[e].blocks == 0:
                _remove(s, e)
            else:
                _append(s, e)
    s.pool[pool].free += seq.private
    seq.private = 0
    seq.refs = 0
    seq.blocks = 0


@kernel
def remember(s: Any, pool: int, req: Any, seq: Any, upto: int) -> int:
    """Note the first `upto` blocks of the prompt in a pool that nobody computes in (host tier, router index).

    `seq` is scratch that holds nothing. Returns the blocks that were new. Evicts as needed; stops when the pool is full.
    """
    hit = match(s, pool, req, upto)
    acquire(s, pool, req, seq, hit)
    more = min(upto - hit, available(s, pool))
    if more > 0:
        take(s, pool, more)
        seq.private = more
        publish(s, pool, req, seq, hit + more)
    release(s, pool, req, seq)
    return max(more, 0)
