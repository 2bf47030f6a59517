"""Model, GPU, engine and role values for tests, built by hand from published configs."""

from __future__ import annotations

from dataclasses import replace

from planner.domain.deployment import All2AllBackend, Eplb, Parallelism, Role, RolePlan
from planner.domain.dtypes import ComputeDtype, KvDtype, WeightFormat
from planner.domain.engine import EngineName, EngineProfile
from planner.domain.hardware import (
    Availability,
    FabricKind,
    FabricProfile,
    GpuKubernetes,
    GpuProfile,
    NodeShape,
    Pool,
    Provider,
    ScaleUp,
    ScaleUpKind,
    Vendor,
)
from planner.domain.model import (
    DenseMlp,
    GqaAttention,
    LayerGroup,
    LinearAttention,
    LinearKind,
    MlaAttention,
    ModelSpec,
    MoeMlp,
    Quantization,
)

FP8 = Quantization(
    attention=WeightFormat.FP8_BLOCK,
    dense_mlp=WeightFormat.FP8_BLOCK,
    experts=WeightFormat.FP8_BLOCK,
    shared_experts=WeightFormat.FP8_BLOCK,
)
BF16 = Quantization()


def gqa(hidden: int, heads: int, kv_heads: int, head_dim: int, **kw: object) -> GqaAttention:
    params = hidden * head_dim * (2 * heads + 2 * kv_heads)
    return GqaAttention(heads=heads, kv_heads=kv_heads, head_dim=head_dim, parameters=params, **kw)  # type: ignore[arg-type]


def mla(heads: int = 128, hidden: int = 7168) -> MlaAttention:
    params = hidden * (1536 + 576) + 1536 * heads * 192 + 512 * heads * 256 + heads * 128 * hidden
    return MlaAttention(
        heads=heads,
        q_lora_rank=1536,
        kv_lora_rank=512,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
        parameters=params,
    )


def spec(name: str, hidden: int, vocab: int, layers: list[LayerGroup], **kw: object) -> ModelSpec:
    base: dict[str, object] = {
        "id": name,
        "family": name,
        "architecture": "X",
        "max_position": 131072,
        "quantization": BF16,
    }
    base.update(kw)
    return ModelSpec(hidden=hidden, vocab=vocab, layers=tuple(layers), **base)  # type: ignore[arg-type]


def deepseek_r1(*, dense_layers: int = 3) -> ModelSpec:
    """DeepSeek-R1. `dense_layers=0` is the shape the peer's calculator assumes (61 MoE layers)."""
    moe = MoeMlp(experts=256, top_k=8, intermediate=2048, hidden=7168, shared_intermediate=2048)
    groups = [LayerGroup(count=61 - dense_layers, attention=mla(), mlp=moe)]
    if dense_layers:
        groups.insert(0, LayerGroup(count=dense_layers, attention=mla(), mlp=DenseMlp(intermediate=18432)))
    return spec("deepseek-r1", 7168, 129280, groups, quantization=FP8, mtp_layers=1, max_position=163840)


def qwen3_235b(quantization: Quantization = FP8) -> ModelSpec:
    moe = MoeMlp(experts=128, top_k=8, intermediate=1536, hidden=4096)
    layer = LayerGroup(count=94, attention=gqa(4096, 64, 4, 128), mlp=moe)
    return spec("qwen3-235b", 4096, 151936, [layer], quantization=quantization, max_position=40960)


def gpt_oss(layers: int, experts: int) -> ModelSpec:
    moe = MoeMlp(experts=experts, top_k=4, intermediate=2880, hidden=2880)
    half = layers // 2
    return spec(
        "gpt-oss",
        2880,
        201088,
        [
            LayerGroup(count=half, attention=gqa(2880, 64, 8, 64), mlp=moe),
            LayerGroup(count=half, attention=gqa(2880, 64, 8, 64, window=128), mlp=moe),
        ],
        quantization=Quantization(experts=WeightFormat.MXFP4),
    )


def gemma4_26b() -> ModelSpec:
    # The dense MLP runs beside the experts; global layers share one matrix for K and V.
    moe = MoeMlp(experts=128, top_k=8, intermediate=704, hidden=2816, dense_intermediate=2112)
    glob = GqaAttention(
        heads=16,
        kv_heads=2,
        head_dim=512,
        key_value_shared=True,
        parameters=2816 * 512 * (2 * 16 + 2),
    )
    return spec(
        "gemma-4-26b",
        2816,
        262144,
        [
            LayerGroup(count=5, attention=glob, mlp=moe),
            LayerGroup(count=25, attention=gqa(2816, 16, 8, 256, window=1024), mlp=moe),
        ],
        tied_embeddings=True,
        max_position=262144,
    )


def gdn(value_heads: int) -> LinearAttention:
    width = 2 * 16 * 128 + value_heads * 128
    return LinearAttention(
        kind=LinearKind.GDN,
        heads=value_heads,
        key_heads=16,
        key_dim=128,
        value_dim=128,
        conv_kernel=4,
        state_bytes_per_seq=value_heads * 128 * 128 * 4 + 4 * width * 2,
    )


def qwen38_27b() -> ModelSpec:
    mlp = DenseMlp(intermediate=17408)
    return spec(
        "qwen3.8-27b",
        5120,
        248320,
        [
            LayerGroup(count=48, attention=gdn(48), mlp=mlp),
            LayerGroup(count=16, attention=gqa(5120, 24, 4, 256), mlp=mlp),
        ],
        max_position=262144,
    )


def qwen36_35b() -> ModelSpec:
    moe = MoeMlp(experts=256, top_k=8, intermediate=512, hidden=2048, shared_intermediate=512)
    return spec(
        "qwen3.6-35b",
        2048,
        248320,
        [
            LayerGroup(count=30, attention=gdn(32), mlp=moe),
            LayerGroup(count=10, attention=gqa(2048, 16, 2, 256), mlp=moe),
        ],
        max_position=262144,
    )


def dense_gqa(
    name: str, *, layers: int, hidden: int, heads: int, kv: int, dim: int, ffn: int, vocab: int
) -> ModelSpec:
    group = LayerGroup(count=layers, attention=gqa(hidden, heads, kv, dim), mlp=DenseMlp(intermediate=ffn))
    return spec(name, hidden, vocab, [group])


def llama31_8b() -> ModelSpec:
    return dense_gqa("llama-3.1-8b", layers=32, hidden=4096, heads=32, kv=8, dim=128, ffn=14336, vocab=128256)


def ministral_14b() -> ModelSpec:
    return dense_gqa(
        "ministral-3-14b", layers=40, hidden=5120, heads=32, kv=8, dim=128, ffn=16384, vocab=131072
    )


_SCALE_UP = ScaleUp(
    name="NVLink", kind=ScaleUpKind.SWITCHED, aggregate_gbps=450, pairwise_gbps=450, domain_gpus=8
)


def gpu(
    name: str = "h200-sxm",
    *,
    memory_gib: float = 139.8,
    vendor: Vendor = Vendor.NVIDIA,
    architecture: str = "Hopper",
    compute_capability: str | None = "9.0",
    peaks: tuple[ComputeDtype, ...] = (ComputeDtype.BF16, ComputeDtype.FP8),
    scale_up: ScaleUp = _SCALE_UP,
) -> GpuProfile:
    return GpuProfile(
        id=name,
        name=name,
        vendor=vendor,
        architecture=architecture,
        availability=Availability.AVAILABLE,
        memory_gib=memory_gib,
        memory_marketing_gb=memory_gib,
        hbm_gbps=4800,
        peak_tflops=dict.fromkeys(peaks, 1000.0),
        scale_up=scale_up,
        pcie_gbps=64,
        kubernetes=GpuKubernetes(resource="nvidia.com/gpu", label_key="nvidia.com/gpu.product"),
        sources={},
        compute_capability=compute_capability,
    )


def fabric(
    kind: FabricKind = FabricKind.INFINIBAND, *, rdma: bool = True, ibgda: bool = True
) -> FabricProfile:
    return FabricProfile(
        id=str(kind),
        name=str(kind),
        kind=kind,
        gbps_per_gpu=50,
        achievable_fraction=0.9,
        latency_us=3,
        rdma=rdma,
        gpu_initiated=ibgda,
        nics_per_gpu=1,
        gbit_per_nic=400,
        sources={},
    )


def pool(
    *,
    gpus: int = 64,
    per_node: int = 8,
    card: GpuProfile | None = None,
    net: FabricProfile | None = None,
) -> Pool:
    node = NodeShape(
        id="node",
        name="node",
        provider=Provider.GENERIC,
        gpu="h200-sxm",
        gpus_per_node=per_node,
        fabric="ib",
        gpu_resource="nvidia.com/gpu",
        node_labels={},
        sources={},
    )
    return Pool(gpu=card or gpu(), fabric=net or fabric(), node=node, gpus=gpus)


def engine(
    *,
    context_gib: float = 1.0,
    graphs_gib: float = 0.0,
    async_scheduling: bool = False,
) -> EngineProfile:
    return EngineProfile(
        id="vllm-test",
        engine=EngineName.VLLM,
        version="0.33.0",
        gpu_memory_utilization=0.92,
        context_and_nccl_gib=context_gib,
        graphs_gib=graphs_gib,
        deepep_ht_buffer_gib=1.0,
        deepep_ll_buffer_gib=2.0,
        default_max_num_seqs=1024,
        dbo_decode_threshold=32,
        dbo_prefill_threshold=512,
        dbo_comm_sms=20,
        host_step_us=0,
        host_per_sequence_us=0,
        frontend_ms=0,
        async_scheduling=async_scheduling,
        sources={},
        deepep_ll_hidden_sizes=(2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192),
    )


def role(
    *,
    tp: int = 1,
    dp: int = 1,
    ep: bool = False,
    dcp: int = 1,
    seqs: int = 256,
    tokens: int = 8192,
    kv: KvDtype = KvDtype.FP8,
    kind: Role = Role.AGGREGATED,
    backend: All2AllBackend = All2AllBackend.ALLGATHER_REDUCESCATTER,
    redundant: int | None = None,
    **changes: object,
) -> RolePlan:
    plan = RolePlan(
        role=kind,
        groups=1,
        parallelism=Parallelism(tp=tp, dp=dp, expert_parallel=ep, dcp=dcp),
        gpu="h200-sxm",
        node="node",
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        kv_dtype=kv,
        all2all=backend,
        eplb=None if redundant is None else Eplb(redundant_experts=redundant),
    )
    return replace(plan, **changes)  # type: ignore[arg-type]
