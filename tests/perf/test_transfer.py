"""KV transfer: bytes by attention kind, blocks, and the split of heads over ranks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.catalog.hardware import load_fabric
from planner.catalog.models import load_model
from planner.domain.deployment import Parallelism, Role, RolePlan
from planner.domain.dtypes import KvDtype
from planner.domain.workload import Workload
from planner.perf.transfer import CONTIGUITY, DESCRIPTOR_US, SETUP_MS, kv_transfer_ms

FABRIC = load_fabric("ib-ndr400")
QWEN = load_model("Qwen/Qwen3-235B-A22B-FP8")  # 94 GQA layers, 4 KV heads of 128
R1 = load_model("deepseek-ai/DeepSeek-R1")  # 61 MLA layers, 576 latent elements per token


def role(kind: Role, *, tp: int = 1, block: int = 64) -> RolePlan:
    return RolePlan(
        role=kind, groups=1, parallelism=Parallelism(tp=tp, dp=8 // tp), gpu="h200-sxm", node="generic-h200-sxm",
        max_num_seqs=64, max_num_batched_tokens=8192, kv_dtype=KvDtype.BF16, block_size=block,
    )  # fmt: skip


def transfer(model: object, isl: int, *, prefill_tp: int = 1, decode_tp: int = 1, block: int = 64) -> float:
    return kv_transfer_ms(
        model, Workload(isl=isl, osl=10), fabric=FABRIC,  # type: ignore[arg-type]
        prefill=role(Role.PREFILL, tp=prefill_tp, block=block), decode=role(Role.DECODE, tp=decode_tp, block=block),
    )  # fmt: skip


def descriptors_ms(count: float) -> float:
    return count / CONTIGUITY * DESCRIPTOR_US / 1000.0


def test_a_prompt_of_keys_and_values_by_hand() -> None:
    tokens = 6400
    data = 94 * 2 * 4 * 128 * 2.0 * tokens  # layers x (K, V) x heads x width x bytes
    expected = SETUP_MS + descriptors_ms(94 * 2 * 100) + data / FABRIC.effective_gbps / 1e6
    assert transfer(QWEN, tokens) == pytest.approx(expected)


def test_a_begun_block_is_a_block() -> None:
    whole, more = transfer(QWEN, 6400), transfer(QWEN, 6401)
    one_token_ms = 94 * 2 * 4 * 128 * 2.0 / FABRIC.effective_gbps / 1e6
    assert more - whole == pytest.approx(one_token_ms + descriptors_ms(94 * 2))


def test_heads_split_over_ranks_only_as_far_as_there_are_heads() -> None:
    """TP 8 on 4 KV heads: two ranks hold the same head, so a rank pulls a fourth, not an eighth."""
    data_ms = 94 * 2 * 4 * 128 * 2.0 * 6400 / FABRIC.effective_gbps / 1e6
    rest = SETUP_MS + descriptors_ms(94 * 2 * 100)
    assert transfer(QWEN, 6400, prefill_tp=8, decode_tp=8) - rest == pytest.approx(data_ms / 4)
    assert transfer(QWEN, 6400, prefill_tp=2, decode_tp=2) - rest == pytest.approx(data_ms / 2)


def test_a_latent_is_copied_to_every_rank() -> None:
    assert transfer(R1, 6400, prefill_tp=8, decode_tp=8) == pytest.approx(transfer(R1, 6400))


def test_a_wider_decode_side_reads_in_smaller_pieces() -> None:
    """Blocks written for fewer ranks are read in as many pieces; beyond four, neighbours merge again."""
    even, twice, eight = (transfer(R1, 6400, prefill_tp=p, decode_tp=8) for p in (8, 4, 1))
    pieces = descriptors_ms(61 * 100)
    assert twice - even == pytest.approx(pieces)
    assert eight - even == pytest.approx(3 * pieces)


def test_without_rdma_it_crawls() -> None:
    tcp = replace(FABRIC, rdma=False)
    workload = Workload(isl=6400, osl=10)
    slow, fast = (
        kv_transfer_ms(R1, workload, prefill=role(Role.PREFILL), decode=role(Role.DECODE), fabric=f)
        for f in (tcp, FABRIC)
    )
    assert slow > 20.0 * fast
