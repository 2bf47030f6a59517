"""Time of one lockstep step from the same tables and the same composition as the analytic model."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.perf import compose
from planner.perf.tables import CHUNK, CONTEXT, PREFIX, TOKENS
from planner.simulation.kernels import state as st
from planner.simulation.kernels.jit import inlined, kernel

LOG_TOKENS = np.log1p(TOKENS)
LOG_CHUNK = np.log1p(CHUNK)

_plain = kernel(compose.plain_gpu_ms)
_overlapped = kernel(compose.overlapped_gpu_ms)


@inlined
def locate(grid: Any, y: float) -> tuple[int, float]:
    """Cell of `y` on the ascending `grid` and its weight there; outside, the nearest cell's line is extended."""
    low = 0
    high = len(grid) - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if grid[middle] < y:
            low = middle
        else:
            high = middle
    return low, (y - grid[low]) / (grid[low + 1] - grid[low])


@inlined
def along(row: Any, i: int, w: float) -> float:
    """Linear interpolation in cell `i` with weight `w`."""
    return row[i] + (row[i + 1] - row[i]) * w


@inlined
def by_load(row: Any, i: int, w: float, load: float, largest: float) -> float:
    """A table at a load located at (`i`, `w`): clamped below the grid, proportional to the load above it."""
    if load > largest:
        return row[len(row) - 1] * load / largest
    return along(row, i, max(w, 0.0))


@inlined
def decode_core_ms(by_decode: Any, batch: int, context: float) -> float:
    """Core attention of `batch` decoding sequences of mean length `context`; rows of `by_decode` are batch 0, 1, 2, ...

    Linear in the context, as attention reads every token.
    """
    if batch <= 0:
        return 0.0
    i, w = locate(CONTEXT, context)
    return max(along(by_decode[batch], i, w), 0.0)


@kernel
def chunk_core_ms(by_chunk: Any, chunk: float, prefix: float) -> float:
    """Core attention of one prefill chunk of `chunk` tokens after `prefix` cached ones."""
    i, w = locate(LOG_CHUNK, np.log1p(chunk))
    j, v = locate(PREFIX, prefix)
    right = along(by_chunk[i + 1], j, v)
    if chunk > CHUNK[-1]:
        return right * chunk / CHUNK[-1]
    left = along(by_chunk[i], j, v)
    return left + (right - left) * max(w, 0.0)


@inlined
def graph_tokens(tokens: int, largest: int) -> int:
    """Tokens after padding to vLLM's captured sizes: 1, 2, 4, multiples of 8 to 256, then of 16 up to `largest`."""
    if tokens > largest or tokens <= 2:
        return tokens
    if tokens <= 4:
        return 4
    if tokens <= 256:
        return (tokens + 7) // 8 * 8
    return min((tokens + 15) // 16 * 16, largest)


@kernel
def device_ms(
    by_tokens: Any, role: Any, core_ms: float, tokens: float, mean_tokens: float, sampled: float, eager: bool,
    overlapped: bool, scale: float,
) -> float:  # fmt: skip
    """Device time of a step.

    `core_ms`: core attention of the slowest rank; `tokens`: of the largest rank; `mean_tokens`: over the group, which
    is what the experts see; `scale`: expert imbalance relative to what the tables assume. Under overlap all of these
    are those of half the batch, except `sampled` (sequences with a token to sample).
    """
    top = TOKENS[-1]
    i, w = locate(LOG_TOKENS, np.log1p(tokens))
    e, v = locate(LOG_TOKENS, np.log1p(mean_tokens))
    h, u = locate(LOG_TOKENS, np.log1p(sampled))
    linear = by_load(by_tokens[st.ATTN_LINEAR], i, w, tokens, top)
    dense = by_load(by_tokens[st.DENSE_MLP], i, w, tokens, top)
    shared = by_load(by_tokens[st.SHARED], i, w, tokens, top)
    experts = by_load(by_tokens[st.EXPERTS], e, v, mean_tokens, top) * scale
    dispatch = by_load(by_tokens[st.DISPATCH], i, w, tokens, top) * scale
    combine = by_load(by_tokens[st.COMBINE], i, w, tokens, top) * scale
    collectives = by_load(by_tokens[st.COLLECTIVES_EAGER if eager else st.COLLECTIVES], i, w, tokens, top)
    head = by_load(by_tokens[st.HEAD], h, u, sampled, top)
    if overlapped:
        # kernels of the exchange take a share of the SMs away from compute while they overlap
        slower = 1.0 / (1.0 - role.dbo_sm_share)
        return _overlapped(  # type: ignore[return-value]
            core_ms * slower, linear * slower, dense, shared * slower, experts * slower, dispatch, combine,
            collectives, head, role.moe_share, role.dbo_sync_ms,
        )  # fmt: skip
    return _plain(  # type: ignore[return-value]
        core_ms, linear, dense, shared, experts, dispatch, combine, collectives, head
    )


@inlined
def group_step_s(s: Any, g: int) -> float:
    """Duration of the step that group `g` has just scheduled, in seconds; notes straggler and overlap statistics.

    The group's ranks step together: every rank pads to the largest batch inside CUDA graphs, idle ranks run a
    dummy token, and all wait for the slowest core attention.
    """
    group = s.group[g]
    role = s.role[group.role]
    by_tokens = s.by_tokens[group.role]
    by_decode = s.by_decode[group.role]
    n = group.end - group.first
    most = 1
    least = 1 << 30
    total = 0
    sampled = 1
    seqs = 0
    eager = False
    idle = 0
    slowest = 0.0
    core_sum = 0.0
    for k in range(group.first, group.end):
        r = s.rank[k]
        most = max(most, r.tok)
        least = min(least, r.tok)
        sampled = max(sampled, r.sampled)
        seqs = max(seqs, r.running)
        total += max(r.tok, 1)
        if r.tok == 0:
            idle += 1
        core = r.prefill_ms
        if r.dec > 0:
            core += decode_core_ms(by_decode, r.dec, r.ctx / r.dec)
        if r.prefill_ms > 0.0:
            eager = True
        r.core_ms = core
        core_sum += core
        slowest = max(slowest, core)
    tokens = most if eager else graph_tokens(most, role.graph_max)
    overlapped = False
    if role.dbo:
        threshold = role.dbo_prefill if eager else role.dbo_decode
        overlapped = idle == 0 and least >= threshold and tokens // 2 < least
    if overlapped:
        gpu = device_ms(
            by_tokens, role, 0.5 * slowest, 0.5 * tokens, 0.5 * total / n, float(sampled), eager, True,
            group.experts_scale,
        )  # fmt: skip
        group.dbo_steps += 1
    else:
        gpu = device_ms(
            by_tokens,
            role,
            slowest,
            float(tokens),
            total / n,
            float(sampled),
            eager,
            False,
            group.experts_scale,
        )
    if eager:
        gpu = max(gpu, role.launch_ms)  # no CUDA graph covers a prompt: the host launches layer by layer
    host = role.host_step_ms + role.host_per_seq_ms * seqs
    duration = (max(gpu, host) if role.async_host else gpu + host) * 1e-3
    group.dummy += idle
    group.straggler_s += (slowest - core_sum / n) * 1e-3
    group.with_prefill = eager
    return duration
