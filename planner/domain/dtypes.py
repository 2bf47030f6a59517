"""Number formats of weights, KV cache and matrix units."""

from __future__ import annotations

from enum import StrEnum


class ComputeDtype(StrEnum):
    """Format a matrix unit multiplies in; keys of a GPU's dense peak table."""

    BF16 = "bf16"
    FP8 = "fp8"
    FP4 = "fp4"


class WeightFormat(StrEnum):
    """Storage format of weights, scales included (reference: checkpoint quantisation configs)."""

    BF16 = "bf16"
    FP8 = "fp8"  # per tensor or per channel scale
    FP8_BLOCK = "fp8_block"  # 128x128 blocks, float32 scale
    NVFP4 = "nvfp4"  # 4 bit + fp8 scale per 16
    NVFP4_A16 = "nvfp4_a16"  # NVFP4 weights, 16-bit activations
    MXFP4 = "mxfp4"  # 4 bit + 1 byte scale per 32
    MXFP8 = "mxfp8"  # 8 bit + 1 byte scale per 32
    INT4 = "int4"  # W4A16, bf16 scale per 32
    INT8 = "int8"

    @property
    def bytes_per_weight(self) -> float:
        """Bytes per weight including its share of the scales."""
        return _BYTES[self]

    @property
    def compute(self) -> ComputeDtype:
        """Format the GEMM runs in when the GPU supports it (weight-only formats compute in bf16)."""
        return _COMPUTE[self]


_BYTES = {
    WeightFormat.BF16: 2.0,
    WeightFormat.FP8: 1.0,
    WeightFormat.FP8_BLOCK: 1.0 + 4.0 / 16384.0,
    WeightFormat.NVFP4: 0.5 + 1.0 / 16.0,
    WeightFormat.NVFP4_A16: 0.5 + 1.0 / 16.0,
    WeightFormat.MXFP4: 0.5 + 1.0 / 32.0,
    WeightFormat.MXFP8: 1.0 + 1.0 / 32.0,
    WeightFormat.INT4: 0.5 + 2.0 / 32.0,
    WeightFormat.INT8: 1.0,
}
_COMPUTE = {
    WeightFormat.BF16: ComputeDtype.BF16,
    WeightFormat.FP8: ComputeDtype.FP8,
    WeightFormat.FP8_BLOCK: ComputeDtype.FP8,
    WeightFormat.NVFP4: ComputeDtype.FP4,
    WeightFormat.NVFP4_A16: ComputeDtype.BF16,
    WeightFormat.MXFP4: ComputeDtype.FP4,
    WeightFormat.MXFP8: ComputeDtype.FP8,
    WeightFormat.INT4: ComputeDtype.BF16,
    WeightFormat.INT8: ComputeDtype.FP8,
}


class KvDtype(StrEnum):
    """Storage format of the KV cache as a planning choice."""

    BF16 = "bf16"
    FP8 = "fp8"

    @property
    def bytes_per_element(self) -> float:
        """Bytes per stored element of a plain (unpacked) layout."""
        return 2.0 if self is KvDtype.BF16 else 1.0
