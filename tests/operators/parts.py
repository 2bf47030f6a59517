"""GPUs and fabrics for the operator tests, independent of the profile catalogue."""

from __future__ import annotations

from typing import Final

from planner.domain.dtypes import ComputeDtype
from planner.domain.hardware import (
    Availability,
    FabricKind,
    FabricProfile,
    GpuKubernetes,
    GpuProfile,
    ScaleUp,
    ScaleUpKind,
    Vendor,
)


def make_gpu(
    gpu_id: str,
    *,
    vendor: Vendor = Vendor.NVIDIA,
    architecture: str = "Hopper",
    capability: str | None = "9.0",
    hbm: float = 3350.0,
    peaks: tuple[float, float | None, float | None] = (989.0, 1979.0, None),
    scale_up: float = 450.0,
    pairwise: float | None = None,
    kind: ScaleUpKind = ScaleUpKind.SWITCHED,
    domain: int = 8,
    host: str = "amd64",
) -> GpuProfile:
    """A GPU with the figures that operators read."""
    names = (ComputeDtype.BF16, ComputeDtype.FP8, ComputeDtype.FP4)
    return GpuProfile(
        id=gpu_id,
        name=gpu_id,
        vendor=vendor,
        architecture=architecture,
        availability=Availability.AVAILABLE,
        memory_gib=80.0,
        memory_marketing_gb=80.0,
        hbm_gbps=hbm,
        peak_tflops={n: p for n, p in zip(names, peaks, strict=True) if p is not None},
        scale_up=ScaleUp(
            name="link",
            kind=kind,
            aggregate_gbps=scale_up,
            pairwise_gbps=pairwise if pairwise is not None else scale_up,
            domain_gpus=domain,
        ),
        pcie_gbps=64.0,
        kubernetes=GpuKubernetes(resource="nvidia.com/gpu", label_key="nvidia.com/gpu.product"),
        sources={},
        compute_capability=capability,
        host_arch=host,
    )


GPUS: Final = {
    "h100-sxm": make_gpu("h100-sxm"),
    "h200-sxm": make_gpu("h200-sxm", hbm=4800.0),
    "h20": make_gpu("h20", hbm=4000.0, peaks=(148.0, 296.0, None)),
    "b200-sxm": make_gpu(
        "b200-sxm", architecture="Blackwell", capability="10.0", hbm=7700.0,
        peaks=(2250.0, 4500.0, 9000.0), scale_up=900.0,
    ),
    "gb200": make_gpu(
        "gb200", architecture="Blackwell", capability="10.0", hbm=8000.0, peaks=(2500.0, 5000.0, 10000.0),
        scale_up=900.0, domain=72, host="arm64",
    ),
    "l40s": make_gpu(
        "l40s", architecture="Ada", capability="8.9", hbm=864.0, peaks=(362.0, 733.0, None), scale_up=32.0,
        kind=ScaleUpKind.PCIE,
    ),
    "mi300x": make_gpu(
        "mi300x", vendor=Vendor.AMD, architecture="CDNA3 gfx942", capability=None, hbm=5300.0,
        peaks=(1307.0, 2615.0, None), scale_up=448.0, pairwise=64.0, kind=ScaleUpKind.MESH,
    ),
    "tpu-v6e": make_gpu(
        "tpu-v6e", vendor=Vendor.GOOGLE, architecture="TPU", capability=None, hbm=1638.0,
        peaks=(918.0, None, None), scale_up=180.0, kind=ScaleUpKind.TORUS, domain=256,
    ),
}  # fmt: skip


def make_fabric(
    fabric_id: str,
    *,
    kind: FabricKind = FabricKind.INFINIBAND,
    gbps: float = 50.0,
    fraction: float = 0.97,
    latency: float = 4.0,
    gpu_initiated: bool = True,
    dispatch: float = 1.0,
    combine: float = 1.0,
) -> FabricProfile:
    """A scale-out fabric with the figures that operators read."""
    return FabricProfile(
        id=fabric_id,
        name=fabric_id,
        kind=kind,
        gbps_per_gpu=gbps,
        achievable_fraction=fraction,
        latency_us=latency,
        rdma=True,
        gpu_initiated=gpu_initiated,
        nics_per_gpu=1.0,
        gbit_per_nic=400.0,
        sources={},
        dispatch_factor=dispatch,
        combine_factor=combine,
    )


CX7: Final = make_fabric("cx7")
EFA: Final = make_fabric(
    "efa", kind=FabricKind.EFA, gpu_initiated=False, latency=15.0, dispatch=1.5, combine=1.3
)
