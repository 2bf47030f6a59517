"""Roofline references that fitted residuals are relative to, and the shape features of each family.

The constants here only have to stay the same between fit and use: what kernels really reach is in the residuals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.domain.dtypes import ComputeDtype, KvDtype, WeightFormat
from planner.domain.hardware import GpuProfile
from planner.domain.model import (
    Attention,
    CompressedAttention,
    GqaAttention,
    LinearAttention,
    MlaAttention,
)
from planner.perf.operators import work
from planner.perf.operators.base import ExpertShape, FloatArray

_COMPUTE: Final = 0.75
_MEMORY: Final = 0.8
_NO_WINDOW: Final = 2.0**18
GEMM_FLOOR_US: Final = 3.0
EXPERT_FLOOR_US: Final = 25.0
ATTENTION_FLOOR_US: Final = 6.0
SCAN_FLOOR_US: Final = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Peaks of one GPU as references use them."""

    hbm_gbps: float
    peak_tflops: dict[str, float]
    scale_up_gbps: float

    @staticmethod
    def of(gpu: GpuProfile) -> Roofline:
        """Figures of a GPU profile."""
        return Roofline(
            hbm_gbps=gpu.hbm_gbps,
            peak_tflops={d.value: gpu.peak(d) for d in ComputeDtype},
            scale_up_gbps=gpu.scale_up.aggregate_gbps,
        )

    def us(self, w: work.Work, floor: float) -> FloatArray:
        """Smooth roofline of `w` plus `floor`, microseconds."""
        flops_us = w.flops / (self.peak_tflops[w.dtype.value] * 1e6 * _COMPUTE)
        flops_us = flops_us + w.index_flops / (
            self.peak_tflops[ComputeDtype.FP8.value] * 1e6 * _COMPUTE * 0.5
        )
        flops_us = flops_us + w.expand_flops / (self.peak_tflops[ComputeDtype.BF16.value] * 1e6 * _COMPUTE)
        memory_us = w.bytes_moved / (self.hbm_gbps * 1e3 * _MEMORY)
        high, low = np.maximum(flops_us, memory_us), np.minimum(flops_us, memory_us)
        ratio = low / np.maximum(high, 1e-12)
        ratio = ratio * ratio
        return np.asarray(floor + high * np.sqrt(np.sqrt(1.0 + ratio * ratio)), dtype=np.float64)


def log2(*numbers: float) -> FloatArray:
    """Features of a shape: log2 of its numbers."""
    return np.array([math.log2(max(x, 2.0**-10)) for x in numbers])


def gemm_features(n: float, k: float) -> FloatArray:
    """Shape of a dense GEMM."""
    return log2(n, k)


def gemm_us(roof: Roofline, fmt: WeightFormat, *, n: int, k: int, m: FloatArray) -> FloatArray:
    """Reference of a dense GEMM."""
    return roof.us(work.gemm_work(fmt, n=n, k=k, m=m), GEMM_FLOOR_US)


def expert_features(shape: ExpertShape) -> FloatArray:
    """Shape of grouped expert GEMMs on one rank.

    The total number of experts separates coarse models from fine-grained ones: their routing kernels and tuned
    tiles differ even where one rank's matrices are alike. Exponents weigh the numbers.
    """
    return log2(shape.hidden, shape.intermediate, shape.experts_local**0.6, shape.experts_total**0.75)


def experts_us(
    roof: Roofline, shape: ExpertShape, slots: FloatArray, touched: FloatArray | None = None
) -> FloatArray:
    """Reference of grouped expert GEMMs; `touched` overrides the expected distinct experts."""
    return roof.us(work.experts_work(shape, slots, touched=touched), EXPERT_FLOOR_US)


def attention_key(attention: Attention, kv: KvDtype, phase: str) -> str:
    """Surface key of an attention layer, e.g. ``mla-decode/fp8``; ``phase`` is ``prefill`` or ``decode``."""
    if isinstance(attention, LinearAttention):
        return f"{attention.kind.value}-{phase}/state"
    if isinstance(attention, GqaAttention):
        name = "gqa" if attention.sparse_tokens is None else "msa"
    elif isinstance(attention, MlaAttention):
        name = "mla"
        if attention.sparse:
            owned = attention.indexer is not None and attention.indexer.owned
            name = "dsa" if owned else "dsa-shared"
    elif attention.ratio is None:
        name = "v4-window"
    else:
        name = "csa" if attention.indexer is not None else "hca"
    return f"{name}-{phase}/{kv.value}"


def attention_features(attention: Attention, tp: int) -> FloatArray:
    """Shape of one rank's attention; the order of numbers is fixed per family."""
    heads = max(attention.heads / tp, 1.0)
    if isinstance(attention, LinearAttention):
        return log2(
            heads * attention.value_dim,
            max(attention.key_heads / tp, 1.0) * attention.key_dim,
            attention.key_dim,
        )
    if isinstance(attention, GqaAttention) and attention.sparse_tokens is None:
        # exponents weigh the numbers by how much they change the kernel: head dimension most, window least
        window = min(float(attention.window or _NO_WINDOW), _NO_WINDOW)
        kv_heads = max(attention.kv_heads / tp, 1.0)
        return log2(kv_heads**0.8, (heads / kv_heads) ** 0.6, attention.head_dim**2.0, window**0.4)
    return log2(heads)


def prefill_us(
    roof: Roofline, attention: Attention, *, tp: int, kv: KvDtype, new: FloatArray, prefix: FloatArray
) -> FloatArray:
    """Reference of one chunk's attention."""
    w = work.prefill_work(attention, tp=tp, kv=kv, new=new, prefix=prefix)
    floor = SCAN_FLOOR_US if isinstance(attention, LinearAttention) else ATTENTION_FLOOR_US
    return roof.us(w, floor)


def decode_us(
    roof: Roofline, attention: Attention, *, tp: int, kv: KvDtype, batch: FloatArray, context: FloatArray
) -> FloatArray:
    """Reference of one decode step's attention. Products are counted in bf16, whatever the cache format."""
    w = work.decode_work(attention, tp=tp, kv=kv, batch=batch, context=context)
    return roof.us(w._replace(dtype=ComputeDtype.BF16), ATTENTION_FLOOR_US)


def is_compressed(attention: Attention) -> bool:
    """Whether the layer is DeepSeek-V4 compressed attention."""
    return isinstance(attention, CompressedAttention)


def collective_us(roof: Roofline, *, gpus: int, payload: FloatArray) -> FloatArray:
    """Reference of a collective inside a scale-up domain."""
    return np.asarray(4.0 + 2.0 * payload * (gpus - 1) / gpus / (roof.scale_up_gbps * 1e3 * 0.7))


def exchange_us(roof: Roofline, *, bytes_per_token: float, tokens: FloatArray) -> FloatArray:
    """Reference of a dispatch or combine inside a scale-up domain; bytes are un-deduplicated copies."""
    return np.asarray(10.0 + tokens * bytes_per_token / (roof.scale_up_gbps * 1e3 * 0.6))
