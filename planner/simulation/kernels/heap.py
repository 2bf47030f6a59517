"""Binary heap of events, ordered by (time, kind, serial number)."""

from __future__ import annotations

from typing import Any

from planner.simulation.kernels.jit import kernel

_KIND_BITS = 56


@kernel
def _before(heap: Any, a: int, b: int) -> bool:
    if heap[a].t != heap[b].t:
        return heap[a].t < heap[b].t
    return heap[a].key < heap[b].key


@kernel
def _swap(heap: Any, a: int, b: int) -> None:
    t, key, arg = heap[a].t, heap[a].key, heap[a].arg
    heap[a].t, heap[a].key, heap[a].arg = heap[b].t, heap[b].key, heap[b].arg
    heap[b].t, heap[b].key, heap[b].arg = t, key, arg


@kernel
def push(s: Any, t: float, kind: int, arg: int) -> None:
    """Schedule an event of `kind` at time `t`."""
    w = s.world[0]
    i = w.heap_n
    w.heap_n += 1
    w.serial += 1
    s.heap[i].t = t
    s.heap[i].key = (kind << _KIND_BITS) | w.serial
    s.heap[i].arg = arg
    while i > 0 and _before(s.heap, i, (i - 1) >> 1):
        _swap(s.heap, i, (i - 1) >> 1)
        i = (i - 1) >> 1


@kernel
def pop(s: Any) -> tuple[int, int]:
    """Remove the earliest event; returns its kind and argument."""
    w = s.world[0]
    kind = s.heap[0].key >> _KIND_BITS
    arg = s.heap[0].arg
    w.heap_n -= 1
    n = w.heap_n
    _swap(s.heap, 0, n)
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and _before(s.heap, child + 1, child):
            child += 1
        if not _before(s.heap, child, i):
            break
        _swap(s.heap, i, child)
        i = child
    return kind, arg
