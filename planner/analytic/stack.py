"""Many role configurations as stacked arrays, and the time of their steps at many loads at once.

Axis 0 is the configuration, axis 1 the load. Tables are interpolated linearly in log(1 + load), as in L2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.domain.deployment import RolePlan
from planner.perf.balance import expected_max_deviate
from planner.perf.compose import overlapped_gpu_ms, plain_gpu_ms, step_ms
from planner.perf.operators.base import FloatArray
from planner.perf.tables import BATCH, CHUNK, CONTEXT, PREFIX, TOKENS, StepTables

BATCH_SPREAD = 0.5  # requests by which ranks differ under in-flight balancing (standard deviation)


def interpolate(grid: FloatArray, table: FloatArray, load: FloatArray) -> FloatArray:
    """Rows of `table` ([C, len(grid)]) at `load` ([C, L]); linear in log1p, clamped below, extended above."""
    position = np.log1p(grid)
    x = np.log1p(np.maximum(load, 0.0))
    hi = np.clip(np.searchsorted(position, x), 1, len(grid) - 1)
    lo = hi - 1
    weight = np.maximum((x - position[lo]) / (position[hi] - position[lo]), 0.0)
    left = np.take_along_axis(table, lo, axis=1)
    right = np.take_along_axis(table, hi, axis=1)
    inside = left + weight * (right - left)
    # beyond the grid, time grows in proportion to the load
    result: FloatArray = np.where(load > grid[-1], right * np.maximum(load, 1.0) / grid[-1], inside)
    return result


def at_context(table: FloatArray, context: float) -> FloatArray:
    """Slice ``[len(BATCH), len(CONTEXT)]`` at one context, linear in context (attention reads every token)."""
    hi = int(np.clip(np.searchsorted(CONTEXT, context), 1, len(CONTEXT) - 1))
    lo = hi - 1
    weight = (context - CONTEXT[lo]) / (CONTEXT[hi] - CONTEXT[lo])
    weight = max(weight, -CONTEXT[lo] / (CONTEXT[hi] - CONTEXT[lo]))
    result: FloatArray = np.maximum(table[:, lo] + weight * (table[:, hi] - table[:, lo]), 0.0)
    return result


def chunk_rows(table: FloatArray, prefix: float) -> FloatArray:
    """Slice ``[len(CHUNK), len(PREFIX)]`` at one prefix length, linear in the prefix."""
    hi = int(np.clip(np.searchsorted(PREFIX, prefix), 1, len(PREFIX) - 1))
    lo = hi - 1
    weight = (prefix - PREFIX[lo]) / (PREFIX[hi] - PREFIX[lo])
    result: FloatArray = table[:, lo] + weight * (table[:, hi] - table[:, lo])
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLoad:
    """Load of one step, each ``[C, L]``; tokens per DP rank.

    `max_tokens`: of the busiest rank. `mean_tokens`: over the ranks of the group. `sequences`: sampled on a rank.
    `attention_ms`: core attention of the slowest rank.
    """

    max_tokens: FloatArray
    mean_tokens: FloatArray
    sequences: FloatArray
    attention_ms: FloatArray


class RoleStack:
    """Step tables of C configurations, with the quantities that the closed-loop equations need as [C, 1] columns."""

    def __init__(
        self, roles: Sequence[RolePlan], tables: Sequence[StepTables], kv_tokens: Sequence[float]
    ) -> None:
        self.roles = tuple(roles)
        self.tables = tuple(tables)
        self.kv_tokens = _column(kv_tokens)
        self.ranks = _column([r.parallelism.dp for r in roles])
        self.group_gpus = _column([r.parallelism.gpus for r in roles])
        self.max_num_seqs = _column([r.max_num_seqs for r in roles])
        self.budget = _column([r.max_num_batched_tokens for r in roles])
        self.drafts = _column([r.speculation.draft_tokens if r.speculation else 0 for r in roles])
        self.accepted = _column([r.speculation.tokens_per_step if r.speculation else 1.0 for r in roles])
        self._attn_linear = np.stack([t.attn_linear_ms for t in tables])
        self._dense = np.stack([t.dense_mlp_ms for t in tables])
        self._shared = np.stack([t.shared_ms for t in tables])
        self._experts = np.stack([t.experts_ms for t in tables])
        self._dispatch = np.stack([t.dispatch_ms for t in tables])
        self._combine = np.stack([t.combine_ms for t in tables])
        self._collectives = np.stack([t.collectives_ms for t in tables])
        self._collectives_eager = np.stack([t.collectives_eager_ms for t in tables])
        self._head = np.stack([t.head_ms for t in tables])
        self._host_step = _column([t.host_step_ms for t in tables])
        self._host_seq = _column([t.host_per_seq_ms for t in tables])
        self.launch_floor = _column([t.launch_floor_ms for t in tables])
        self.separate = _column([t.separate_prefill for t in tables]) > 0
        self.balance_steps = _column([t.balance_steps for t in tables])
        self.handover_ms = _column([t.handover_ms for t in tables])
        self.frontend_ms = _column([t.frontend_ms for t in tables])
        self._async = _column([t.async_scheduling for t in tables]) > 0
        self._share = _column([t.moe_layer_share for t in tables])
        self._dbo = _column([t.dbo is not None for t in tables]) > 0
        self._dbo_decode = _column([t.dbo.decode_threshold if t.dbo else np.inf for t in tables])
        self._dbo_prefill = _column([t.dbo.prefill_threshold if t.dbo else np.inf for t in tables])
        self._dbo_sm = _column([t.dbo.comm_sm_share if t.dbo else 0.0 for t in tables])
        self._dbo_sync = _column([t.dbo.sync_ms if t.dbo else 0.0 for t in tables])
        self._decode_attn: dict[float, FloatArray] = {}
        self._prefill_attn: dict[float, FloatArray] = {}

    def __len__(self) -> int:
        return len(self.roles)

    # --- attention ---

    def decode_attention_ms(self, batch: FloatArray, context: float, context_cv: float) -> FloatArray:
        """Core attention of the slowest of the group's ranks, `batch` sequences of mean length `context` each.

        `context_cv`: coefficient of variation of one sequence's length; the slowest rank holds the longest sum.
        """
        if context not in self._decode_attn:
            self._decode_attn[context] = np.stack(
                [at_context(t.decode_attn_ms, context) for t in self.tables]
            )
        mean = interpolate(BATCH, self._decode_attn[context], batch)
        peak = np.array([[expected_max_deviate(int(r))] for r in self.ranks[:, 0]])
        spread = np.sqrt(
            context_cv**2 / np.maximum(batch, 1.0) + (BATCH_SPREAD / np.maximum(batch, 1.0)) ** 2
        )
        result: FloatArray = mean * (1.0 + peak * np.minimum(spread, 0.5))
        return result

    def prefill_attention_ms(self, chunk: FloatArray, prefix: float) -> FloatArray:
        """Core attention of one sequence's chunk of `chunk` tokens after `prefix` tokens."""
        if prefix not in self._prefill_attn:
            self._prefill_attn[prefix] = np.stack(
                [chunk_rows(t.prefill_attn_ms, prefix) for t in self.tables]
            )
        return interpolate(CHUNK, self._prefill_attn[prefix], chunk)

    # --- whole steps ---

    def step_ms(self, load: StepLoad, *, prefill: bool) -> FloatArray:
        """Step time [C, L]. `prefill` steps run collectives eagerly and use the prefill DBO threshold."""
        host = self._host_step + self._host_seq * load.sequences
        gpu = self._plain(load, prefill=prefill)
        if self._dbo.any():
            threshold = self._dbo_prefill if prefill else self._dbo_decode
            votes = self._dbo & (load.max_tokens >= threshold) & (load.mean_tokens > 0.5 * load.max_tokens)
            gpu = np.where(votes, self._overlapped(load, prefill=prefill), gpu)
        if prefill:
            gpu = np.maximum(gpu, self.launch_floor)
        serial = step_ms(gpu, host, False)
        hidden = step_ms(gpu, host, True)
        result: FloatArray = np.where(self._async, hidden, serial)
        return result

    def terms_ms(self, load: StepLoad, *, prefill: bool) -> dict[str, FloatArray]:
        """The parts of `_plain` by name, for breakdowns."""
        collectives = self._collectives_eager if prefill else self._collectives
        return {
            "attention": load.attention_ms,
            "attn_linear": interpolate(TOKENS, self._attn_linear, load.max_tokens),
            "dense_mlp": interpolate(TOKENS, self._dense, load.max_tokens),
            "shared": interpolate(TOKENS, self._shared, load.max_tokens),
            "experts": interpolate(TOKENS, self._experts, load.mean_tokens),
            "dispatch": interpolate(TOKENS, self._dispatch, load.max_tokens),
            "combine": interpolate(TOKENS, self._combine, load.max_tokens),
            "collectives": interpolate(TOKENS, collectives, load.max_tokens),
            "head": interpolate(TOKENS, self._head, load.sequences),
        }

    def _plain(self, load: StepLoad, *, prefill: bool) -> FloatArray:
        result: FloatArray = np.asarray(plain_gpu_ms(**self.terms_ms(load, prefill=prefill)))
        return result

    def _overlapped(self, load: StepLoad, *, prefill: bool) -> FloatArray:
        half = StepLoad(
            max_tokens=load.max_tokens / 2.0,
            mean_tokens=load.mean_tokens / 2.0,
            sequences=load.sequences,
            attention_ms=load.attention_ms / 2.0,
        )
        terms = self.terms_ms(half, prefill=prefill)
        # communication kernels take SMs away from compute while they overlap
        slower = 1.0 / (1.0 - self._dbo_sm)
        for name in ("attention", "attn_linear", "shared", "experts"):
            terms[name] = terms[name] * slower
        result: FloatArray = np.asarray(
            overlapped_gpu_ms(**terms, moe_layer_share=self._share, sync=self._dbo_sync)
        )
        return result


def _column(values: Sequence[float] | Sequence[bool] | Sequence[int]) -> FloatArray:
    return np.asarray(values, dtype=np.float64)[:, None]
