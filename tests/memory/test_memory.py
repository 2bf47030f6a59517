"""Properties of the memory model and the size of each term."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.domain.deployment import All2AllBackend, Eplb, Parallelism, Role, Speculation
from planner.domain.dtypes import KvDtype
from planner.domain.model import Indexer, LayerGroup, MlaAttention
from planner.perf.memory import (
    MemoryMode,
    activation_bytes,
    buffer_bytes,
    kv_tokens_per_rank,
    low_latency_buffer_bytes,
    max_concurrency,
    rank_memory,
    weights_per_rank_bytes,
)
from tests.memory import specs

GIB = 2.0**30
MODELS = {
    m.id: m
    for m in (
        specs.deepseek_r1(),
        specs.qwen3_235b(),
        specs.gpt_oss(36, 128),
        specs.gemma4_26b(),
        specs.qwen36_35b(),
        specs.llama31_8b(),
    )
}
models = st.sampled_from(sorted(MODELS))
kv = st.sampled_from(list(KvDtype))
widths = st.sampled_from([(1, 1), (1, 8), (2, 4), (8, 1), (4, 8), (1, 64)])


def _role(model: str, width: tuple[int, int], kv_dtype: KvDtype, **changes: object):
    tp, dp = width
    moe = MODELS[model].moe is not None
    return specs.role(tp=tp, dp=dp if moe else 1, ep=moe and tp * dp > 1, kv=kv_dtype, **changes)


@given(models, widths, kv, st.floats(20, 280), st.floats(0, 100), st.integers(1, 131072))
@settings(max_examples=150, deadline=None)
def test_more_memory_never_holds_fewer_tokens(name, width, kv_dtype, gib, extra, context) -> None:
    role = _role(name, width, kv_dtype)
    small, large = (
        rank_memory(
            MODELS[name],
            role,
            specs.gpu(memory_gib=g),
            specs.engine(),
            ranks_per_domain=8,
            context_tokens=context,
        )
        for g in (gib, gib + extra)
    )
    assert large.kv_tokens_per_rank >= small.kv_tokens_per_rank
    assert large.kv_gib >= small.kv_gib


@given(models, widths, kv, st.integers(1, 131072), st.sampled_from(list(Role)), st.sampled_from([16, 64]))
@settings(max_examples=200, deadline=None)
def test_physical_minimum_never_holds_fewer_tokens(name, width, kv_dtype, context, kind, block) -> None:
    role = _role(name, width, kv_dtype, kind=kind, block_size=block)
    engine_view, physical = (
        rank_memory(
            MODELS[name],
            role,
            specs.gpu(),
            specs.engine(),
            ranks_per_domain=8,
            mode=mode,
            context_tokens=context,
        )
        for mode in (MemoryMode.ENGINE_ALLOCATION, MemoryMode.PHYSICAL_MINIMUM)
    )
    assert physical.kv_tokens_per_rank >= engine_view.kv_tokens_per_rank
    assert physical.kv_bytes_per_token <= engine_view.kv_bytes_per_token * (1 + 1e-12)


@given(models, st.integers(1, 128), st.integers(1, 128), st.integers(0, 64))
@settings(max_examples=150, deadline=None)
def test_wider_expert_parallel_never_holds_more_expert_bytes(name, one, other, redundant) -> None:
    narrow, wide = sorted((one, other))
    sizes = [
        weights_per_rank_bytes(
            MODELS[name],
            Parallelism(dp=n, expert_parallel=True),
            Eplb(redundant_experts=redundant),
        ).experts
        for n in (narrow, wide)
    ]
    assert sizes[1] <= sizes[0]


@given(models, widths, kv)
@settings(max_examples=60, deadline=None)
def test_the_parts_add_up_to_the_device(name, width, kv_dtype) -> None:
    m = rank_memory(
        MODELS[name], _role(name, width, kv_dtype), specs.gpu(), specs.engine(), ranks_per_domain=8
    )
    parts = (
        m.reserved_gib
        + m.weights_attention_gib
        + m.weights_experts_gib
        + m.weights_other_gib
        + m.activations_gib
        + m.graphs_gib
        + m.buffers_gib
        + m.kv_gib
    )
    assert parts == pytest.approx(m.total_gib, abs=1e-6)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_one_rank_holds_the_whole_checkpoint(name: str) -> None:
    model = MODELS[name]
    whole = weights_per_rank_bytes(model, Parallelism(), engine_padding=False)
    assert whole.total == pytest.approx(model.weight_bytes, rel=1e-9)


def test_tp_shards_heads_but_not_latents_and_kv_heads_only_down_to_one() -> None:
    r1 = specs.deepseek_r1()
    one = weights_per_rank_bytes(r1, Parallelism()).attention
    wide = weights_per_rank_bytes(r1, Parallelism(tp=64)).attention
    latent = 61 * 7168 * (1536 + 576) * (1 + 4 / 16384)
    assert wide == pytest.approx(latent + (one - latent) / 64)
    qwen = specs.qwen3_235b()
    eight, sixteen = (weights_per_rank_bytes(qwen, Parallelism(tp=n)).attention for n in (8, 16))
    # 64 query heads: q and o shrink by 4 heads of 128; the single KV head of each rank stays.
    assert eight - sixteen == pytest.approx(94 * 2 * 4 * 128 * 4096 * (1 + 4 / 16384))


def test_shared_experts_are_whole_when_tokens_are_scattered_over_tp() -> None:
    r1 = specs.deepseek_r1()
    shared = 58 * 3 * 7168 * 2048 * (1 + 4 / 16384)
    tensor = weights_per_rank_bytes(r1, Parallelism(tp=4, expert_parallel=True)).other
    scattered = weights_per_rank_bytes(r1, Parallelism(tp=4, dp=2, expert_parallel=True)).other
    assert scattered - tensor == pytest.approx(shared * 3 / 4)


def test_experts_without_expert_parallel_are_sliced_over_the_same_gpus() -> None:
    r1 = specs.deepseek_r1()
    sliced = weights_per_rank_bytes(r1, Parallelism(tp=1, dp=8)).experts
    whole = weights_per_rank_bytes(r1, Parallelism(tp=1, dp=8, expert_parallel=True)).experts
    assert sliced == pytest.approx(whole)
    # 256 experts over 24 ranks: the fullest rank holds 11, not 10.67.
    uneven = weights_per_rank_bytes(r1, Parallelism(dp=24, expert_parallel=True)).experts
    assert uneven == pytest.approx(whole * 11 / 32)


def test_a_redundant_expert_of_deepseek_costs_its_size_on_every_layer() -> None:
    r1 = specs.deepseek_r1()
    p = Parallelism(dp=32, expert_parallel=True)
    extra = (
        weights_per_rank_bytes(r1, p, Eplb(redundant_experts=32)).experts
        - weights_per_rank_bytes(r1, p).experts
    )
    assert extra / 1e9 == pytest.approx(58 * 3 * 7168 * 2048 * (1 + 4 / 16384) / 1e9)
    assert extra / 1e9 == pytest.approx(2.4, rel=0.08)  # the figure vLLM's guide quotes


def test_mtp_layer_of_deepseek_adds_its_published_size() -> None:
    r1 = specs.deepseek_r1()
    p = Parallelism()
    extra = weights_per_rank_bytes(r1, p, mtp=True).total - weights_per_rank_bytes(r1, p).total
    assert extra / 1e9 == pytest.approx(11.8, rel=0.03)


def test_speculation_adds_the_mtp_layer_to_the_cache() -> None:
    r1 = specs.deepseek_r1()
    plain, drafted = (
        kv_tokens_per_rank(
            r1, specs.role(speculation=s), specs.engine(), available_bytes=64 * GIB, context_tokens=4096
        )
        for s in (None, Speculation(draft_tokens=1, acceptance=0.8))
    )
    assert plain / drafted == pytest.approx(62 / 61, rel=1e-3)


def test_latent_cache_is_copied_over_tp_and_split_by_dcp() -> None:
    r1 = specs.deepseek_r1()

    def tokens(**widths: int) -> int:
        return kv_tokens_per_rank(
            r1,
            specs.role(**widths),
            specs.engine(),
            available_bytes=35_136.0 * 64 * 1000,
            context_tokens=64 * 1000,
        )

    assert tokens() == tokens(tp=8) == 64_000
    assert tokens(tp=8, dcp=8) == 8 * 64_000


def test_gqa_cache_is_split_by_tp_until_one_head_is_left() -> None:
    qwen = specs.qwen3_235b()

    def tokens(tp: int) -> int:
        return kv_tokens_per_rank(
            qwen, specs.role(tp=tp), specs.engine(), available_bytes=GIB, context_tokens=64
        )

    assert tokens(4) == pytest.approx(4 * tokens(1), rel=0.01)
    assert tokens(8) == tokens(4)


def test_sparse_mla_counts_packed_latents_and_index_keys() -> None:
    indexer = Indexer(heads=64, head_dim=128, top_k=2048)
    base = specs.mla()
    sparse = MlaAttention(
        heads=base.heads,
        q_lora_rank=base.q_lora_rank,
        kv_lora_rank=512,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
        indexer=indexer,
        sparse=True,
        parameters=base.parameters + 1536 * 64 * 128 + 7168 * (128 + 64),
    )
    v32 = replace(
        specs.deepseek_r1(),
        layers=tuple(
            LayerGroup(count=g.count, attention=sparse, mlp=g.mlp) for g in specs.deepseek_r1().layers
        ),
    )
    blocks = 48_068.0 * 64
    assert kv_tokens_per_rank(v32, specs.role(), specs.engine(), available_bytes=blocks * 10) == 640
    assert kv_tokens_per_rank(v32, specs.role(), specs.engine(), available_bytes=blocks * 10 - 1) < 640


def test_concurrency_rounds_to_blocks_and_leaves_out_the_null_block() -> None:
    r1 = specs.deepseek_r1()
    role = specs.role(block_size=64)
    block = 35_136.0 * 64

    def fit(blocks: int, context: int) -> int:
        return max_concurrency(
            r1, role, specs.engine(), available_bytes=blocks * block, context_tokens=context
        )

    assert fit(10, 64) == 9
    assert fit(11, 65) == 5  # two blocks each
    assert fit(2, 65) == 0


def test_recurrent_state_is_reserved_per_request_in_both_modes() -> None:
    hybrid = specs.qwen36_35b()
    args = {"available_bytes": 4 * GIB, "context_tokens": 128}
    counts = [
        max_concurrency(hybrid, specs.role(block_size=16), specs.engine(), mode=mode, **args)
        for mode in MemoryMode
    ]
    # 7 blocks of 10 layers x 2,096 tokens x 1,024 B per request; the model itself needs 30 states.
    assert counts[0] == (4 * 2**30 // (10 * 2096 * 1024) - 1) // 7
    assert counts[1] == int(4 * GIB / (30 * 2_146_304 + 10 * 1024 * 128))


def test_async_scheduling_holds_two_batches_of_window_blocks() -> None:
    gemma = specs.gemma4_26b()
    role = specs.role(block_size=16, tokens=2048)
    one, two = (
        kv_tokens_per_rank(
            gemma,
            role,
            specs.engine(async_scheduling=a),
            available_bytes=50 * GIB,
            context_tokens=131072,
        )
        for a in (False, True)
    )
    assert one / two == pytest.approx((4096 + 5 * 321) / (4096 + 5 * 193), rel=1e-3)


def test_running_requests_hold_windows_and_share_the_prompts_in_flight() -> None:
    gemma = specs.gemma4_26b()
    role = specs.role(block_size=16, tokens=2048)
    block = 5 * 65_536.0

    def fit(blocks: int) -> int:
        return max_concurrency(
            gemma, role, specs.engine(), available_bytes=blocks * block, context_tokens=131072
        )

    # 4,096 blocks of the global group and 5 x (64 + 1) of windows; null block and 5 x 128 blocks in flight.
    per_request, reserved = 4096 + 5 * 65, 1 + 5 * 128
    assert fit(reserved + 3 * per_request) == 3
    assert fit(reserved + 3 * per_request - 1) == 2


@given(models, widths, kv, st.integers(1, 131072), st.floats(0, 200))
@settings(max_examples=100, deadline=None)
def test_physical_minimum_never_runs_fewer_requests(name, width, kv_dtype, context, gib) -> None:
    role = _role(name, width, kv_dtype)
    counts = [
        max_concurrency(
            MODELS[name],
            role,
            specs.engine(),
            available_bytes=gib * GIB,
            context_tokens=context,
            mode=mode,
        )
        for mode in (MemoryMode.ENGINE_ALLOCATION, MemoryMode.PHYSICAL_MINIMUM)
    ]
    assert counts[0] <= counts[1]


def test_connector_roles_lose_the_hybrid_manager_unless_recurrent() -> None:
    def tokens(name: str, kind: Role) -> int:
        return kv_tokens_per_rank(
            MODELS[name],
            specs.role(kind=kind),
            specs.engine(),
            available_bytes=20 * GIB,
            context_tokens=65536,
        )

    assert tokens("gpt-oss", Role.DECODE) < 0.6 * tokens("gpt-oss", Role.AGGREGATED)
    assert tokens("qwen3.6-35b", Role.DECODE) == tokens("qwen3.6-35b", Role.AGGREGATED)


def test_low_latency_buffer_scales_with_tokens_and_experts_not_width() -> None:
    base = low_latency_buffer_bytes(tokens=128, hidden=7168, experts=256)
    # Two copies of send and receive areas of 256 x 128 slots of 14,560 B.
    assert base == pytest.approx(4 * 256 * 128 * 14_560, rel=1e-3)
    assert low_latency_buffer_bytes(tokens=1024, hidden=7168, experts=256) == pytest.approx(
        8 * base, rel=1e-3
    )
    r1 = specs.deepseek_r1()
    sizes = {
        ep: buffer_bytes(
            r1,
            specs.role(dp=ep, ep=True, tokens=256, backend=All2AllBackend.DEEPEP_LOW_LATENCY),
            specs.engine(),
            ranks_per_domain=8,
        )
        for ep in (16, 64)
    }
    assert sizes[16] == sizes[64]


def test_high_throughput_buffers_double_across_domains() -> None:
    role = specs.role(dp=16, ep=True, backend=All2AllBackend.DEEPEP_HIGH_THROUGHPUT)
    r1, engine = specs.deepseek_r1(), specs.engine(context_gib=0)
    assert buffer_bytes(r1, role, engine, ranks_per_domain=16) == GIB
    assert buffer_bytes(r1, role, engine, ranks_per_domain=8) == 2 * GIB


def test_gathered_tokens_make_activations_grow_with_dp_width_only_for_allgather() -> None:
    r1 = specs.deepseek_r1()
    gathered = [activation_bytes(r1, specs.role(dp=n, ep=True)) for n in (8, 16)]
    assert gathered[1] - gathered[0] == 2 * 8 * 8192 * 7168 * 2
    exchanged = [
        activation_bytes(r1, specs.role(dp=n, ep=True, backend=All2AllBackend.DEEPEP_HIGH_THROUGHPUT))
        for n in (8, 16)
    ]
    assert exchanged[0] == exchanged[1]


def test_a_model_that_does_not_fit_says_how_much_is_missing() -> None:
    memory = rank_memory(
        specs.deepseek_r1(), specs.role(tp=4), specs.gpu(memory_gib=79.1), specs.engine(), ranks_per_domain=8
    )
    assert memory.kv_gib < -80
    assert memory.kv_tokens_per_rank == 0


def test_eplb_reserves_its_move_buffer_and_load_window() -> None:
    r1 = specs.deepseek_r1()
    engine = specs.engine(context_gib=0)
    role = specs.role(dp=32, ep=True, redundant=32)
    layer = 9 * 3 * 7168 * 2048 * (1 + 4 / 16384)
    window = 1000 * 58 * 288 * 4
    assert buffer_bytes(r1, role, engine, ranks_per_domain=8) == pytest.approx(layer + window)
