"""How much of the roofline kernels reach, per architecture and engine: the figures behind the datasheet source.

Source of the fractions and floors: medians over the operator tables of aiconfigurator-core 0.12.0 (Apache-2.0,
2026-08), the maximum-achievable-matmul figures of stas00/ml-engineering (2026-08-22) and the library claims of
deepseek-ai/FlashMLA and DeepGEMM. Parts without tables take those of the nearest architecture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from planner.domain.dtypes import ComputeDtype
from planner.domain.engine import EngineName
from planner.domain.hardware import GpuProfile, Vendor
from planner.domain.model import Attention, CompressedAttention, GqaAttention, MlaAttention


class Family(StrEnum):
    """Architectures that share kernels and efficiency."""

    AMPERE = "ampere"
    ADA = "ada"
    HOPPER = "hopper"
    BLACKWELL = "blackwell"
    BLACKWELL_RTX = "blackwell-rtx"
    CDNA = "cdna"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Efficiencies of one architecture. Fractions are of dense peak or HBM peak; floors in us."""

    gemm_bf16: float
    gemm_fp8: float
    gemm_fp4: float
    hbm_gemm: float = 0.84
    gemm_floor_us: float = 3.2
    quant_floor_us: float = 3.0  # added when activations are quantised first
    hbm_attention: float = 0.78
    decode_compute: float = 0.5
    fp8_latent_math: bool = False  # MLA decode multiplies the fp8 cache natively
    prefill_compute: float = 0.56
    prefill_half_tokens: float = 420.0  # chunk length at which prefill reaches half of `prefill_compute`
    index_compute: float = 0.35
    attention_floor_us: float = 10.0
    scan_compute: float = 0.065
    host_eager_us: float = 18.0
    expert_hbm: float = 0.84
    expert_floor_us: Mapping[EngineName, float] = field(default_factory=dict)


_HOPPER_FLOORS: Final = {EngineName.VLLM: 60.0, EngineName.SGLANG: 55.0, EngineName.TRTLLM: 34.0}
_BLACKWELL_FLOORS: Final = {EngineName.VLLM: 45.0, EngineName.SGLANG: 45.0, EngineName.TRTLLM: 38.0}

KERNELS: Final[Mapping[Family, Kernels]] = {
    Family.AMPERE: Kernels(
        gemm_bf16=0.83, gemm_fp8=0.83, gemm_fp4=0.83, hbm_gemm=0.76, prefill_compute=0.52,
        expert_floor_us=_HOPPER_FLOORS, hbm_attention=0.72,
    ),
    Family.ADA: Kernels(
        gemm_bf16=0.64, gemm_fp8=0.6, gemm_fp4=0.64, hbm_gemm=0.82, prefill_compute=0.5,
        expert_floor_us=_HOPPER_FLOORS,
    ),
    Family.HOPPER: Kernels(
        gemm_bf16=0.80, gemm_fp8=0.56, gemm_fp4=0.80, decode_compute=0.62, index_compute=0.38,
        expert_floor_us=_HOPPER_FLOORS,
    ),
    Family.BLACKWELL: Kernels(
        gemm_bf16=0.71, gemm_fp8=0.56, gemm_fp4=0.42, hbm_gemm=0.78, quant_floor_us=3.5, fp8_latent_math=True,
        prefill_compute=0.54, index_compute=0.3, expert_floor_us=_BLACKWELL_FLOORS, expert_hbm=0.76,
    ),
    Family.BLACKWELL_RTX: Kernels(
        gemm_bf16=0.84, gemm_fp8=0.7, gemm_fp4=0.62, hbm_gemm=0.82, expert_floor_us=_HOPPER_FLOORS,
    ),
    # AMD: matmul maxima 0.51-0.68 of peak; attention and expert kernels have no public tables
    Family.CDNA: Kernels(
        gemm_bf16=0.52, gemm_fp8=0.45, gemm_fp4=0.38, hbm_gemm=0.72, hbm_attention=0.66, decode_compute=0.35,
        prefill_compute=0.36, gemm_floor_us=5.0, attention_floor_us=14.0, index_compute=0.22, expert_hbm=0.68,
        expert_floor_us={EngineName.VLLM: 75.0, EngineName.SGLANG: 65.0, EngineName.TRTLLM: 65.0},
    ),
    Family.OTHER: Kernels(
        gemm_bf16=0.65, gemm_fp8=0.5, gemm_fp4=0.38, hbm_gemm=0.72, hbm_attention=0.66, decode_compute=0.4,
        prefill_compute=0.42, gemm_floor_us=5.0, attention_floor_us=13.0, expert_hbm=0.7,
        expert_floor_us={EngineName.VLLM: 70.0, EngineName.SGLANG: 70.0, EngineName.TRTLLM: 70.0},
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKind:
    """How one kind of attention layer differs from dense GQA: medians over the module and core tables.

    `compute` scales the compute efficiency; `extra_us` is added per call (absorbed products, small kernels of the
    layer, top-k selection); `wave_us` per sequence, KV head and SM of decode (each takes a block of threads).
    """

    prefill_compute: float = 1.0
    decode_compute: float = 1.0
    extra_us: float = 0.0
    wave_us: float = 1.2


def layer_kind(attention: Attention, engine: EngineName) -> LayerKind:
    """Penalties of `attention` under `engine`; vLLM runs more small kernels around latent attention."""
    small = 28.0 if engine is EngineName.VLLM else 16.0
    if isinstance(attention, MlaAttention):
        if not attention.sparse:
            return LayerKind(extra_us=small, wave_us=20.0)
        owned = attention.indexer is not None and attention.indexer.owned
        return LayerKind(
            prefill_compute=0.75, decode_compute=0.6, extra_us=small + (40.0 if owned else 0.0), wave_us=20.0
        )
    if isinstance(attention, CompressedAttention):
        owned = attention.indexer is not None
        return LayerKind(
            prefill_compute=0.4, decode_compute=0.45, extra_us=6.0 + (8.0 if owned else 0.0), wave_us=20.0
        )
    if isinstance(attention, GqaAttention) and attention.sparse_tokens is not None:
        return LayerKind(prefill_compute=0.25, decode_compute=0.6, extra_us=12.0, wave_us=3.0)
    if isinstance(attention, GqaAttention) and attention.window is not None and not attention.chunked:
        return LayerKind(prefill_compute=0.45)
    return LayerKind()


def family_of(gpu: GpuProfile) -> Family:
    """Architecture family of `gpu`, from compute capability, else vendor and architecture name."""
    arch = gpu.architecture.lower()
    if gpu.vendor is Vendor.AMD:
        return Family.CDNA
    if gpu.vendor is not Vendor.NVIDIA:
        return Family.OTHER
    capability = gpu.compute_capability or ""
    if capability.startswith("12") or "sm120" in arch:
        return Family.BLACKWELL_RTX
    if capability.startswith(("10", "11")) or "blackwell" in arch or "rubin" in arch:
        return Family.BLACKWELL
    if capability.startswith("9") or "hopper" in arch:
        return Family.HOPPER
    if capability == "8.9" or "ada" in arch.split():
        return Family.ADA
    if capability.startswith("8") or "ampere" in arch:
        return Family.AMPERE
    return Family.OTHER


def gemm_fraction(gpu: GpuProfile, kernels: Kernels, dtype: ComputeDtype) -> float:
    """Fraction of dense peak a large GEMM reaches; a measured maximum of the part itself wins.

    The median shape reaches the bf16 maximum, but about three quarters of the fp8 one (tables above).
    """
    best = gpu.mamf_fraction.get(dtype)
    if best is not None:
        return best * {ComputeDtype.BF16: 0.97, ComputeDtype.FP8: 0.76, ComputeDtype.FP4: 0.7}[dtype]
    return {
        ComputeDtype.BF16: kernels.gemm_bf16,
        ComputeDtype.FP8: kernels.gemm_fp8,
        ComputeDtype.FP4: kernels.gemm_fp4,
    }[dtype]
