"""The simulator's step time against the analytic model's, from the same tables."""

from __future__ import annotations

import builders as b
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from planner.analytic.stack import RoleStack, StepLoad, at_context, chunk_rows, interpolate
from planner.domain.deployment import Parallelism, Role, RolePlan
from planner.domain.dtypes import KvDtype
from planner.perf.tables import BATCH, CHUNK, TOKENS, DboRule
from planner.simulation.build import build_state
from planner.simulation.kernels import steptime
from planner.simulation.traffic import make_traffic, single

DBO = DboRule(decode_threshold=32, prefill_threshold=512, comm_sm_share=0.15, sync_ms=0.4)


def stack_of(tables: object) -> RoleStack:
    plan = RolePlan(
        role=Role.DECODE, groups=1, parallelism=Parallelism(dp=4, expert_parallel=True), gpu="x", node="x",
        max_num_seqs=1024, max_num_batched_tokens=8192, kv_dtype=KvDtype.FP8,
    )  # fmt: skip
    return RoleStack([plan], [tables], [1e6])  # type: ignore[list-item]


@settings(max_examples=60, deadline=None)
@given(
    tokens=some.lists(some.integers(1, 600), min_size=4, max_size=4),
    context=some.integers(1, 200_000),
    chunk=some.sampled_from([0, 300, 5000, 70_000]),
    prefix=some.integers(0, 600_000),
    dbo=some.booleans(),
    overlapping_host=some.booleans(),
)
def test_agrees_with_the_analytic_step(
    tokens: list[int], context: int, chunk: int, prefix: int, dbo: bool, overlapping_host: bool
) -> None:
    tables = b.tables(dbo=DBO if dbo else None, async_scheduling=overlapping_host)
    cluster = b.aggregated(tables=tables, max_num_seqs=4096, graph_max_tokens=0)
    state = build_state(cluster, make_traffic(single(10, 2), sessions=1, seed=0, concurrency=1), seed=0)
    chunk_ms = 0.0
    if chunk:
        chunk_ms = float(
            interpolate(CHUNK, chunk_rows(tables.prefill_attn_ms, prefix)[None, :], np.array([[chunk]]))[0, 0]
        )
        assert steptime.chunk_core_ms(state.by_chunk[0], float(chunk), float(prefix)) == pytest.approx(
            chunk_ms, rel=1e-9
        )
    cores = []
    for k, n in enumerate(tokens):
        r = state.rank[k]
        r.dec = r.sampled = r.running = n
        r.ctx = n * context
        r.tok = n + (chunk if k == 0 else 0)
        r.prefill_ms = chunk_ms if k == 0 else 0.0
        decode = interpolate(
            BATCH, at_context(tables.decode_attn_ms, float(context))[None, :], np.array([[n]])
        )[0, 0]
        cores.append(decode + r.prefill_ms)
    total = [r.tok for r in state.rank]
    load = StepLoad(
        max_tokens=np.array([[float(max(total))]]),
        mean_tokens=np.array([[float(np.mean(total))]]),
        sequences=np.array([[float(max(tokens))]]),
        attention_ms=np.array([[float(max(cores))]]),
    )
    stack = stack_of(tables)
    mine = steptime.group_step_s(state, 0) * 1e3
    vote = state.group[0].dbo_steps == 1
    expected = float(stack.step_ms(load, prefill=bool(chunk))[0, 0])
    if dbo and vote != bool(max(total) >= (512 if chunk else 32) and np.mean(total) > 0.5 * max(total)):
        # the vote needs every rank over the threshold and a non-empty second half; the mean-value model sees the mean
        expected = float(
            stack_of(b.tables(async_scheduling=overlapping_host)).step_ms(load, prefill=bool(chunk))[0, 0]
        )
    assert mine == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("tokens", "votes"),
    [
        ((40, 40, 40, 40), True),
        ((40, 40, 40, 0), False),
        ((40, 31, 40, 40), False),
        ((90, 40, 90, 90), False),
    ],
)
def test_one_rank_can_veto_overlap(tokens: tuple[int, ...], votes: bool) -> None:
    """An idle rank, one below the threshold, or one whose second half would be empty cancels DBO for all."""
    cluster = b.aggregated(tables=b.tables(dbo=DBO))
    state = build_state(cluster, make_traffic(single(10, 2), sessions=1, seed=0, concurrency=1), seed=0)
    for r, n in zip(state.rank, tokens, strict=True):
        r.tok = r.dec = r.running = n
        r.ctx = 100 * n
    steptime.group_step_s(state, 0)
    assert bool(state.group[0].dbo_steps) is votes


@pytest.mark.parametrize(("tokens", "padded"), [(1, 1), (3, 4), (5, 8), (250, 256), (257, 272), (513, 513)])
def test_padding_to_captured_graphs(tokens: int, padded: int) -> None:
    assert steptime.graph_tokens(tokens, 512) == padded


def test_imbalance_scales_experts_and_exchange_only() -> None:
    cluster = b.aggregated()
    state = build_state(cluster, make_traffic(single(10, 2), sessions=1, seed=0, concurrency=1), seed=0)
    for r in state.rank:
        r.tok = r.dec = r.running = 64
        r.ctx = 64 * 1000
    balanced = steptime.group_step_s(state, 0)
    state.group[0].experts_scale = 1.5
    tables = b.tables()
    sixty_four = int(np.flatnonzero(TOKENS == 64)[0])
    extra = 0.5 * (tables.experts_ms[sixty_four] + tables.dispatch_ms[0] + tables.combine_ms[0])
    assert steptime.group_step_s(state, 0) - balanced == pytest.approx(extra * 1e-3, rel=1e-9)
