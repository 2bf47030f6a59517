"""GPUs, scale-out fabrics and node shapes. Bandwidths are GB/s (1e9 bytes) per direction unless named otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from planner.domain.dtypes import ComputeDtype
from planner.domain.provenance import Source


class Vendor(StrEnum):
    """GPU vendor; decides kernels, device plugin and collectives library."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"
    GOOGLE = "google"
    HUAWEI = "huawei"


class Availability(StrEnum):
    """Whether a part can be bought; announced parts are listed but never planned with by default."""

    AVAILABLE = "available"
    EXPORT_RESTRICTED = "export-restricted"
    ANNOUNCED = "announced"


class ScaleUpKind(StrEnum):
    """Topology inside a scale-up domain: a switch gives any pair the full rate, a mesh only one link."""

    SWITCHED = "switched"
    MESH = "mesh"
    BRIDGE = "bridge"
    PCIE = "pcie"
    TORUS = "torus"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUp:
    """Interconnect inside one scale-up domain."""

    name: str
    kind: ScaleUpKind
    aggregate_gbps: float
    pairwise_gbps: float
    domain_gpus: int

    def group_gbps(self, gpus: int) -> float:
        """GB/s per direction one GPU can exchange with a group of `gpus` (itself included).

        On a mesh a small group uses only its own links: 2 GPUs of an MI300X share one of seven.
        """
        if gpus <= 1:
            return self.aggregate_gbps
        if self.kind is ScaleUpKind.MESH:
            return min(self.aggregate_gbps, self.pairwise_gbps * (gpus - 1))
        return self.aggregate_gbps


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A dated price, an editable input and never a truth."""

    usd_per_gpu_hour: float
    tier: str
    source: str
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuKubernetes:
    """How Kubernetes sees the GPU."""

    resource: str
    label_key: str
    label_values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProfile:
    """One accelerator. Peaks are dense TFLOP/s; `sources` has an entry for every figure, keyed by field name."""

    id: str
    name: str
    vendor: Vendor
    architecture: str
    availability: Availability
    memory_gib: float  # what the runtime can allocate in total (CUDA total), GiB
    memory_marketing_gb: float
    hbm_gbps: float
    peak_tflops: Mapping[ComputeDtype, float]
    scale_up: ScaleUp
    pcie_gbps: float
    kubernetes: GpuKubernetes
    sources: Mapping[str, Source]
    sm_count: int | None = None
    tdp_w: float | None = None
    compute_capability: str | None = None
    host_arch: str = "amd64"
    mamf_fraction: Mapping[ComputeDtype, float] = field(default_factory=dict)
    prices: tuple[Price, ...] = ()
    aliases: tuple[str, ...] = ()
    notes: str = ""

    @property
    def memory_bytes(self) -> float:
        """Total device memory in bytes as the engine sees it."""
        return self.memory_gib * 2**30

    def peak(self, dtype: ComputeDtype) -> float:
        """Dense peak in TFLOP/s, falling back to the next wider format the part supports."""
        for candidate in (dtype, ComputeDtype.FP8, ComputeDtype.BF16):
            if candidate is ComputeDtype.FP8 and dtype is ComputeDtype.BF16:
                continue
            if candidate in self.peak_tflops:
                return self.peak_tflops[candidate]
        return self.peak_tflops[ComputeDtype.BF16]


class Provider(StrEnum):
    """Where the nodes live; selects the manifest overlay."""

    GENERIC = "generic"
    COREWEAVE = "coreweave"
    GKE = "gke"
    EKS = "eks"
    AKS = "aks"
    OCI = "oci"
    OPENSHIFT = "openshift"


class FabricKind(StrEnum):
    """Scale-out network family."""

    INFINIBAND = "infiniband"
    ROCE = "roce"
    EFA = "efa"
    TCPX = "tcpx"
    TCPXO = "tcpxo"
    ETHERNET = "ethernet"
    ICI = "ici"
    NONE = "none"  # no scale-out: single node or one scale-up domain only


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricProfile:
    """Scale-out network between scale-up domains, per GPU."""

    id: str
    name: str
    kind: FabricKind
    gbps_per_gpu: float  # nominal GB/s per direction per GPU
    achievable_fraction: float  # of nominal, large messages
    latency_us: float  # one-way small-message latency between GPUs of two nodes
    rdma: bool
    gpu_initiated: bool  # IBGDA-class: DeepEP low-latency kernels can run over it
    nics_per_gpu: float
    gbit_per_nic: float
    sources: Mapping[str, Source]
    dispatch_factor: float = 1.0  # all-to-all dispatch time relative to ConnectX-7 InfiniBand
    combine_factor: float = 1.0
    provider: Provider = Provider.GENERIC  # the one cloud that has this network; generic = any data centre
    aliases: tuple[str, ...] = ()
    notes: str = ""

    @property
    def effective_gbps(self) -> float:
        """Large-message GB/s per GPU."""
        return self.gbps_per_gpu * self.achievable_fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """A Kubernetes node type: what one node offers and how the scheduler names it."""

    id: str
    name: str
    provider: Provider
    gpu: str
    gpus_per_node: int
    fabric: str
    gpu_resource: str
    node_labels: Mapping[str, str]
    sources: Mapping[str, Source]
    rdma_resource: str | None = None
    rdma_count: int = 0
    cpu_allocatable: int | None = None
    memory_gib_allocatable: int | None = None
    ephemeral_gib_allocatable: int | None = None
    topology_key: str | None = None
    host_arch: str = "amd64"
    notes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """GPUs of one type that a problem may use: the GPU, its fabric, its node shape and how many there are."""

    gpu: GpuProfile
    fabric: FabricProfile
    node: NodeShape
    gpus: int

    @property
    def gpus_per_node(self) -> int:
        """GPUs of one node."""
        return self.node.gpus_per_node

    @property
    def scale_up_gpus(self) -> int:
        """GPUs that reach each other without the scale-out fabric (an NVL72 rack spans 18 nodes)."""
        return max(self.gpu.scale_up.domain_gpus, 1)
