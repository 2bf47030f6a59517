"""Operator source from fitted curves, falling back to the datasheet source query by query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from planner.domain.deployment import All2AllBackend
from planner.domain.dtypes import ComputeDtype, KvDtype, WeightFormat
from planner.domain.engine import EngineName
from planner.domain.hardware import FabricProfile, GpuProfile
from planner.domain.model import Attention, LinearAttention
from planner.domain.provenance import Provenance
from planner.perf.operators import reference as ref
from planner.perf.operators import work
from planner.perf.operators.base import Collective, ExchangeShape, ExpertShape, FloatArray, OpTime
from planner.perf.operators.datasheet import DatasheetOperators
from planner.perf.operators.reference import Roofline
from planner.perf.operators.surface import Library, Surface

_DENSE: Final = 2.0 ** np.arange(0.0, 22.25, 0.25)
_BYTES: Final = 2.0 ** np.arange(6.0, 36.25, 0.25)
_BATCH: Final = 2.0 ** np.arange(0.0, 12.25, 0.5)
_CONTEXT: Final = 2.0 ** np.arange(0.0, 22.25, 0.5)
_TINY: Final = 1e-3
_HGX: Final = 8  # ranks per node of the multi-node DeepEP rows
_MEASURED_NODES: Final = 8
_NVLINK_HIDDEN: Final = 7168
_LOW_LATENCY: Final = (All2AllBackend.DEEPEP_LOW_LATENCY, All2AllBackend.NIXL_EP)
_HIGH_THROUGHPUT: Final = (All2AllBackend.DEEPEP_HIGH_THROUGHPUT, All2AllBackend.DEEPEP_V2)


@dataclass(frozen=True, slots=True)
class Curve:
    """Time of one shape over one load: log us at ascending log loads, monotone."""

    log_load: FloatArray
    log_us: FloatArray
    low: float  # covered loads
    high: float
    provenance: Provenance

    def at(self, load: FloatArray) -> OpTime:
        """Evaluate; loads outside the data are `within` False."""
        us = np.exp(np.interp(np.log2(np.maximum(load, _TINY)), self.log_load, self.log_us))
        return OpTime(us, self.provenance, (load >= self.low) & (load <= self.high))


@dataclass(frozen=True, slots=True)
class Plane:
    """Time of one shape over batch and context: log us on the dense grid, monotone in both."""

    log_us: FloatArray
    log_limit: FloatArray  # log2 of the longest measured context at each dense batch; -1 where there is none
    provenance: Provenance

    def at(self, batch: FloatArray, context: FloatArray) -> OpTime:
        """Evaluate by bilinear interpolation in log space."""
        x, i = _cell(batch, _BATCH.size)
        y, j = _cell(context, _CONTEXT.size)
        grid = self.log_us
        low = grid[i, j] * (1.0 - y) + grid[i, j + 1] * y
        high = grid[i + 1, j] * (1.0 - y) + grid[i + 1, j + 1] * y
        us = np.exp(low * (1.0 - x) + high * x)
        longest = np.where(x > 0.0, np.minimum(self.log_limit[i], self.log_limit[i + 1]), self.log_limit[i])
        return OpTime(us, self.provenance, np.log2(np.maximum(context, 1.0)) <= longest)


def _cell(load: FloatArray, size: int) -> tuple[FloatArray, np.ndarray[tuple[int, ...], np.dtype[np.intp]]]:
    """Fraction and index of `load` on a half-octave grid that starts at 1."""
    position = np.clip(np.log2(np.maximum(load, 1.0)) * 2.0, 0.0, size - 1.001)
    index = position.astype(np.intp)
    return position - index, index


def grid_residual(surface: Surface, residual: FloatArray, loads: tuple[FloatArray, ...]) -> FloatArray:
    """Interpolate a residual grid (1-D or 2-D) at `loads` of one shape; edges hold."""
    if len(surface.axes) == 1:
        x = np.log2(np.maximum(loads[0], _TINY))
        return np.asarray(np.interp(x, np.log2(surface.axes[0]), residual), dtype=np.float64)
    positions = []
    for axis, load in zip(surface.axes, loads, strict=True):
        at = np.interp(
            np.log2(np.maximum(load, _TINY)), np.log2(axis), np.arange(axis.size, dtype=np.float64)
        )
        index = np.minimum(at.astype(np.intp), axis.size - 2)
        positions.append((at - index, index))
    (x, i), (y, j) = positions
    low = residual[i, j] * (1.0 - y) + residual[i, j + 1] * y
    high = residual[i + 1, j] * (1.0 - y) + residual[i + 1, j + 1] * y
    return np.asarray(low * (1.0 - x) + high * x, dtype=np.float64)


def _clamped(surface: Surface | None, point: FloatArray) -> FloatArray:
    """`point` moved into the measured range: beyond it the residual of the edge holds."""
    if surface is None:
        return point
    return np.clip(point, surface.features.min(axis=0), surface.features.max(axis=0))


class FittedOperators:
    """`OperatorSource` over a `Library` of measured curves.

    Curves of another GPU with the same silicon (`library.gpu` differs from `gpu.id`) are moved to this GPU's
    peaks and are never `within`.
    """

    def __init__(
        self, gpu: GpuProfile, fabric: FabricProfile, engine: EngineName, *, library: Library
    ) -> None:
        self.fallback = DatasheetOperators(gpu, fabric, engine)
        self.gpu = gpu
        self.library = library
        self._own = library.gpu == gpu.id or library.gpu in gpu.aliases
        self._roof = (
            Roofline(
                hbm_gbps=library.hbm_gbps,
                peak_tflops=library.peak_tflops,
                scale_up_gbps=library.scale_up_gbps,
            )
            if self._own
            else Roofline.of(gpu)
        )
        self._curves: dict[tuple[object, ...], Curve | None] = {}
        self._planes: dict[tuple[object, ...], Plane | None] = {}
        self._prefill_lines: dict[tuple[object, ...], FloatArray] = {}

    # --- curves ---

    def _find(self, *keys: str) -> Surface | None:
        return next((s for k in keys if (s := self.library.surfaces.get(k)) is not None), None)

    def _provenance(self, surface: Surface, point: FloatArray) -> tuple[Provenance, bool]:
        exact = surface.nearest(point)[1] < _TINY
        known = self._own and (exact or surface.inside(point))
        return (Provenance.OPERATOR_TABLE if exact and self._own else Provenance.FITTED), known

    def _curve(
        self,
        surface: Surface | None,
        point: FloatArray,
        dense: FloatArray,
        reference: Callable[[FloatArray], FloatArray],
        *,
        extra_us: float = 0.0,
        measured: bool = True,
    ) -> Curve | None:
        """Curve of one shape; `measured` False for shapes the table does not distinguish. None without a table."""
        if surface is None:
            return None
        r = grid_residual(surface, surface.residual(point), (dense,))
        us = extra_us + np.maximum.accumulate(reference(dense) * np.exp(r))
        provenance, known = self._provenance(surface, point)
        if not measured:
            provenance, known = Provenance.FITTED, False
        covered = surface.axes[0][surface.covered[surface.nearest(point)[0]]]
        low, high = (float(covered[0]), float(covered[-1])) if known and covered.size else (1.0, 0.0)
        return Curve(np.log2(dense), np.log(us), low, high, provenance)

    def gemm(self, fmt: WeightFormat, *, n: int, k: int, m: FloatArray) -> OpTime:
        """See `OperatorSource.gemm`."""
        key = ("gemm", fmt, n, k)
        if key not in self._curves:
            self._curves[key] = self._curve(
                self._find(f"gemm/{fmt.value}"),
                ref.gemm_features(n, k),
                _DENSE,
                lambda x: ref.gemm_us(self._roof, fmt, n=n, k=k, m=x),
            )
        curve = self._curves[key]
        if curve is None:
            return self.fallback.gemm(fmt, n=n, k=k, m=m)
        return curve.at(np.asarray(m, dtype=np.float64))

    def experts(self, shape: ExpertShape, *, slots: FloatArray) -> OpTime:
        """See `OperatorSource.experts`."""
        key = ("experts", shape)
        if key not in self._curves:
            self._curves[key] = self._expert_curve(shape)
        curve = self._curves[key]
        if curve is None:
            return self.fallback.experts(shape, slots=slots)
        return curve.at(np.asarray(slots, dtype=np.float64))

    def _expert_curve(self, shape: ExpertShape) -> Curve | None:
        point = ref.expert_features(shape)

        def curve(*keys: str) -> Curve | None:
            return self._curve(
                self._find(*keys), point, _DENSE, lambda x: ref.experts_us(self._roof, shape, x)
            )

        fmt = shape.fmt.value
        both = (f"experts{shape.matrices}/{fmt}", f"experts{5 - shape.matrices}/{fmt}")
        four_bit = shape.fmt in (WeightFormat.NVFP4, WeightFormat.MXFP4)
        if four_bit and ComputeDtype.FP4 not in self.gpu.peak_tflops and self._find(*both) is None:
            # without a 4-bit unit engines run the weight-only kernel they use for int4
            return self._borrowed(replace(shape, fmt=WeightFormat.INT4))
        main = curve(*both)
        low = curve(f"experts{shape.matrices}-low/{fmt}")
        if main is None or low is None or low.high < low.low:
            return main
        # engines with a low-latency kernel use it where it is faster
        better = np.where(2.0**low.log_load <= low.high, np.minimum(low.log_us, main.log_us), main.log_us)
        return Curve(main.log_load, np.maximum.accumulate(better), main.low, main.high, main.provenance)

    def _borrowed(self, shape: ExpertShape) -> Curve | None:
        curve = self._expert_curve(shape)
        return None if curve is None else replace(curve, low=1.0, high=0.0, provenance=Provenance.FITTED)

    # --- attention ---

    def _attention_surface(self, attention: Attention, kv: KvDtype, phase: str) -> Surface | None:
        other = KvDtype.BF16 if kv is KvDtype.FP8 else KvDtype.FP8
        keys = [ref.attention_key(attention, kv, phase)]
        if not isinstance(attention, LinearAttention):
            keys.append(ref.attention_key(attention, other, phase))
        return self._find(*keys)

    def attention_prefill(
        self, attention: Attention, *, tp: int, kv: KvDtype, new_tokens: FloatArray, prefix: FloatArray
    ) -> OpTime:
        """See `OperatorSource.attention_prefill`.

        The tables have no prefix: with one, the time is that of the prompt with the same roofline time.
        """
        new = np.asarray(new_tokens, dtype=np.float64)
        before = np.asarray(prefix, dtype=np.float64)
        key = ("prefill", attention, tp, kv)
        zero = np.zeros_like(_DENSE)
        if key not in self._curves:
            self._curves[key] = self._curve(
                self._attention_surface(attention, kv, "prefill"),
                ref.attention_features(attention, tp),
                _DENSE,
                lambda x: ref.prefill_us(self._roof, attention, tp=tp, kv=kv, new=x, prefix=zero),
            )
        curve = self._curves[key]
        if curve is None:
            return self.fallback.attention_prefill(attention, tp=tp, kv=kv, new_tokens=new, prefix=before)
        if isinstance(attention, LinearAttention) or not before.any():
            return curve.at(new + 0.0 * before)
        new, before = np.broadcast_arrays(new, before)
        scale = ref.prefill_us(self._roof, attention, tp=tp, kv=kv, new=new, prefix=before)
        line = self._prefill_lines.get(key)
        if line is None:
            line = np.log(ref.prefill_us(self._roof, attention, tp=tp, kv=kv, new=_DENSE, prefix=zero))
            self._prefill_lines[key] = line
        us = np.exp(np.interp(np.log(scale), line, curve.log_us))
        within = (new >= curve.low) & (new + before <= curve.high) & (before <= new)
        return OpTime(us, Provenance.FITTED, within)

    def attention_decode(
        self, attention: Attention, *, tp: int, kv: KvDtype, batch: FloatArray, context: FloatArray
    ) -> OpTime:
        """See `OperatorSource.attention_decode`."""
        b, c = np.asarray(batch, dtype=np.float64), np.asarray(context, dtype=np.float64)
        if isinstance(attention, LinearAttention):
            return self._scan_step(attention, tp=tp, kv=kv, batch=b + 0.0 * c)
        key = ("decode", attention, tp, kv)
        if key not in self._planes:
            self._planes[key] = self._plane(attention, tp=tp, kv=kv)
        plane = self._planes[key]
        if plane is None:
            return self.fallback.attention_decode(attention, tp=tp, kv=kv, batch=b, context=c)
        return plane.at(b, c)

    def _plane(self, attention: Attention, *, tp: int, kv: KvDtype) -> Plane | None:
        surface = self._attention_surface(attention, kv, "decode")
        if surface is None:
            return None
        point = ref.attention_features(attention, tp)
        batch, context = (x.ravel() for x in np.meshgrid(_BATCH, _CONTEXT, indexing="ij"))
        r = grid_residual(surface, surface.residual(point), (batch, context))
        us = ref.decode_us(self._roof, attention, tp=tp, kv=kv, batch=batch, context=context) * np.exp(r)
        us = us.reshape(_BATCH.size, _CONTEXT.size)
        us = np.maximum.accumulate(np.maximum.accumulate(us, axis=0), axis=1)
        provenance, known = self._provenance(surface, point)
        limit = np.full(_BATCH.size, -1.0)
        if known:
            covered = surface.covered[surface.nearest(point)[0]]
            longest = np.where(covered, np.log2(surface.axes[1]), -1.0).max(axis=1)
            inside = surface.axes[0][-1] >= _BATCH
            limit[inside] = np.interp(np.log2(_BATCH[inside]), np.log2(surface.axes[0]), longest)
        return Plane(np.log(us), limit, provenance)

    def _scan_step(self, attention: LinearAttention, *, tp: int, kv: KvDtype, batch: FloatArray) -> OpTime:
        key = ("scan", attention, tp)
        if key not in self._curves:
            one = np.ones_like(_DENSE)
            self._curves[key] = self._curve(
                self._attention_surface(attention, kv, "decode"),
                ref.attention_features(attention, tp),
                _DENSE,
                lambda x: ref.decode_us(self._roof, attention, tp=tp, kv=kv, batch=x, context=one),
            )
        curve = self._curves[key]
        if curve is None:
            return self.fallback.attention_decode(attention, tp=tp, kv=kv, batch=batch, context=batch)
        return curve.at(batch)

    # --- communication ---

    def collective(
        self, kind: Collective, *, gpus: int, ranks_per_domain: int, payload_bytes: FloatArray, graph: bool
    ) -> OpTime:
        """See `OperatorSource.collective`.

        Groups wider than a domain are priced by the datasheet source, but never below the in-domain phase.
        """
        size = np.asarray(payload_bytes, dtype=np.float64)
        domain = min(ranks_per_domain, self.gpu.scale_up.domain_gpus, gpus)
        key = ("collective", kind, domain, graph)
        if self._own and domain > 1 and key not in self._curves:
            self._curves[key] = self._collective_curve(kind, domain, graph=graph)
        curve = self._curves.get(key)
        if curve is not None and domain == gpus:
            return curve.at(size)
        wide = self.fallback.collective(
            kind, gpus=gpus, ranks_per_domain=ranks_per_domain, payload_bytes=size, graph=graph
        )
        if curve is None:
            return wide
        return OpTime(np.maximum(wide.us, curve.at(size).us), wide.provenance, wide.within)

    def _collective_curve(self, kind: Collective, gpus: int, *, graph: bool) -> Curve | None:
        keys = [f"nccl/{kind.value}"]
        if kind is Collective.ALL_REDUCE:
            keys = [f"allreduce/{'graph' if graph else 'eager'}", "allreduce/graph", *keys]
        surface = self._find(*keys)
        if surface is None or ref.log2(gpus)[0] > surface.features.max() + _TINY:
            return None
        curve = self._curve(
            surface, ref.log2(gpus), _BYTES, lambda x: ref.collective_us(self._roof, gpus=gpus, payload=x)
        )
        if curve is None or graph or (self._find(keys[0]) is surface and kind is Collective.ALL_REDUCE):
            return curve
        host = np.log(np.exp(curve.log_us) + self.fallback.eager_us)
        return Curve(curve.log_load, host, curve.low, curve.high, curve.provenance)

    def dispatch(self, backend: All2AllBackend, shape: ExchangeShape, *, tokens: FloatArray) -> OpTime:
        """See `OperatorSource.dispatch`."""
        return self._exchange(backend, shape, tokens, combine=False)

    def combine(self, backend: All2AllBackend, shape: ExchangeShape, *, tokens: FloatArray) -> OpTime:
        """See `OperatorSource.combine`."""
        return self._exchange(backend, shape, tokens, combine=True)

    def _exchange(
        self, backend: All2AllBackend, shape: ExchangeShape, tokens: FloatArray, *, combine: bool
    ) -> OpTime:
        key = ("exchange", backend, shape, combine)
        if key not in self._curves:
            self._curves[key] = self._exchange_curve(backend, shape, combine=combine)
        curve = self._curves[key]
        t = np.asarray(tokens, dtype=np.float64)
        if curve is None:
            source = self.fallback
            call = source.combine if combine else source.dispatch
            return call(backend, shape, tokens=t)
        return curve.at(t)

    def _exchange_curve(
        self, backend: All2AllBackend, shape: ExchangeShape, *, combine: bool
    ) -> Curve | None:
        """Tables hold single-domain DeepEP and NVLink kernels, and multi-node DeepEP relative to the formula."""
        if backend is All2AllBackend.ALLGATHER_REDUCESCATTER:
            return self._gathered_curve(shape, combine=combine)
        if shape.ep <= 1 or not self._own:
            return None
        phase = "combine" if combine else "dispatch"
        domain = min(shape.ranks_per_domain, self.gpu.scale_up.domain_gpus, shape.ep)
        nodes = -(-shape.ep // domain)
        copy = work.copy_bytes(shape, combine=combine)
        if backend in (*_LOW_LATENCY, *_HIGH_THROUGHPUT):
            name = "ll" if backend in _LOW_LATENCY else "ht"
            extra = 0.0 if combine else self.fallback.host_sync_us(backend)
            if nodes > 1:
                surface = self._find(f"deepep-{name}-nodes/{phase}") if domain == _HGX else None
                return self._curve(
                    surface,
                    _clamped(surface, ref.log2(nodes)),
                    _DENSE,
                    lambda x: self.fallback.kernel_exchange_us(backend, shape, tokens=x, combine=combine),
                    extra_us=extra,
                    measured=nodes <= _MEASURED_NODES and self.fallback.fabric.dispatch_factor <= 1.0,
                )
            # the table has one width per system; narrower groups send fewer bytes off the rank
            width = max(self.library.constants.get("deepep_ranks", 8.0), 2.0)
            share = (1.0 - 1.0 / shape.ep) / (1.0 - 1.0 / width)
            return self._curve(
                self._find(f"deepep-{name}/{phase}"),
                ref.log2(shape.hidden, shape.top_k),
                _DENSE,
                lambda x: ref.exchange_us(self._roof, bytes_per_token=copy * shape.top_k * share, tokens=x),
                extra_us=extra,
                measured=shape.ep == width,
            )
        side = "one" if backend is All2AllBackend.FLASHINFER_NVLINK_ONE_SIDED else "two"
        if nodes > 1:
            return None
        surface = self._find(f"nvlink-{side}/{phase}-{shape.fmt.value}", f"nvlink-{side}/{phase}")
        return self._curve(
            surface,
            _clamped(surface, ref.log2(shape.ep)),
            _DENSE,
            lambda x: ref.exchange_us(self._roof, bytes_per_token=copy * shape.top_k, tokens=x),
            measured=shape.hidden == _NVLINK_HIDDEN,
        )

    def _gathered_curve(self, shape: ExchangeShape, *, combine: bool) -> Curve | None:
        """All-gather or reduce-scatter over the group, plus the pass expert kernels make over foreign rows."""
        kind = Collective.REDUCE_SCATTER if combine else Collective.ALL_GATHER
        row = work.gathered_row_bytes(shape, combine=combine)
        t = self.collective(
            kind,
            gpus=shape.ep,
            ranks_per_domain=shape.ranks_per_domain,
            payload_bytes=_DENSE * row * shape.ep,
            graph=True,
        )
        us = t.us
        if combine:
            per_row = self.library.constants.get("foreign_row_us_per_kib", 0.0)
            us = us + per_row * shape.hidden / 512.0 * _DENSE * (shape.ep - 1.0)
        inside = _DENSE[t.within]
        low, high = (float(inside[0]), float(inside[-1])) if inside.size else (1.0, 0.0)
        return Curve(np.log2(_DENSE), np.log(np.maximum(us, _TINY)), low, high, t.provenance)

    def memory_pass(self, *, bytes_moved: FloatArray) -> OpTime:
        """See `OperatorSource.memory_pass`."""
        return self.fallback.memory_pass(bytes_moved=bytes_moved)
