"""Memory and rules over every model of the catalogue, with the shipped hardware and engine profiles."""

from __future__ import annotations

import pytest

from planner.catalog.engines import load_engine
from planner.catalog.hardware import load_gpu
from planner.catalog.models import list_models, load_model
from planner.domain.deployment import All2AllBackend, Parallelism, Role
from planner.domain.dtypes import KvDtype
from planner.domain.legality import role_codes
from planner.perf.memory import MemoryMode, rank_memory, weights_per_rank_bytes
from tests.memory import specs

IDS = [entry.id for entry in list_models()]
VLLM = load_engine("vllm")


@pytest.mark.parametrize("model_id", IDS)
def test_every_byte_of_a_checkpoint_is_on_some_rank(model_id: str) -> None:
    model = load_model(model_id)
    one = weights_per_rank_bytes(model, Parallelism(), engine_padding=False)
    assert one.total == pytest.approx(model.weight_bytes, rel=1e-9)
    padded = weights_per_rank_bytes(model, Parallelism())
    assert one.total <= padded.total <= 1.12 * one.total
    shards = weights_per_rank_bytes(model, Parallelism(tp=4), engine_padding=False)
    assert one.total / 4 <= shards.total < one.total


@pytest.mark.parametrize("model_id", IDS)
@pytest.mark.parametrize("kv", list(KvDtype))
def test_physical_cache_of_one_rank_is_the_models_own_count(model_id: str, kv: KvDtype) -> None:
    """At TP 1: growing bytes per token from the model, plus windows, chunks and state."""
    model = load_model(model_id)
    context = 8192
    memory = rank_memory(
        model,
        specs.role(kv=kv),
        load_gpu("b200-sxm"),
        VLLM,
        ranks_per_domain=1,
        context_tokens=context,
        mode=MemoryMode.PHYSICAL_MINIMUM,
    )
    growing = model.kv_bytes_per_token(kv)
    # Windows count in full in the fixed part, the 8 bytes of scales of DeepSeek-V4 entries are the engine's own,
    # and recurrent layers keep one convolution column less.
    slack = 1.015
    assert memory.kv_bytes_per_token <= (growing + model.fixed_state_bytes(kv) / context) * slack
    assert memory.kv_bytes_per_token >= growing


@pytest.mark.parametrize("model_id", IDS)
def test_some_width_is_legal_and_the_engine_never_beats_the_minimum(model_id: str) -> None:
    model, card = load_model(model_id), load_gpu("h200-sxm")
    pool = specs.pool(card=card)
    moe = model.moe is not None
    legal = 0
    for kind in (Role.AGGREGATED, Role.DECODE):
        for tp, dp in ((1, 1), (2, 1), (4, 1), (8, 1), (2, 8), (1, 16)):
            if dp > 1 and not moe:
                continue
            role = specs.role(tp=tp, dp=dp, ep=moe and tp * dp > 1, kind=kind)
            legal += not role_codes(model, role, pool, VLLM)
            blocks, minimum = (
                rank_memory(
                    model, role, card, VLLM, ranks_per_domain=8, context_tokens=12000, mode=mode
                ).kv_tokens_per_rank
                for mode in MemoryMode
            )
            assert blocks <= minimum
    assert legal >= 4


@pytest.mark.parametrize(
    ("widths", "published"),
    [({"tp": 8}, 20.43), ({"dp": 8}, 156.9 / 8)],
    ids=["TP8+EP8", "DP8+EP8, per rank"],
)
def test_rows_8_and_9_deepseek_v4_requests_of_a_million_tokens(widths: dict, published: float) -> None:
    """V4-Flash on 8 B200 at utilisation 0.95, 8,192 batched tokens: the TP copies cost nearly a factor of 8."""
    role = specs.role(ep=True, block_size=256, gpu_memory_utilization=0.95, **widths)
    memory = rank_memory(
        load_model("deepseek-ai/DeepSeek-V4-Flash"),
        role,
        load_gpu("b200-sxm"),
        VLLM,
        ranks_per_domain=8,
        context_tokens=2**20,
    )
    assert memory.kv_tokens_per_rank / 2**20 == pytest.approx(published, rel=0.10)


@pytest.mark.parametrize(
    ("ep", "published", "tolerance"),
    [(8, 716_899, 0.12), (16, 1_940_238, 0.02), (32, 2_551_907, 0.02), (64, 2_857_742, 0.02)],
)
def test_law_3_with_shipped_profiles(ep: int, published: int, tolerance: float) -> None:
    """R1 on H200 with our own terms, decode pool with DeepEP low latency at its default of 256 tokens.

    At EP 8 the peer's three extra MoE layers (3 GiB per rank, 90,000 tokens) are most of the difference.
    """
    memory = rank_memory(
        load_model("deepseek-ai/DeepSeek-R1"),
        specs.role(
            dp=ep,
            ep=True,
            tokens=256,
            kind=Role.DECODE,
            backend=All2AllBackend.DEEPEP_LOW_LATENCY,
            gpu_memory_utilization=VLLM.gpu_memory_utilization,
        ),
        load_gpu("h200-sxm"),
        VLLM,
        ranks_per_domain=8,
    )
    assert memory.kv_tokens_per_rank == pytest.approx(published, rel=tolerance)
