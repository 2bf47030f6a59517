"""Laws every operator source obeys, over measured and unmeasured GPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.domain.deployment import All2AllBackend
from planner.domain.dtypes import ComputeDtype, KvDtype, WeightFormat
from planner.domain.engine import EngineName
from planner.domain.hardware import FabricProfile, GpuProfile
from planner.domain.model import (
    Attention,
    CompressedAttention,
    GqaAttention,
    Indexer,
    LinearAttention,
    LinearKind,
    MlaAttention,
)
from planner.domain.provenance import Provenance
from planner.perf.operators.base import Collective, ExchangeShape, ExpertShape, OperatorSource, OpTime
from planner.perf.operators.datasheet import DatasheetOperators
from planner.perf.operators.library import load_operators
from tests.operators.parts import CX7, EFA, GPUS, make_fabric

MLA = MlaAttention(
    heads=128, q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128
)
INDEXER = Indexer(heads=64, head_dim=128, top_k=2048)
ATTENTIONS: dict[str, Attention] = {
    "gqa": GqaAttention(heads=64, kv_heads=4, head_dim=128),
    "windowed": GqaAttention(heads=64, kv_heads=8, head_dim=64, window=128),
    "msa": GqaAttention(
        heads=64, kv_heads=4, head_dim=128, sparse_tokens=2048, index_heads=4, extra_kv_elements=128.0
    ),
    "mla": MLA,
    "dsa": replace(MLA, sparse=True, sparse_top_k=2048, indexer=INDEXER),
    "dsa-shared": replace(MLA, sparse=True, sparse_top_k=2048, indexer=replace(INDEXER, owned=False)),
    "csa": CompressedAttention(
        heads=64, head_dim=512, rope_dim=64, ratio=4, window=128, q_lora_rank=1024, o_lora_rank=1024, o_groups=8,
        indexer=Indexer(heads=64, head_dim=128, top_k=512),
    ),
    "hca": CompressedAttention(
        heads=64, head_dim=512, rope_dim=64, ratio=128, window=128, q_lora_rank=1024, o_lora_rank=1024, o_groups=8
    ),
    "gdn": LinearAttention(
        kind=LinearKind.GDN, heads=32, key_heads=16, key_dim=128, value_dim=128, conv_kernel=4,
        state_bytes_per_seq=2.1e6,
    ),
    "mamba2": LinearAttention(
        kind=LinearKind.MAMBA2, heads=128, key_heads=8, key_dim=128, value_dim=64, conv_kernel=4,
        state_bytes_per_seq=4.2e6,
    ),
}  # fmt: skip
LOADS = np.geomspace(1.0, 65536.0, 40)
Source = Callable[[GpuProfile, FabricProfile], OperatorSource]


def experts(ep: int = 8, fmt: WeightFormat = WeightFormat.FP8_BLOCK) -> ExpertShape:
    return ExpertShape(
        fmt=fmt,
        hidden=7168,
        intermediate=2048,
        matrices=3,
        experts_local=256 // ep,
        experts_total=256,
        top_k=8,
    )


def exchange(ep: int, domain: int = 8, fmt: WeightFormat = WeightFormat.FP8_BLOCK) -> ExchangeShape:
    return ExchangeShape(ep=ep, ranks_per_domain=domain, hidden=7168, top_k=8, experts_total=256, fmt=fmt)


def assert_lawful(answer: OpTime, shape: tuple[int, ...], axis: int = -1) -> None:
    assert answer.us.shape == shape
    assert np.broadcast_shapes(answer.within.shape, shape) == shape
    assert np.isfinite(answer.us).all()
    assert (answer.us > 0).all()
    assert (np.diff(answer.us, axis=axis) >= -1e-9 * answer.us.max()).all()


@pytest.fixture(params=["datasheet", "best"])
def source(request: pytest.FixtureRequest, gpu: GpuProfile) -> OperatorSource:
    if request.param == "datasheet":
        return DatasheetOperators(gpu, CX7, EngineName.VLLM)
    return load_operators(gpu, CX7, EngineName.VLLM)


@pytest.mark.parametrize("fmt", list(WeightFormat))
def test_gemm_and_experts_grow_with_load(source: OperatorSource, fmt: WeightFormat) -> None:
    assert_lawful(source.gemm(fmt, n=7168, k=2048, m=LOADS), LOADS.shape)
    assert_lawful(source.gemm(fmt, n=5130, k=1111, m=LOADS), LOADS.shape)
    assert_lawful(source.experts(experts(fmt=fmt), slots=LOADS), LOADS.shape)


@pytest.mark.parametrize("name", sorted(ATTENTIONS))
@pytest.mark.parametrize("kv", list(KvDtype))
def test_attention_grows_with_batch_context_and_chunk(source: OperatorSource, name: str, kv: KvDtype) -> None:
    a = ATTENTIONS[name]
    batch, context = np.geomspace(1, 512, 12)[:, None], np.geomspace(16, 262144, 16)[None, :]
    answer = source.attention_decode(a, tp=1, kv=kv, batch=batch, context=context)
    assert_lawful(answer, (12, 16), axis=0)
    assert_lawful(answer, (12, 16), axis=1)
    new, prefix = np.geomspace(16, 32768, 12)[:, None], np.array([0.0, 1024.0, 8192.0, 131072.0])[None, :]
    answer = source.attention_prefill(a, tp=1, kv=kv, new_tokens=new, prefix=prefix)
    assert_lawful(answer, (12, 4), axis=0)
    assert_lawful(answer, (12, 4), axis=1)


@pytest.mark.parametrize("kind", list(Collective))
@pytest.mark.parametrize("gpus", [2, 4, 8, 16, 64])
def test_collectives_grow_with_bytes_and_eager_costs_more(
    source: OperatorSource, kind: Collective, gpus: int
) -> None:
    size = LOADS * 1024.0
    inside = source.collective(kind, gpus=gpus, ranks_per_domain=8, payload_bytes=size, graph=True)
    assert_lawful(inside, size.shape)
    eager = source.collective(kind, gpus=gpus, ranks_per_domain=8, payload_bytes=size, graph=False)
    small = size < 32768
    assert (eager.us[small] > inside.us[small]).all()


@pytest.mark.parametrize("backend", list(All2AllBackend))
@pytest.mark.parametrize("ep", [2, 8, 16, 64, 256])
def test_exchanges_grow_with_tokens(source: OperatorSource, backend: All2AllBackend, ep: int) -> None:
    for call in (source.dispatch, source.combine):
        assert_lawful(call(backend, exchange(ep), tokens=LOADS), LOADS.shape)


@pytest.mark.parametrize(
    "backend", [All2AllBackend.DEEPEP_LOW_LATENCY, All2AllBackend.ALLGATHER_REDUCESCATTER]
)
def test_wider_expert_parallelism_over_the_network_never_gets_cheaper(
    source: OperatorSource, backend: All2AllBackend
) -> None:
    times = [source.dispatch(backend, exchange(ep), tokens=np.array([256.0])).us[0] for ep in (8, 16, 32, 64)]
    assert times == sorted(times)


def test_no_load_is_not_an_error(source: OperatorSource) -> None:
    zero = np.zeros(2)
    assert np.isfinite(source.gemm(WeightFormat.BF16, n=4096, k=4096, m=zero).us).all()
    assert np.isfinite(source.experts(experts(), slots=zero).us).all()
    assert np.isfinite(source.dispatch(All2AllBackend.DEEPEP_LOW_LATENCY, exchange(16), tokens=zero).us).all()


def test_one_rank_exchanges_nothing(source: OperatorSource) -> None:
    for backend in All2AllBackend:
        assert source.dispatch(backend, exchange(1), tokens=LOADS).us.max() < 0.1
    one = source.collective(
        Collective.ALL_REDUCE, gpus=1, ranks_per_domain=8, payload_bytes=LOADS * 1e3, graph=True
    )
    assert one.us.max() == 0.0


@given(
    factor=st.floats(1.01, 4.0),
    gpu_id=st.sampled_from(sorted(GPUS)),
    name=st.sampled_from(sorted(ATTENTIONS)),
    fmt=st.sampled_from(list(WeightFormat)),
)
@settings(max_examples=40, deadline=None)
def test_faster_hardware_is_never_slower(factor: float, gpu_id: str, name: str, fmt: WeightFormat) -> None:
    gpu = GPUS[gpu_id]
    better = [
        replace(gpu, hbm_gbps=gpu.hbm_gbps * factor),
        replace(gpu, peak_tflops={d: p * factor for d, p in gpu.peak_tflops.items()}),
        replace(
            gpu,
            scale_up=replace(
                gpu.scale_up,
                aggregate_gbps=gpu.scale_up.aggregate_gbps * factor,
                pairwise_gbps=gpu.scale_up.pairwise_gbps * factor,
            ),
        ),
    ]
    base = _everything(DatasheetOperators(gpu, CX7, EngineName.VLLM), name, fmt)
    for candidate in better:
        assert (
            _everything(DatasheetOperators(candidate, CX7, EngineName.VLLM), name, fmt) <= base + 1e-6
        ).all()
    quick = make_fabric("quick", gbps=50.0 * factor)
    assert (_everything(DatasheetOperators(gpu, quick, EngineName.VLLM), name, fmt) <= base + 1e-6).all()


def _everything(source: DatasheetOperators, name: str, fmt: WeightFormat) -> np.ndarray:
    x = np.array([1.0, 64.0, 4096.0])
    a = ATTENTIONS[name]
    answers = [
        source.gemm(fmt, n=4096, k=7168, m=x),
        source.experts(experts(fmt=fmt), slots=x),
        source.attention_prefill(a, tp=2, kv=KvDtype.FP8, new_tokens=x, prefix=x * 4),
        source.attention_decode(a, tp=2, kv=KvDtype.FP8, batch=x, context=x * 8),
        source.memory_pass(bytes_moved=x * 1e4),
        source.collective(
            Collective.ALL_REDUCE, gpus=8, ranks_per_domain=8, payload_bytes=x * 1e4, graph=True
        ),
        source.collective(
            Collective.ALL_GATHER, gpus=16, ranks_per_domain=8, payload_bytes=x * 1e4, graph=True
        ),
    ]
    answers += [source.dispatch(b, exchange(32), tokens=x) for b in All2AllBackend]
    return np.concatenate([t.us for t in answers])


def test_a_mesh_gives_small_groups_only_their_own_links() -> None:
    mesh = DatasheetOperators(GPUS["mi300x"], CX7, EngineName.VLLM)
    size = np.array([64e6])

    def per_byte(gpus: int) -> float:
        t = mesh.collective(
            Collective.ALL_REDUCE, gpus=gpus, ranks_per_domain=8, payload_bytes=size, graph=True
        )
        return float(t.us[0]) * gpus / (gpus - 1)

    # 1 of 7 links against all of them
    assert 5.0 < per_byte(2) / per_byte(8) < 7.5


def test_a_slower_transport_costs_its_factor_across_nodes_only() -> None:
    gpu = GPUS["h200-sxm"]
    cx7, efa = (DatasheetOperators(gpu, f, EngineName.VLLM) for f in (CX7, EFA))
    backend, tokens = All2AllBackend.DEEPEP_LOW_LATENCY, np.array([128.0])
    assert (
        efa.dispatch(backend, exchange(8), tokens=tokens).us
        == cx7.dispatch(backend, exchange(8), tokens=tokens).us
    )
    ratio = (
        efa.dispatch(backend, exchange(64), tokens=tokens).us
        / cx7.dispatch(backend, exchange(64), tokens=tokens).us
    )
    assert 1.35 < ratio[0] < 1.75


@pytest.mark.parametrize(
    ("gpu_id", "ep", "dispatch_us", "combine_us"),
    [
        # pplx-garden fabric-lib over EFA, two NICs per GPU; ROCm MORI on MI300X with ConnectX-7: 128 tokens a rank
        ("h200-sxm", 32, 229.0, 335.0),
        ("h200-sxm", 64, 267.0, 391.0),
        ("mi300x", 8, 35.0, 47.0),
        ("mi300x", 16, 115.0, 141.0),
        ("mi300x", 32, 157.0, 280.0),
    ],
)
def test_published_exchanges_without_tables(
    gpu_id: str, ep: int, dispatch_us: float, combine_us: float
) -> None:
    amd = gpu_id == "mi300x"
    fabric = (
        CX7
        if amd
        else make_fabric("efa", gpu_initiated=False, fraction=0.83, latency=15.0, dispatch=1.4, combine=1.27)
    )
    backend = All2AllBackend.MORI_LOW_LATENCY if amd else All2AllBackend.DEEPEP_LOW_LATENCY
    source, tokens = DatasheetOperators(GPUS[gpu_id], fabric, EngineName.VLLM), np.array([128.0])
    assert source.dispatch(backend, exchange(ep), tokens=tokens).us[0] == pytest.approx(dispatch_us, rel=0.15)
    assert source.combine(backend, exchange(ep), tokens=tokens).us[0] == pytest.approx(combine_us, rel=0.35)


def test_weight_only_formats_compute_in_bf16_where_there_is_no_narrow_unit() -> None:
    hopper = DatasheetOperators(GPUS["h100-sxm"], CX7, EngineName.VLLM)
    large = np.array([16384.0])
    bf16 = hopper.gemm(WeightFormat.BF16, n=8192, k=8192, m=large).us[0]
    fp4 = hopper.gemm(WeightFormat.NVFP4, n=8192, k=8192, m=large).us[0]
    assert fp4 == pytest.approx(bf16, rel=0.05)
    assert ComputeDtype.FP4 not in hopper.gpu.peak_tflops
    assert hopper.gemm(WeightFormat.NVFP4, n=8192, k=8192, m=np.array([1.0])).us[0] < 0.5 * bf16


def test_datasheet_answers_say_so() -> None:
    answer = DatasheetOperators(GPUS["mi300x"], CX7, EngineName.VLLM).gemm(
        WeightFormat.BF16, n=4096, k=4096, m=LOADS
    )
    assert answer.provenance is Provenance.DATASHEET
    assert not answer.within.any()
