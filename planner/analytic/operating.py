"""Where a closed loop of a given concurrency settles, for many configurations and many loads at once.

`closed_loop` gives everything along the decode batch; here the batch is found at which the requests in flight equal the
offered concurrency. Past the admission limit the surplus waits outside and only TTFT grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.analytic.closed_loop import (
    PrefillPoints,
    aggregated_points,
    decode_points,
    prefill_points,
    sequences_that_fit,
    waiting_ms,
)
from planner.analytic.stack import RoleStack
from planner.domain.workload import Workload
from planner.perf.operators.base import BoolArray, FloatArray

GRID_POINTS = 96
SMALLEST_BATCH = 0.02
PREFILL_SATURATION = 0.98
# share of a prefill group's time lost per doubling of its ranks, and per unit of the prompts' length spread
LOST_IN_LOCKSTEP: Final = 0.027
LOST_TO_LENGTHS: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Operating:
    """State at each (configuration, load), all ``[C, K]``.

    `batch`: mean decode batch per rank. `rate_per_ms`: finished requests per ms over all ranks. `waiting`: requests
    outside the engines. `utilisation`: share of time a prefill server works. `surplus`: True past the admission limit.
    """

    batch: FloatArray
    tpot_ms: FloatArray
    ttft_ms: FloatArray
    rate_per_ms: FloatArray
    waiting: FloatArray
    utilisation: FloatArray
    surplus: BoolArray


def batch_grid(stack: RoleStack, per_rank: FloatArray) -> FloatArray:
    """Decode batches per rank up to what each configuration may run, ``[C, GRID_POINTS]``."""
    top = np.maximum(np.minimum(stack.max_num_seqs[:, 0], per_rank.max(axis=1)), 1.0)
    unit = np.linspace(0.0, 1.0, GRID_POINTS)[None, :]
    result: FloatArray = SMALLEST_BATCH * (top[:, None] / SMALLEST_BATCH) ** unit
    return result


def admission_limit(stack: RoleStack, workload: Workload) -> FloatArray:
    """Requests a rank may run, ``[C, 1]``."""
    fits = sequences_that_fit(stack.kv_tokens, workload)
    result: FloatArray = np.maximum(np.minimum(fits, stack.max_num_seqs), 1.0)
    return result


def aggregated_at(
    stack: RoleStack, workload: Workload, *, groups: FloatArray, concurrency: FloatArray
) -> Operating:
    """Aggregated role: `groups` ``[C, 1]`` engine groups, `concurrency` ``[C, K]`` requests over all of them."""
    ranks = stack.ranks * groups
    target = concurrency / ranks
    grid = batch_grid(stack, target)
    at = aggregated_points(stack, workload, grid)
    limit = admission_limit(stack, workload)
    ok = (at.concurrency <= limit) & _rising(at.rate_per_ms)
    ok[:, 0] = True
    reachable = np.where(ok, at.concurrency, 0.0).max(axis=1, keepdims=True)
    batch = _invert(grid, at.concurrency, np.minimum(target, reachable))
    surplus = np.maximum(target - np.maximum(reachable, at.concurrency[:, :1]), 0.0)
    rate = _along(grid, at.rate_per_ms, batch)
    tpot = _along(grid, np.maximum.accumulate(at.tpot_ms, axis=1), batch)
    ttft = _along(grid, at.ttft_ms, batch) + surplus / rate
    return Operating(
        batch=batch,
        tpot_ms=tpot,
        ttft_ms=ttft,
        rate_per_ms=rate * ranks,
        waiting=surplus * ranks,
        utilisation=_along(grid, at.prefill_share, batch),
        surplus=surplus > 0.0,
    )


def disaggregated_at(
    prefill: RoleStack,
    decode: RoleStack,
    workload: Workload,
    *,
    prefill_groups: FloatArray,
    decode_groups: FloatArray,
    transfer_ms: FloatArray,
    concurrency: FloatArray,
) -> Operating:
    """P/D plans: row i pairs prefill i with decode i; group counts and `transfer_ms` are ``[C, 1]``."""
    pre = prefill_points(prefill, workload)
    servers = prefill.ranks * prefill_groups
    ranks = decode.ranks * decode_groups
    grid = batch_grid(decode, concurrency / ranks)
    dec = decode_points(decode, workload, grid)
    demand = dec.rate_per_ms * ranks
    capacity = pre.capacity_per_ms * servers
    used = demand / capacity
    before = prefill_ttft_ms(pre, used, servers) + transfer_ms
    ttft = before + dec.admission_ms
    in_flight = dec.batch * ranks + demand * ttft
    limit = admission_limit(decode, workload)
    ok = (used < PREFILL_SATURATION) & (dec.batch <= limit) & _rising(demand)
    ok[:, 0] = True
    reachable = np.where(ok, in_flight, 0.0).max(axis=1, keepdims=True)
    batch = _invert(grid, in_flight, np.minimum(concurrency, reachable))
    surplus = np.maximum(concurrency - np.maximum(reachable, in_flight[:, :1]), 0.0)
    rate = np.minimum(_along(grid, demand, batch), capacity)
    return Operating(
        batch=batch,
        tpot_ms=_along(grid, np.maximum.accumulate(dec.tpot_ms, axis=1), batch),
        ttft_ms=_along(grid, ttft, batch) + surplus / rate,
        rate_per_ms=rate,
        waiting=surplus,
        utilisation=_along(grid, np.minimum(used, 1.0), batch),
        surplus=surplus > 0.0,
    )


def prefill_ttft_ms(pre: PrefillPoints, utilisation: FloatArray, servers: FloatArray) -> FloatArray:
    """TTFT part of the prefill role at `utilisation`: service, the phase of the group's common step, and the queue.

    A group is a bulk server: whoever arrives during a step waits for its end, and the group steps for a single prompt
    as for many, so it is busy far more often than its capacity is used. `servers`: ranks of all groups. The simulator
    holds these equations to account (tests/analytic/test_prefill_wait.py).
    """
    u = np.minimum(utilisation, PREFILL_SATURATION)
    group = pre.ranks > 1.0
    per_group = u * pre.capacity_per_ms * pre.ranks
    service = pre.idle_ms + (pre.busy_ms - pre.idle_ms) * u
    # the longest of the prompts in a step sets its length
    together = np.clip(per_group * service / pre.chunks, 1.0, pre.ranks)
    service = service * (1.0 + pre.length_cv * np.sqrt(2.0 * np.log(together)))
    step = service / pre.chunks
    arrivals = per_group * step
    phase = np.where(group, 0.5 * step * arrivals / (arrivals + np.exp(-arrivals)), 0.0)
    # steps are as long as the fullest rank's, so ranks with less to do lose time
    lost = (LOST_IN_LOCKSTEP + LOST_TO_LENGTHS * pre.length_cv) * np.log2(pre.ranks)
    wait = waiting_ms(
        service_ms=pre.busy_ms,
        utilisation=np.minimum(u * (1.0 + lost), PREFILL_SATURATION),
        servers=servers * np.sqrt(pre.prompts_per_step),
    )
    result: FloatArray = pre.frontend_ms + service + phase + wait
    return result


def prefill_tokens_held(
    workload: Workload, *, rate_per_ms: FloatArray, before_ms: FloatArray, concurrency: FloatArray
) -> FloatArray:
    """Tokens on all prefill ranks: of prompts until decode has them, or of the conversations that come back.

    Least recently used goes first: a pool short of one prompt of every conversation finds none of them again.
    """
    held: FloatArray = rate_per_ms * before_ms * workload.isl
    return np.maximum(held, concurrency * workload.kept_tokens) if workload.kept_tokens else held


def _rising(rate: FloatArray) -> NDArray[np.bool_]:
    best = np.maximum.accumulate(rate, axis=1)
    return np.asarray(best <= rate + 1e-12, dtype=np.bool_)


def _invert(grid: FloatArray, values: FloatArray, wanted: FloatArray) -> FloatArray:
    """Batch at which the (made monotone) `values` reach `wanted`, row by row, linear in logarithms."""
    monotone = np.log(np.maximum.accumulate(values, axis=1))
    logs = np.log(grid)
    out = np.empty_like(wanted)
    for i in range(len(grid)):
        out[i] = np.exp(np.interp(np.log(wanted[i]), monotone[i], logs[i]))
    return out


def _along(grid: FloatArray, values: FloatArray, batch: FloatArray) -> FloatArray:
    """`values` at `batch`, row by row, linear in log batch."""
    logs = np.log(grid)
    out = np.empty_like(batch)
    for i in range(len(grid)):
        out[i] = np.interp(np.log(batch[i]), logs[i], values[i])
    return out
