"""What differs between clouds, as data: RDMA, caches, closeness, privileges, environment.

Sources: provider overlays of the llm-d guides (wide-ep, pd-disaggregation), read August to autumn 2026; the llm-d
infrastructure notes for GKE, AKS, OCI and OpenShift; NVIDIA's DRA driver and GKE DRANET documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from planner.domain.errors import InputError, Issue, did_you_mean
from planner.domain.hardware import FabricKind, NodeShape, Provider, Vendor
from planner.export.options import RoleHardware


class Rdma(StrEnum):
    """How a pod is given its network devices."""

    RESOURCE = "resource"  # extended resource of a device plugin
    DRA_GPU_AND_NIC = "dra-gpu-and-nic"  # one claim per GPU, paired with a NIC on the same PCIe root
    DRA_NIC = "dra-nic"  # NICs by claim, GPUs by device plugin
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderOverlay:
    """Everything one provider adds to the pods."""

    id: str
    title: str
    rdma: Rdma = Rdma.RESOURCE
    rdma_resource: str | None = None  # default when the node profile names none
    env: Mapping[str, str] = field(default_factory=dict)
    host_cache: tuple[str, str] | None = None  # folders on the node: checkpoint, compiled kernels
    privileged: bool = False
    extra_capabilities: tuple[str, ...] = ()
    prefer_topology: tuple[tuple[str, int], ...] = ()  # node label, weight
    require_topology: str | None = None
    rdma_per_gpu: int | None = None  # None: a shared plugin that counts pods
    roce: bool = False
    efa: bool = False
    http_route_timeout: bool = True
    monitoring_api: str = "monitoring.coreos.com/v1"
    needs: tuple[str, ...] = ()  # what the cluster must have; written as comments
    gpus: tuple[str, ...] = ()  # how the ids of the GPUs it offers begin; empty: any


_GKE_ENV = {
    "NCCL_TUNER_PLUGIN": "none",
    "NCCL_NET_PLUGIN": "",
    "NVSHMEM_DISABLE_GDRCOPY": "true",
    "UCX_IB_ROCE_REACHABILITY_MODE": "all",
}
_GKE_TOPOLOGY = (("cloud.google.com/gce-topology-block", 2), ("cloud.google.com/gce-topology-subblock", 1))
_GKE_CACHE = (
    "/mnt/stateful_partition/kube-ephemeral-ssd/shared_disk/hf-cache",
    "/mnt/stateful_partition/kube-ephemeral-ssd/shared_disk/jit-cache",
)

_GKE_A3U = ProviderOverlay(
    id="gke-a3u",
    title="GKE A3 Ultra (H200), managed DRANET",
    gpus=("h200",),
    rdma=Rdma.DRA_GPU_AND_NIC,
    env=_GKE_ENV,
    host_cache=_GKE_CACHE,
    privileged=True,
    needs=("managed DRANET on the node pool (device classes gpu.nvidia.com and mrdma.google.com)",),
    prefer_topology=_GKE_TOPOLOGY,
    roce=True,
    http_route_timeout=False,
    monitoring_api="monitoring.googleapis.com/v1",
)

PROVIDERS: tuple[ProviderOverlay, ...] = (
    ProviderOverlay(
        id="bare-metal-ib",
        title="bare metal with InfiniBand",
        rdma_resource="rdma/ib",
        needs=("a shared RDMA device plugin that offers rdma/ib, and unlimited locked memory",),
    ),
    ProviderOverlay(
        id="coreweave",
        title="CoreWeave",
        rdma_resource="rdma/ib",
        env={"NCCL_IB_HCA": "ibp", "NVSHMEM_HCA_PREFIX": "ibp"},
        host_cache=("/mnt/local/hf-cache", "/mnt/local/jit-cache"),
        prefer_topology=(("backend.coreweave.cloud/leafgroup-name", 1),),
    ),
    _GKE_A3U,
    replace(_GKE_A3U, id="gke-a4", title="GKE A4 (B200), managed DRANET", gpus=("b200",)),
    ProviderOverlay(
        id="gke-a4x",
        title="GKE A4X (GB200), NICs by claim",
        gpus=("gb200", "gb300"),
        rdma=Rdma.DRA_NIC,
        env={
            "NCCL_TUNER_PLUGIN": "none",
            "NCCL_NET_PLUGIN": "",
            "UCX_TLS": "rc_mlx5,rc,cuda_copy,cuda_ipc,sm,shm,self",
        },
        host_cache=_GKE_CACHE,
        extra_capabilities=("NET_ADMIN",),
        needs=("managed DRANET on the node pool (device class mrdma.google.com)",),
        prefer_topology=_GKE_TOPOLOGY,
        roce=True,
        http_route_timeout=False,
        monitoring_api="monitoring.googleapis.com/v1",
    ),
    ProviderOverlay(
        id="gke-tcpx",
        title="GKE A3 High and Mega (H100, TCPX or TCPXO): single-pod groups only",
        gpus=("h100",),
        rdma=Rdma.NONE,
        http_route_timeout=False,
        monitoring_api="monitoring.googleapis.com/v1",
    ),
    ProviderOverlay(
        id="aws-p5en",
        title="AWS p5en (H200, EFA v3)",
        gpus=("h200",),
        rdma_resource="vpc.amazonaws.com/efa",
        rdma_per_gpu=2,
        needs=("the EFA device plugin",),
        require_topology="topology.kubernetes.io/zone",
        efa=True,
    ),
    ProviderOverlay(
        id="aws-p6",
        title="AWS p6 (B200, EFA v4)",
        gpus=("b200", "b300", "gb200", "gb300"),
        rdma_resource="vpc.amazonaws.com/efa",
        require_topology="topology.kubernetes.io/zone",
        rdma_per_gpu=1,
        needs=("the EFA device plugin",),
        prefer_topology=(("topology.k8s.aws/network-node-layer-3", 1),),
        efa=True,
    ),
    ProviderOverlay(
        id="oci",
        title="OCI bare metal (RoCE)",
        rdma_resource="nvidia.com/sriov-rdma-vf",
        host_cache=("/mnt/numa0/hf-cache", "/mnt/numa0/jit-cache"),
        roce=True,
    ),
    ProviderOverlay(
        id="azure",
        title="Azure ND series (InfiniBand)",
        rdma_resource="rdma/ib",
        needs=("locked memory above the 64 KiB default of AKS (an NRI ulimit plugin), or NIXL fails",),
    ),
    ProviderOverlay(
        id="openshift",
        title="OpenShift with the NVIDIA network operator (RoCE)",
        rdma_resource="rdma/roce_gdr",
        needs=("oc adm policy add-scc-to-user privileged -z NAME: engines run as root with IPC_LOCK",),
        roce=True,
    ),
    ProviderOverlay(
        id="amd",
        title="AMD Instinct with virtual NICs",
        gpus=("mi",),
        rdma_resource="amd.com/vnic",
        rdma_per_gpu=1,
        env={"NCCL_IB_DISABLE": "1", "MORI_SHMEM_HEAP_SIZE": str(16 * 2**30)},
    ),
)


def find_provider(name: str) -> ProviderOverlay:
    """The overlay called `name`. Raises InputError ``export.provider_unknown``."""
    for overlay in PROVIDERS:
        if overlay.id == name:
            return overlay
    known = [p.id for p in PROVIDERS]
    raise InputError(
        Issue(
            code="export.provider_unknown",
            what=f"provider '{name}' is not known",
            why="an overlay decides RDMA resources, caches, privileges and environment",
            fix=f"{did_you_mean(name, known)} (known: {', '.join(known)})",
            where="--provider",
        )
    )


def check_offered(overlay: ProviderOverlay, hardware: RoleHardware) -> None:
    """Raise InputError ``export.provider_gpu`` when `overlay` was named for GPUs it does not have."""
    gpu = hardware.gpu.id
    if not overlay.gpus or gpu.startswith(overlay.gpus) or overlay_for(hardware).id == overlay.id:
        return
    fits = [p.id for p in PROVIDERS if not p.gpus or gpu.startswith(p.gpus)]
    raise InputError(
        Issue(
            code="export.provider_gpu",
            what=f"a plan for '{gpu}' on provider '{overlay.id}'",
            why=f"{overlay.title} has no such GPU: the pods would stay Pending",
            fix=f"--provider {' or '.join(fits)}, or plan for the GPUs there are",
            where="--provider",
        )
    )


def overlay_for(hardware: RoleHardware) -> ProviderOverlay:
    """The overlay that fits a node profile."""
    node, gpu = hardware.node, hardware.gpu
    if gpu.vendor is Vendor.AMD and node.provider in (Provider.GENERIC, Provider.OPENSHIFT):
        return find_provider("amd")
    if node.provider is Provider.GKE:
        if hardware.fabric.kind in (FabricKind.TCPX, FabricKind.TCPXO):
            return find_provider("gke-tcpx")
        grace = gpu.host_arch == "arm64" or node.host_arch == "arm64"
        return find_provider("gke-a4x" if grace else "gke-a4" if "b200" in gpu.id else "gke-a3u")
    if node.provider is Provider.EKS:
        return find_provider("aws-p5en" if gpu.id.startswith(("h100", "h200", "a100")) else "aws-p6")
    fixed = {
        Provider.COREWEAVE: "coreweave",
        Provider.AKS: "azure",
        Provider.OCI: "oci",
        Provider.OPENSHIFT: "openshift",
    }
    return find_provider(fixed.get(node.provider, "bare-metal-ib"))


def uses_roce(overlay: ProviderOverlay, hardware: RoleHardware) -> bool:
    """Whether DeepEP would run over Ethernet, which needs the patched NVSHMEM image."""
    return overlay.roce or hardware.fabric.kind is FabricKind.ROCE


def rdma_request(
    overlay: ProviderOverlay, node: NodeShape, gpus_per_pod: int, *, foreign: bool
) -> tuple[str, int] | None:
    """Extended resource and amount for one pod, None when NICs come another way or there are none.

    The node profile decides; `foreign` says that the overlay was chosen against the profile and decides instead. Shared
    device plugins count pods, not NICs: exactly 1. EFA devices and virtual NICs are counted, so a pod takes its share.
    """
    if overlay.rdma is not Rdma.RESOURCE:
        return None
    if foreign:
        if overlay.rdma_resource is None:
            return None
        return overlay.rdma_resource, (overlay.rdma_per_gpu or 0) * gpus_per_pod or 1
    if node.rdma_resource is None:
        return None
    return node.rdma_resource, max(1, node.rdma_count * gpus_per_pod // node.gpus_per_node)
