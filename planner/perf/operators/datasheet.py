"""Operator source for any GPU: roofline with efficiencies transferred from measured architectures."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.domain.deployment import All2AllBackend
from planner.domain.dtypes import ComputeDtype, KvDtype, WeightFormat
from planner.domain.engine import EngineName
from planner.domain.hardware import FabricProfile, GpuProfile
from planner.domain.model import Attention, GqaAttention, LinearAttention
from planner.domain.provenance import Provenance
from planner.perf.operators import work
from planner.perf.operators.base import Collective, ExchangeShape, ExpertShape, FloatArray, OpTime
from planner.perf.operators.comm import Network, collective_us, exchange_us, host_sync_us
from planner.perf.operators.efficiency import (
    KERNELS,
    Kernels,
    family_of,
    gemm_fraction,
    layer_kind,
)

_BLEND: Final = 4.0  # sharpness of the roofline knee: overlap of compute and memory is good, not perfect
_GRACE_EAGER_US: Final = 45.0  # arm64 hosts launch slowly: 40-70 us per eager collective
_SM_COUNT: Final = 132  # where a profile does not say
_PASS_FLOOR_US: Final = 2.0
_PASS_FRACTION: Final = 0.72


def knee(compute_us: FloatArray, memory_us: FloatArray) -> FloatArray:
    """Smooth maximum of two positive times."""
    high, low = np.maximum(compute_us, memory_us), np.minimum(compute_us, memory_us)
    ratio = low / np.maximum(high, 1e-12)
    ratio *= ratio
    return np.asarray(high * np.sqrt(np.sqrt(1.0 + ratio * ratio)), dtype=np.float64)


class DatasheetOperators:
    """`OperatorSource` from datasheet figures alone; every answer is `Provenance.DATASHEET`, never `within`."""

    def __init__(self, gpu: GpuProfile, fabric: FabricProfile, engine: EngineName) -> None:
        self.gpu = gpu
        self.fabric = fabric
        self.engine = engine
        self.family = family_of(gpu)
        self.kernels: Kernels = KERNELS[self.family]
        self.net = Network(gpu=gpu, fabric=fabric, family=self.family, engine=engine)
        self._hbm = gpu.hbm_gbps * 1e3  # bytes per us

    def _answer(self, us: FloatArray) -> OpTime:
        return OpTime(us, Provenance.DATASHEET, np.zeros(us.shape, dtype=np.bool_))

    def _native(self, fmt: WeightFormat) -> ComputeDtype:
        """Format the GEMM multiplies in; without a unit for it the weights are expanded to bf16."""
        return fmt.compute if fmt.compute in self.gpu.peak_tflops else ComputeDtype.BF16

    def _peak(self, dtype: ComputeDtype) -> float:
        return self.gpu.peak(dtype) * 1e6  # FLOP per us

    def gemm(self, fmt: WeightFormat, *, n: int, k: int, m: FloatArray) -> OpTime:
        """See `OperatorSource.gemm`."""
        m = np.asarray(m, dtype=np.float64)
        w = work.gemm_work(fmt, n=n, k=k, m=m)
        dtype = self._native(fmt)
        fraction = gemm_fraction(self.gpu, self.kernels, dtype)
        floor = self.kernels.gemm_floor_us
        if dtype is not ComputeDtype.BF16:  # activations are quantised first
            floor += self.kernels.quant_floor_us
        us = floor + knee(
            w.flops / (self._peak(dtype) * fraction), w.bytes_moved / (self._hbm * self.kernels.hbm_gemm)
        )
        return self._answer(us)

    def experts(self, shape: ExpertShape, *, slots: FloatArray) -> OpTime:
        """See `OperatorSource.experts`."""
        slots = np.asarray(slots, dtype=np.float64)
        w = work.experts_work(shape, slots)
        dtype = self._native(shape.fmt)
        fraction = gemm_fraction(self.gpu, self.kernels, dtype)
        # grouped tiles are padded to the block height: small groups waste part of each tile
        touched = np.maximum(work.distinct_experts(shape, slots), 1e-9)
        padded = w.flops * (1.0 + 32.0 * touched / np.maximum(slots, 1e-9)) * (slots > 0)
        us = self.kernels.expert_floor_us[self.engine] + knee(
            padded / (self._peak(dtype) * fraction * 0.9),
            w.bytes_moved / (self._hbm * self.kernels.expert_hbm),
        )
        return self._answer(us)

    def attention_prefill(
        self, attention: Attention, *, tp: int, kv: KvDtype, new_tokens: FloatArray, prefix: FloatArray
    ) -> OpTime:
        """See `OperatorSource.attention_prefill`."""
        new, before = np.broadcast_arrays(
            np.asarray(new_tokens, dtype=np.float64), np.asarray(prefix, dtype=np.float64)
        )
        w = work.prefill_work(attention, tp=tp, kv=kv, new=new, prefix=before)
        kernels = self.kernels
        if isinstance(attention, LinearAttention):
            us = 20.0 + knee(
                w.flops / (self._peak(ComputeDtype.BF16) * kernels.scan_compute),
                w.bytes_moved / (self._hbm * kernels.hbm_attention),
            )
            return self._answer(us)
        # short chunks leave tiles and SMs idle
        ramp = 1.0 + kernels.prefill_half_tokens / np.maximum(new, 1.0)
        peak = self._peak(ComputeDtype.BF16)
        kind = layer_kind(attention, self.engine)
        compute = w.flops * ramp / (peak * kernels.prefill_compute * kind.prefill_compute)
        expand = w.expand_flops / (peak * gemm_fraction(self.gpu, kernels, ComputeDtype.BF16))
        us = (kernels.attention_floor_us + kind.extra_us) + knee(
            compute + expand,
            w.bytes_moved / (self._hbm * kernels.hbm_attention),
        )
        return self._answer(us + self._index_us(attention, w.index_flops))

    def attention_decode(
        self, attention: Attention, *, tp: int, kv: KvDtype, batch: FloatArray, context: FloatArray
    ) -> OpTime:
        """See `OperatorSource.attention_decode`."""
        b, c = np.broadcast_arrays(np.asarray(batch, dtype=np.float64), np.asarray(context, dtype=np.float64))
        w = work.decode_work(attention, tp=tp, kv=kv, batch=b, context=c)
        kernels = self.kernels
        dtype = w.dtype if kernels.fp8_latent_math else ComputeDtype.BF16
        kind = layer_kind(attention, self.engine)
        if isinstance(attention, LinearAttention):
            floor, compute = kernels.attention_floor_us - 3.0, kernels.decode_compute
            waves = 0.0 * b
        else:
            floor, compute = (
                kernels.attention_floor_us + kind.extra_us,
                kernels.decode_compute * kind.decode_compute,
            )
            blocks = attention.kv_heads if isinstance(attention, GqaAttention) else attention.heads / 128.0
            waves = b * max(blocks / tp, 1.0 / 128.0) * kind.wave_us / (self.gpu.sm_count or _SM_COUNT)
        us = (
            floor
            + waves
            + knee(
                w.flops / (self._peak(dtype) * compute),
                w.bytes_moved / (self._hbm * kernels.hbm_attention),
            )
        )
        return self._answer(us + self._index_us(attention, w.index_flops))

    def _index_us(self, attention: Attention, flops: FloatArray) -> FloatArray:
        """Scoring and top-k selection of sparse layers; zero for layers that own no indexer."""
        if isinstance(attention, GqaAttention):
            owned = attention.sparse_tokens is not None and attention.extra_kv_elements > 0
        elif isinstance(attention, LinearAttention):
            owned = False
        else:
            owned = attention.indexer is not None and attention.indexer.owned
        if not owned:
            return np.zeros_like(flops)
        return 8.0 + flops / (self._peak(ComputeDtype.FP8) * self.kernels.index_compute)

    def collective(
        self, kind: Collective, *, gpus: int, ranks_per_domain: int, payload_bytes: FloatArray, graph: bool
    ) -> OpTime:
        """See `OperatorSource.collective`."""
        us = collective_us(
            self.net, kind, gpus=gpus, ranks_per_domain=ranks_per_domain,
            payload=np.asarray(payload_bytes, dtype=np.float64), graph=graph, host_us=self.eager_us,
        )  # fmt: skip
        return self._answer(us)

    @property
    def eager_us(self) -> float:
        """Host cost of launching a collective outside a CUDA graph."""
        return _GRACE_EAGER_US if self.gpu.host_arch == "arm64" else self.kernels.host_eager_us

    def host_sync_us(self, backend: All2AllBackend) -> float:
        """Host stall inside a dispatch of `backend`."""
        return host_sync_us(self.net, backend)

    def kernel_exchange_us(
        self, backend: All2AllBackend, shape: ExchangeShape, *, tokens: FloatArray, combine: bool
    ) -> FloatArray:
        """Dispatch or combine without the host stall, microseconds."""
        us = exchange_us(self.net, backend, shape, tokens=tokens, combine=combine)
        return us if combine else us - self.host_sync_us(backend)

    def dispatch(self, backend: All2AllBackend, shape: ExchangeShape, *, tokens: FloatArray) -> OpTime:
        """See `OperatorSource.dispatch`."""
        t = np.asarray(tokens, dtype=np.float64)
        return self._answer(exchange_us(self.net, backend, shape, tokens=t, combine=False))

    def combine(self, backend: All2AllBackend, shape: ExchangeShape, *, tokens: FloatArray) -> OpTime:
        """See `OperatorSource.combine`."""
        t = np.asarray(tokens, dtype=np.float64)
        return self._answer(exchange_us(self.net, backend, shape, tokens=t, combine=True))

    def memory_pass(self, *, bytes_moved: FloatArray) -> OpTime:
        """See `OperatorSource.memory_pass`."""
        moved = np.asarray(bytes_moved, dtype=np.float64)
        return self._answer(_PASS_FLOOR_US + moved / (self._hbm * _PASS_FRACTION))
