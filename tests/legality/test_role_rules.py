"""Every role rule: one role that breaks it, the numbers in its message, and a legal neighbour."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.domain.deployment import All2AllBackend, Role, Speculation
from planner.domain.dtypes import ComputeDtype, WeightFormat
from planner.domain.hardware import FabricKind, Pool, ScaleUp, ScaleUpKind, Vendor
from planner.domain.legality import (
    ROLE_RULES,
    WeightSupport,
    check_role,
    role_codes,
    rule_title,
    weight_support,
)
from planner.domain.model import ModelSpec, Quantization
from tests.memory import specs

B = All2AllBackend
H200 = specs.pool()
R1 = specs.deepseek_r1()
QWEN = specs.qwen3_235b()
GPT_OSS = specs.gpt_oss(36, 128)
HYBRID = specs.qwen36_35b()
LLAMA = specs.llama31_8b()
GLM = specs.dense_gqa("glm", layers=92, hidden=5120, heads=96, kv=8, dim=128, ffn=12288, vocab=151552)
MULTIMODAL = replace(R1, encoder=True)
WIDE_HIDDEN = replace(R1, layers=tuple(replace(g, mlp=replace(g.mlp, hidden=9216)) for g in R1.layers[1:]))
ODD_HIDDEN = replace(R1, layers=tuple(replace(g, mlp=replace(g.mlp, hidden=7200)) for g in R1.layers[1:]))
NVFP4_QWEN = specs.qwen3_235b(Quantization(experts=WeightFormat.NVFP4))
TWO_DRAFTS = Speculation(draft_tokens=2, acceptance=0.8)
ONE_DRAFT = Speculation(draft_tokens=1, acceptance=0.8)


def _scale_up(kind: ScaleUpKind, gpus: int) -> ScaleUp:
    return ScaleUp(name=str(kind), kind=kind, aggregate_gbps=900, pairwise_gbps=900, domain_gpus=gpus)


MI300 = specs.gpu(
    "mi300x",
    vendor=Vendor.AMD,
    architecture="CDNA3 gfx942",
    compute_capability=None,
    scale_up=_scale_up(ScaleUpKind.MESH, 8),
)
MI250 = specs.gpu(
    "mi250",
    vendor=Vendor.AMD,
    architecture="CDNA2 gfx90a",
    compute_capability=None,
    peaks=(ComputeDtype.BF16,),
)
TPU = specs.gpu("tpu-v6e", vendor=Vendor.GOOGLE, architecture="TPU", compute_capability=None)
PCIE = specs.gpu("l40s", architecture="Ada", scale_up=_scale_up(ScaleUpKind.PCIE, 1))
GB200 = specs.gpu("gb200", architecture="Blackwell", scale_up=_scale_up(ScaleUpKind.SWITCHED, 72))
EFA = specs.fabric(FabricKind.EFA, ibgda=False)
TCPXO = specs.fabric(FabricKind.TCPXO, rdma=False, ibgda=False)
EFA = specs.fabric(FabricKind.EFA, rdma=True, ibgda=False)
ETHERNET = specs.fabric(FabricKind.ETHERNET, rdma=False, ibgda=False)


def _ep(n: int, backend: B = B.ALLGATHER_REDUCESCATTER, **changes: object) -> dict[str, object]:
    return {"dp": n, "ep": True, "backend": backend, **changes}


LL = B.DEEPEP_LOW_LATENCY
HT = B.DEEPEP_HIGH_THROUGHPUT


@dataclass(frozen=True)
class Case:
    code: str
    model: ModelSpec
    bad: dict[str, object]
    good: dict[str, object]
    says: tuple[str, ...] = ()
    pool: Pool = H200
    good_pool: Pool | None = None
    good_model: ModelSpec | None = None


CASES = [
    Case("width.positive", R1, {"tp": 0}, {"tp": 8}, ("TP 0",)),
    Case("tp.heads", R1, {"tp": 3}, {"tp": 8}, ("TP 3", "128 attention heads", "1, 2, 4, 8, 16")),
    Case("tp.kv-heads", GLM, {"tp": 12}, {"tp": 8}, ("TP 12", "8 KV heads"), specs.pool(per_node=24)),
    Case("tp.mixer-heads", specs.qwen38_27b(), {"tp": 24}, {"tp": 8}, ("TP 24", "16 heads"), specs.pool(per_node=24)),
    Case("tp.shards", R1, {"tp": 32}, {"tp": 16}, ("576", "128"), specs.pool(per_node=32)),
    Case("tp.node", R1, {"tp": 16}, {"tp": 8}, ("TP 16", "nodes of 8", "1, 2, 4, 8")),
    Case("moe.slices", QWEN, {"tp": 8}, {"tp": 8, "ep": True}, ("1536", "192", "128")),
    Case("dcp.divides", R1, {"tp": 8, "dcp": 3}, {"tp": 8, "dcp": 4}, ("DCP 3", "1, 2, 4, 8")),
    Case("dcp.gqa", QWEN, {"tp": 8, "dcp": 4, "ep": True}, {"tp": 8, "dcp": 2, "ep": True}, ("DCP 4", "1, 2")),
    Case("dcp.window", GPT_OSS, {"tp": 8, "dcp": 8}, {"tp": 8}, ("DCP 8",)),
    Case("dcp.transfer", R1, {"tp": 8, "dcp": 2, "kind": Role.DECODE}, {"tp": 8, "dcp": 8, "kind": Role.DECODE}, ("DCP 2", "1 or 8")),
    Case("ep.dense", LLAMA, {"tp": 8, "ep": True}, {"tp": 8}),
    Case("dp.dense", LLAMA, {"dp": 8}, {"tp": 8}, ("8 times as many groups",)),
    Case("ep.width", R1, _ep(512), _ep(256), ("EP 512", "256"), specs.pool(gpus=512)),
    Case("eplb.group", R1, {"dp": 8, "redundant": 0}, _ep(8, redundant=0)),
    Case("eplb.divides", R1, _ep(24, redundant=0), _ep(24, redundant=8), ("256 experts", "EP 24", "8 or 32")),
    Case("eplb.range", R1, _ep(8, redundant=1024), _ep(8, redundant=768), ("1024", "1023")),
    Case("eplb.vendor", R1, _ep(8, redundant=0), _ep(8), (), specs.pool(card=TPU)),
    Case("dbo.exchange", R1, {"tp": 8, "ep": True, "dbo": True}, _ep(16, LL, tokens=256, dbo=True), ("DP 1",)),
    Case("dbo.backend", R1, _ep(16, dbo=True), _ep(16, HT, dbo=True), ("allgather", "deepep_low_latency")),
    Case("dbo.speculation", R1, _ep(16, HT, dbo=True, speculation=ONE_DRAFT), _ep(16, HT, speculation=ONE_DRAFT)),
    Case("dbo.hybrid", HYBRID, _ep(16, HT, dbo=True), _ep(16, HT)),
    Case("dbo.multimodal", MULTIMODAL, _ep(16, HT, dbo=True), _ep(16, HT)),
    Case("dbo.dcp", R1, _ep(4, HT, tp=8, dcp=8, dbo=True), _ep(4, HT, tp=8, dbo=True), ("DCP 8",)),
    Case("mtp.absent", QWEN, {"tp": 4, "speculation": ONE_DRAFT}, {"tp": 4}),
    Case("mtp.depth", replace(R1, mtp_layers=2), {"tp": 8, "speculation": replace(TWO_DRAFTS, draft_tokens=3)}, {"tp": 8, "speculation": TWO_DRAFTS}, ("3 drafted",)),
    Case("all2all.exchange", R1, {"tp": 8, "ep": True, "backend": HT}, {"tp": 8, "ep": True}, ("DP 1",)),
    Case("all2all.vendor", R1, _ep(8, HT), _ep(8, B.MORI_HIGH_THROUGHPUT), ("mori",), specs.pool(card=MI300)),
    Case("all2all.mori", R1, _ep(8, B.MORI_LOW_LATENCY), _ep(8), ("Hopper",)),
    Case("all2all.hidden", WIDE_HIDDEN, _ep(8, LL, tokens=256), _ep(8, HT), ("9216", "8192")),
    Case("all2all.ibgda", R1, _ep(16, LL, tokens=256), _ep(8, LL, tokens=256), ("16 GPUs", "IBGDA", "8"), specs.pool(net=EFA)),
    Case("all2all.rdma", R1, _ep(16, HT), _ep(16), ("16 GPUs",), specs.pool(net=TCPXO)),
    Case("all2all.efa", R1, _ep(16, HT), _ep(16), ("Mellanox",), specs.pool(net=EFA)),
    Case("all2all.nvlink", R1, _ep(16, B.FLASHINFER_NVLINK_ONE_SIDED), _ep(8, B.FLASHINFER_NVLINK_ONE_SIDED), ("16 GPUs",)),
    Case("all2all.peers", R1, _ep(8, HT), _ep(8), ("PCIe",), specs.pool(card=PCIE)),
    Case("all2all.experts", R1, _ep(24, HT), _ep(24, HT, redundant=8), ("256 experts", "24", "8 redundant")),
    Case("all2all.block", ODD_HIDDEN, _ep(8, B.FLASHINFER_NVLINK_ONE_SIDED), _ep(8), ("7200",)),
    Case("batch.limits", R1, {"tp": 8, "seqs": 0}, {"tp": 8}, ("max_num_seqs 0",)),
    Case("batch.seqs", R1, {"tp": 8, "seqs": 512, "tokens": 256}, {"tp": 8, "seqs": 256, "tokens": 256}, ("512", "256")),
    Case("batch.drafts", R1, _ep(8, LL, seqs=128, tokens=256, speculation=TWO_DRAFTS), _ep(8, LL, seqs=85, tokens=256, speculation=TWO_DRAFTS), ("384", "85")),
    Case("pod.ranks", R1, _ep(16), _ep(8, tp=2), ("16 DP ranks", "TP of at least 2"), specs.pool(per_node=16)),
    Case("pod.tiling", R1, _ep(12), _ep(16), ("12 GPUs", "1, 2, 4, 8, or 16")),
    Case("group.fabric", R1, _ep(16), _ep(8), ("16 GPUs",), specs.pool(net=ETHERNET)),
    Case("pool.gpus", R1, {"tp": 8, "groups": 9}, {"tp": 8, "groups": 8}, ("72", "64", "at most 8")),
    Case("weights.format", NVFP4_QWEN, {"tp": 8}, {"tp": 8}, ("nvfp4",), specs.pool(card=MI300), specs.pool()),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[c.code for c in CASES])
def test_rule_refuses_with_numbers_and_lets_the_neighbour_pass(case: Case) -> None:
    bad = specs.role(**case.bad)  # type: ignore[arg-type]
    found = {v.code: v for v in check_role(case.model, bad, case.pool, specs.engine())}
    assert case.code in found
    violation = found[case.code]
    text = f"{violation.what} | {violation.why} | {violation.fix}"
    for part in case.says:
        assert part in text
    assert violation.rule == rule_title(case.code)
    good = specs.role(**case.good)  # type: ignore[arg-type]
    codes = role_codes(case.good_model or case.model, good, case.good_pool or case.pool, specs.engine())
    assert case.code not in codes


@pytest.mark.parametrize("case", [c for c in CASES if c.code != "width.positive"], ids=lambda c: c.code)
def test_the_neighbour_is_legal_in_every_respect(case: Case) -> None:
    good = specs.role(**case.good)  # type: ignore[arg-type]
    found = check_role(case.model, good, case.good_pool or case.pool, specs.engine())
    assert found == ()


def test_every_rule_has_a_case_and_codes_are_unique() -> None:
    codes = [r.code for r in ROLE_RULES]
    assert len(codes) == len(set(codes))
    assert set(codes) == {c.code for c in CASES}


def test_violation_becomes_an_issue_with_the_same_words() -> None:
    (violation,) = [
        v for v in check_role(R1, specs.role(tp=3), specs.pool(), specs.engine()) if v.code == "tp.heads"
    ]
    issue = violation.issue("--decode")
    assert (issue.code, issue.where) == ("tp.heads", "--decode")
    assert issue.what == "TP 3 does not divide 128 attention heads"
    assert issue.fix.startswith("use TP 1, 2, 4, 8")


def test_only_soundness_is_reported_when_widths_make_no_sense() -> None:
    assert role_codes(R1, specs.role(tp=0, dp=-1), specs.pool(), specs.engine()) == ("width.positive",)


@pytest.mark.parametrize(
    ("card", "gpus", "backend", "legal"),
    [
        (GB200, 64, B.FLASHINFER_NVLINK_ONE_SIDED, True),
        (GB200, 64, B.FLASHINFER_NVLINK_TWO_SIDED, True),
        (specs.gpu(), 8, B.FLASHINFER_NVLINK_TWO_SIDED, False),  # not MNNVL
        (GB200, 64, LL, True),  # inside the NVL72 domain no IBGDA is needed
        (GB200, 128, LL, False),
        (MI300, 64, B.MORI_LOW_LATENCY, True),
    ],
)
def test_backends_by_domain(card, gpus: int, backend: B, legal: bool) -> None:
    pool = specs.pool(gpus=128, per_node=4 if card is GB200 else 8, card=card, net=specs.fabric(ibgda=False))
    role = specs.role(dp=gpus, ep=True, backend=backend, tokens=256)
    assert (role_codes(R1, role, pool, specs.engine()) == ()) is legal


def test_amd_adds_allgather_to_dbo() -> None:
    role = specs.role(dp=16, ep=True, dbo=True)
    assert role_codes(R1, role, specs.pool(card=MI300), specs.engine()) == ()
    assert role_codes(R1, role, specs.pool(), specs.engine()) == ("dbo.backend",)


def test_shared_experts_stay_whole_when_tokens_are_scattered() -> None:
    """TP 4 would cut a 256-wide shared expert to 64; under sequence-parallel MoE it is not cut."""
    model = replace(
        QWEN, layers=tuple(replace(g, mlp=replace(g.mlp, shared_intermediate=256)) for g in QWEN.layers)
    )
    args = (specs.pool(), specs.engine())
    assert role_codes(model, specs.role(tp=4, ep=True), *args) == ("tp.shards",)
    assert role_codes(model, specs.role(tp=4, dp=2, ep=True), *args) == ()


def test_single_kv_heads_are_copied_not_refused() -> None:
    assert role_codes(QWEN, specs.role(tp=8, ep=True), specs.pool(), specs.engine()) == ()


@pytest.mark.parametrize(
    ("fmt", "card", "support"),
    [
        (WeightFormat.FP8_BLOCK, specs.gpu(peaks=(ComputeDtype.BF16,)), WeightSupport.WEIGHT_ONLY),
        (WeightFormat.FP8_BLOCK, specs.gpu(), WeightSupport.NATIVE),
        (WeightFormat.MXFP4, specs.gpu(), WeightSupport.WEIGHT_ONLY),
        (WeightFormat.NVFP4, specs.gpu(), WeightSupport.WEIGHT_ONLY),
        (WeightFormat.NVFP4, specs.gpu(peaks=tuple(ComputeDtype)), WeightSupport.NATIVE),
        (WeightFormat.NVFP4_A16, specs.gpu(peaks=tuple(ComputeDtype)), WeightSupport.WEIGHT_ONLY),
        (WeightFormat.MXFP4, MI300, WeightSupport.WEIGHT_ONLY),
        (WeightFormat.NVFP4, MI300, WeightSupport.UNSUPPORTED),
        (WeightFormat.FP8, MI250, WeightSupport.UNSUPPORTED),
        (WeightFormat.INT4, MI250, WeightSupport.NATIVE),
        (WeightFormat.MXFP4, TPU, WeightSupport.UNSUPPORTED),
    ],
)
def test_weight_support(fmt: WeightFormat, card, support: WeightSupport) -> None:
    assert weight_support(fmt, card) is support


MODELS = (R1, QWEN, GPT_OSS, HYBRID, LLAMA)
widths = st.integers(-1, 40)


@given(
    st.sampled_from(MODELS),
    st.tuples(widths, widths, st.integers(0, 9)),
    st.booleans(),
    st.sampled_from(list(B)),
    st.sampled_from(list(Role)),
    st.booleans(),
    st.one_of(st.none(), st.integers(0, 64)),
    st.sampled_from([None, ONE_DRAFT, TWO_DRAFTS]),
    st.sampled_from([1, 4, 8, 16]),
)
@settings(max_examples=400, deadline=None)
def test_any_role_is_judged_without_error_and_codes_match_violations(
    model, shape, ep, backend, kind, dbo, redundant, speculation, per_node
) -> None:
    tp, dp, dcp = shape
    role = specs.role(
        tp=tp,
        dp=dp,
        dcp=dcp,
        ep=ep,
        backend=backend,
        kind=kind,
        dbo=dbo,
        redundant=redundant,
        speculation=speculation,
    )
    pool = specs.pool(per_node=per_node)
    found = check_role(model, role, pool, specs.engine())
    assert tuple(v.code for v in found) == role_codes(model, role, pool, specs.engine())
    assert all(v.what and v.why and v.fix for v in found)


@given(st.sampled_from(MODELS), st.integers(1, 64))
@settings(max_examples=150, deadline=None)
def test_the_tp_widths_a_message_offers_are_legal(model: ModelSpec, tp: int) -> None:
    pool = specs.pool(per_node=64, gpus=64)
    moe = model.moe is not None
    for v in check_role(model, specs.role(tp=tp, ep=moe), pool, specs.engine()):
        if v.code not in {"tp.heads", "tp.kv-heads", "tp.mixer-heads", "tp.shards"}:
            continue
        for offered in (int(t) for t in v.fix.removeprefix("use TP ").split(", ")):
            codes: tuple[str, ...] = role_codes(model, specs.role(tp=offered, ep=moe), pool, specs.engine())
            assert not any(c.startswith("tp.") and c != "tp.node" for c in codes)
