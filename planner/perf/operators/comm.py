"""Time of collectives and MoE exchanges from bandwidth, latency and topology.

Alpha-beta forms fitted to the NCCL, custom all-reduce, DeepEP and NVLink all-to-all tables of aiconfigurator-core
0.12.0 and to the published DeepEP, pplx-garden and MORI point tables; groups wider than a scale-up domain are
hierarchical. Bandwidths are bytes per microsecond (GB/s x 1e3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.domain.deployment import All2AllBackend
from planner.domain.engine import EngineName
from planner.domain.hardware import FabricProfile, GpuProfile, ScaleUpKind
from planner.perf.operators.base import Collective, ExchangeShape, FloatArray
from planner.perf.operators.efficiency import Family
from planner.perf.operators.work import copy_bytes, distinct_groups, gathered_row_bytes

_MIN_GBPS: Final = 1e-3  # a missing scale-out network prices as unusable, not as an error
_PCIE_FRACTION: Final = 0.62  # of nominal PCIe bandwidth that peer copies reach (L40S, RTX PRO 6000 tables)
_RING_ALPHA_US: Final = {Family.BLACKWELL: 11.0, Family.AMPERE: 9.5, Family.CDNA: 12.0}
_CUSTOM_ALPHA_US: Final = {Family.BLACKWELL: 5.6, Family.CDNA: 7.0, Family.AMPERE: 5.5}
_CPU_PROXY_FACTOR: Final = (
    5.0  # transports without GPU-initiated RDMA: 5-10x (pplx-kernels IBRC against IBGDA)
)
_CX7_FRACTION: Final = 0.95  # of nominal that ConnectX-7 reaches in collectives
_CX7_BUS_FRACTION: Final = 0.96  # of effective NIC bandwidth DeepEP reaches (47-48 of 50 GB/s)
_HT_SYNC_US: Final = {EngineName.VLLM: 150.0, EngineName.SGLANG: 30.0, EngineName.TRTLLM: 30.0}

_LOW_LATENCY: Final = frozenset(
    {All2AllBackend.DEEPEP_LOW_LATENCY, All2AllBackend.MORI_LOW_LATENCY, All2AllBackend.NIXL_EP}
)
_HIGH_THROUGHPUT: Final = frozenset(
    {All2AllBackend.DEEPEP_HIGH_THROUGHPUT, All2AllBackend.DEEPEP_V2, All2AllBackend.MORI_HIGH_THROUGHPUT}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Scale-up and scale-out interconnect as the exchange formulas need them."""

    gpu: GpuProfile
    fabric: FabricProfile
    family: Family
    engine: EngineName

    def domain(self, ranks_per_domain: int, group: int) -> int:
        """Ranks of a group of `group` that share one scale-up domain."""
        return max(1, min(ranks_per_domain, self.gpu.scale_up.domain_gpus, group))

    def scale_up(self, gpus: int) -> float:
        """Bytes per us one GPU exchanges inside the domain with a group of `gpus`."""
        return max(self.gpu.scale_up.group_gbps(gpus), _MIN_GBPS) * 1e3

    @property
    def nic(self) -> float:
        """Bytes per us per GPU between domains, large messages."""
        gbps = max(self.fabric.effective_gbps, _MIN_GBPS)
        if self.over_pcie:
            gbps = min(gbps, max(self.gpu.scale_up.aggregate_gbps * _PCIE_FRACTION, _MIN_GBPS))
        return gbps * 1e3

    def exchange_nic(self, factor: float) -> float:
        """Bytes per us per GPU of MoE exchanges; factors are relative to ConnectX-7 of the same nominal rate."""
        if factor <= 1.0:
            return self.nic
        scale = self.fabric.gbps_per_gpu * _CX7_FRACTION / max(self.fabric.effective_gbps, _MIN_GBPS)
        return self.nic * max(scale, 1.0)

    @property
    def over_pcie(self) -> bool:
        """Whether peers and NIC share one PCIe link."""
        return self.gpu.scale_up.kind is ScaleUpKind.PCIE

    def together(self, far: FloatArray, near: FloatArray) -> FloatArray:
        """Time of traffic to other domains and inside the own one: side by side, or in turn over one PCIe link."""
        return far + near if self.over_pcie else np.maximum(far, near)

    def bus_fraction(self, gpus: int) -> float:
        """Share of nominal scale-up bandwidth large collectives reach."""
        if self.over_pcie:
            return _PCIE_FRACTION / math.sqrt(max(gpus, 2) / 2.0)
        return 0.74


def collective_us(
    net: Network,
    kind: Collective,
    *,
    gpus: int,
    ranks_per_domain: int,
    payload: FloatArray,
    graph: bool,
    host_us: float,
) -> FloatArray:
    """Microseconds of one collective; `payload` bytes as in the protocol; `host_us` is added outside graphs."""
    if gpus <= 1:
        return np.zeros_like(payload)
    g = net.domain(ranks_per_domain, gpus)
    nodes = math.ceil(gpus / g)
    if nodes > 1:
        us = _across_us(net, kind, g=g, nodes=nodes, payload=payload)
    else:
        us = _inside_us(net, kind, g, payload)
    return us if graph else us + host_us


def _ring_alpha(net: Network, g: int) -> float:
    base = _RING_ALPHA_US.get(net.family, 7.0)
    return base * (1.0 + 0.75 * (math.log2(max(g, 2)) - 1.0))


def _inside_us(net: Network, kind: Collective, g: int, payload: FloatArray) -> FloatArray:
    if g <= 1:
        return np.zeros_like(payload)
    bus = net.scale_up(g) * net.bus_fraction(g)
    share = (g - 1) / g
    if kind is Collective.ALL_REDUCE:
        ring = _ring_alpha(net, g) + 2.0 * share * payload / bus
        alpha = _CUSTOM_ALPHA_US.get(net.family, 4.4)
        one_shot = alpha + (g - 1) * payload / (net.scale_up(g) * 0.45)
        two_shot = 1.5 * alpha + 2.0 * share * payload / (net.scale_up(g) * 0.36)
        return np.minimum(np.minimum(one_shot, two_shot), ring)
    alpha = _ring_alpha(net, g) * (0.54 if kind is Collective.ALL_TO_ALL else 0.66)
    return alpha + share * payload / bus


def _across_us(net: Network, kind: Collective, *, g: int, nodes: int, payload: FloatArray) -> FloatArray:
    alpha = 12.0 + net.fabric.latency_us * (1.0 + math.log2(nodes))
    between = (nodes - 1) / nodes
    if kind is Collective.ALL_REDUCE:
        shard = payload / g
        scatter = _inside_us(net, Collective.REDUCE_SCATTER, g, payload)
        return 2.0 * scatter + 2.0 * (alpha + between * shard / net.nic)
    if kind is Collective.ALL_TO_ALL:
        n = g * nodes
        far = alpha + payload * (1.0 - g / n) / net.nic
        return np.maximum(far, _inside_us(net, kind, g, payload * g / n)) + 0.1 * far
    return alpha + between * payload / g / net.nic + _inside_us(net, kind, g, payload)


def exchange_us(
    net: Network, backend: All2AllBackend, shape: ExchangeShape, *, tokens: FloatArray, combine: bool
) -> FloatArray:
    """Microseconds of one MoE dispatch or combine with `tokens` per rank."""
    if shape.ep <= 1:
        return np.zeros_like(tokens)
    copy = copy_bytes(shape, combine=combine)
    if backend is All2AllBackend.ALLGATHER_REDUCESCATTER:
        kind = Collective.REDUCE_SCATTER if combine else Collective.ALL_GATHER
        total = tokens * shape.ep * gathered_row_bytes(shape, combine=combine)
        return collective_us(
            net,
            kind,
            gpus=shape.ep,
            ranks_per_domain=shape.ranks_per_domain,
            payload=total,
            graph=True,
            host_us=0.0,
        )
    if backend in _LOW_LATENCY:
        return low_latency_us(net, shape, tokens=tokens, copy_bytes=copy, combine=combine)
    if backend in _HIGH_THROUGHPUT:
        return high_throughput_us(net, backend, shape, tokens=tokens, copy_bytes=copy, combine=combine)
    return _nvlink_us(net, backend, shape, tokens=tokens, copy_bytes=copy, combine=combine)


def _far_factor(net: Network, *, combine: bool, low_latency: bool) -> float:
    factor = net.fabric.combine_factor if combine else net.fabric.dispatch_factor
    if low_latency and not net.fabric.gpu_initiated and factor <= 1.0:
        return _CPU_PROXY_FACTOR
    return max(factor, 1.0)


def low_latency_us(
    net: Network, shape: ExchangeShape, *, tokens: FloatArray, copy_bytes: float, combine: bool
) -> FloatArray:
    """One copy per chosen expert; only copies that leave the domain cross the NIC: B = B_nic / (1 - g/EP)."""
    g = net.domain(shape.ranks_per_domain, shape.ep)
    sent = tokens * shape.top_k * copy_bytes
    slow = net.family is Family.BLACKWELL
    near_fraction = 0.55 if combine else 0.65
    if slow:
        near_fraction = 0.80 if combine else 0.66
    elif net.family is Family.CDNA:
        near_fraction = 0.80 if combine else 0.72  # MORI over xGMI
    near = sent * (g / shape.ep if shape.ep > g else 1.0) / (net.scale_up(g) * near_fraction)
    alpha = 19.0 if slow else 12.0
    if shape.ep <= g:
        return alpha + near
    far_share = 1.0 - g / shape.ep
    factor = _far_factor(net, combine=combine, low_latency=True)
    far = factor * (
        10.0 + net.fabric.latency_us + sent * far_share / (net.exchange_nic(factor) * _CX7_BUS_FRACTION)
    )
    return alpha + net.together(far, near)


def host_sync_us(net: Network, backend: All2AllBackend) -> float:
    """Stall of a dispatch whose receive counts the host must read before it can launch the expert kernels.

    Published floors are 250-330 us eager for vLLM; about half of it is launches that overlap in a real step.
    """
    return _HT_SYNC_US[net.engine] if backend is All2AllBackend.DEEPEP_HIGH_THROUGHPUT else 0.0


def high_throughput_us(
    net: Network,
    backend: All2AllBackend,
    shape: ExchangeShape,
    *,
    tokens: FloatArray,
    copy_bytes: float,
    combine: bool,
) -> FloatArray:
    """One copy per distinct node over the NIC, then one per distinct rank inside the domain."""
    g = net.domain(shape.ranks_per_domain, shape.ep)
    nodes = math.ceil(shape.ep / g)
    ranks = distinct_groups(shape.ep, experts=shape.experts_total, top_k=shape.top_k)
    near = (
        tokens * ranks * copy_bytes / (net.scale_up(g) * (0.84 if combine else 0.78))
        if g > 1
        else 0.0 * tokens
    )
    alpha = 56.0 if combine else 34.0
    if backend is All2AllBackend.DEEPEP_V2:
        alpha *= 0.8
    if not combine:
        alpha += host_sync_us(net, backend)
    if nodes <= 1:
        return alpha + near
    copies = distinct_groups(nodes, experts=shape.experts_total, top_k=shape.top_k) * (nodes - 1) / nodes
    factor = _far_factor(net, combine=combine, low_latency=False)
    far = factor * (
        8.0
        + net.fabric.latency_us
        + tokens * copies * copy_bytes / (net.exchange_nic(factor) * _CX7_BUS_FRACTION)
    )
    return alpha + net.together(far, near)


def _nvlink_us(
    net: Network,
    backend: All2AllBackend,
    shape: ExchangeShape,
    *,
    tokens: FloatArray,
    copy_bytes: float,
    combine: bool,
) -> FloatArray:
    """FlashInfer / TensorRT-LLM NVLink kernels: de-duplicated per rank; falls to the NIC outside the domain."""
    g = net.domain(shape.ranks_per_domain, shape.ep)
    ranks = distinct_groups(shape.ep, experts=shape.experts_total, top_k=shape.top_k)
    one_sided = backend is All2AllBackend.FLASHINFER_NVLINK_ONE_SIDED
    fraction = 0.6 if one_sided else 0.48
    alpha = (23.0 if combine else 18.0) if one_sided else (14.0 if combine else 12.0 + 13.5)
    # the two-sided path runs a prepare kernel first
    prepare = 0.007 * tokens if not one_sided and not combine else 0.0
    near = prepare + tokens * ranks * copy_bytes * min(g / shape.ep, 1.0) / (net.scale_up(g) * fraction)
    if shape.ep <= g:
        return alpha + near
    far = tokens * shape.top_k * copy_bytes * (1.0 - g / shape.ep) / net.nic
    return alpha + _CPU_PROXY_FACTOR * net.fabric.latency_us + net.together(far, near)
