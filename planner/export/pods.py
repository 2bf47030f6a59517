"""Pod templates of engine groups: containers, probes, resources, volumes, placement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from planner.domain.deployment import RolePlan
from planner.domain.errors import InputError, Issue
from planner.domain.hardware import Vendor
from planner.domain.model import ModelSpec
from planner.export.environment import HF_CACHE, JIT_CACHE, engine_env, nvlink_multinode
from planner.export.layout import ROUTER_PORT, Balancing, RoleLayout
from planner.export.objects import (
    Capabilities,
    Container,
    ContainerPort,
    EmptyDir,
    HostPath,
    HttpGet,
    ImageSource,
    PodResourceClaim,
    PodSpec,
    Probe,
    PvcSource,
    ResourceClaimRef,
    Resources,
    SecurityContext,
    Toleration,
    Volume,
    VolumeMount,
)
from planner.export.options import ExportOptions, ModelSource, RoleHardware, SourceKind
from planner.export.placement import affinity_for, node_selector
from planner.export.providers import ProviderOverlay, Rdma, rdma_request

CPU_PER_GPU = 4  # wide-ep guide: 32 CPUs for 8 GPUs
MEMORY_GIB_PER_GPU = 64  # wide-ep guide: 512Gi for 8 GPUs
SHM_GIB = 2  # about 32 MB per local rank plus scratch; wide-ep guide
SHM_TP_GIB = 20  # TP ranks exchange activations through /dev/shm; pd-disaggregation guide
LOAD_GIB_PER_S = 0.3  # slow end of hub downloads and network volumes: 45 minutes for R1, as in the guides
GRAPH_CAPTURE_S = 600
SCRATCH_GIB = 32
SHARED_CACHE = ("/var/cache/llm-d/hf-cache", "/var/cache/llm-d/jit-cache")
DRA_CLAIM = "rdma"
COMPUTE_DOMAIN_CLAIM = "compute-domain-channel"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleContext:
    """All that decides the pods of one role."""

    plan: RolePlan
    layout: RoleLayout
    hardware: RoleHardware
    overlay: ProviderOverlay
    foreign: bool  # the overlay was chosen against the node profile
    model: ModelSpec
    model_name: str  # what is downloaded and served: the checkpoint the plan names
    options: ExportOptions
    disaggregated: bool
    name: str  # of the deployment
    engine_image: str
    sidecar_image: str
    claim_template: str | None
    compute_domain_template: str | None


def startup_seconds(model: ModelSpec, options: ExportOptions) -> int:
    """Longest time a pod may take to serve: load at the slow end, plus compilation and graph capture; whole minutes."""
    if options.startup_minutes is not None:
        return options.startup_minutes * 60
    load = model.weight_bytes / 2**30 / LOAD_GIB_PER_S
    return max(1800, math.ceil((load + GRAPH_CAPTURE_S) / 60) * 60)


def probes(layout: RoleLayout, startup_s: int) -> tuple[Probe, Probe, Probe]:
    """Startup, liveness and readiness. Never /v1/models, which stays 200 after an engine death."""
    if layout.supervisor_port is not None:
        port, ready = "supervisor", "/readyz"
    else:
        port, ready = "rank0", "/health"
    return (
        Probe(
            http_get=HttpGet(path="/health", port=port),
            period_seconds=5,
            failure_threshold=math.ceil(startup_s / 5),
        ),
        Probe(http_get=HttpGet(path="/health", port=port), period_seconds=30),
        Probe(http_get=HttpGet(path=ready, port=port), period_seconds=10),
    )


def pod_spec(context: RoleContext, *, script: str, follower: bool) -> PodSpec:
    """Pod of a role running `script`. A follower of a spanning rank serves nothing and has no HTTP probes."""
    c = context
    startup_s = startup_seconds(c.model, c.options)
    startup, liveness, readiness = probes(c.layout, startup_s)
    volumes, mounts = _volumes(c)
    claims = _claims(c)
    engine = Container(
        name="vllm",
        image=c.engine_image,
        command=("/bin/bash", "-c"),
        args=(script,),
        env=engine_env(
            c.plan,
            c.layout,
            hardware=c.hardware,
            overlay=c.overlay,
            options=c.options,
            disaggregated=c.disaggregated,
            startup_s=startup_s,
        ),
        ports=() if follower else _engine_ports(c.layout),
        startup_probe=None if follower else startup,
        liveness_probe=None if follower else liveness,
        readiness_probe=None if follower else readiness,
        resources=_resources(c, claims),
        security_context=_security(c),
        volume_mounts=mounts,
    )
    mnnvl = nvlink_multinode(c.layout, c.hardware)
    return PodSpec(
        service_account_name=c.name,
        host_ipc=True if mnnvl else None,
        host_pid=True if mnnvl else None,
        node_selector=node_selector(c.hardware),
        affinity=affinity_for(c.layout, c.hardware, c.overlay, name=c.name),
        tolerations=_tolerations(c.hardware),
        resource_claims=claims,
        init_containers=(_sidecar(c),) if c.layout.sidecar and not follower else (),
        containers=(engine,),
        volumes=volumes,
        termination_grace_period_seconds=60,
    )


def _tolerations(hardware: RoleHardware) -> tuple[Toleration, ...]:
    """GPU nodes are tainted with their resource; arm64 nodes of mixed clusters with their architecture."""
    gpu = Toleration(key=hardware.node.gpu_resource)
    arm = "arm64" in (hardware.node.host_arch, hardware.gpu.host_arch)
    return (gpu, Toleration(key="kubernetes.io/arch", operator="Equal", value="arm64")) if arm else (gpu,)


def _engine_ports(layout: RoleLayout) -> tuple[ContainerPort, ...]:
    ports = [ContainerPort(container_port=p, name=f"rank{i}") for i, p in enumerate(layout.engine_ports)]
    if layout.supervisor_port is not None:
        ports.append(ContainerPort(container_port=layout.supervisor_port, name="supervisor"))
    return tuple(ports)


def _sidecar(context: RoleContext) -> Container:
    layout = context.layout
    args = [f"--port={ROUTER_PORT}", f"--model-server-port={layout.engine_port}"]
    if layout.ranks_per_pod > 1:
        args.append(f"--data-parallel-size={layout.ranks_per_pod}")
    args += ["--kv-connector=nixlv2", "--secure-proxy=false", "--zap-log-level=1"]
    return Container(
        name="routing-proxy",
        image=context.sidecar_image,
        restart_policy="Always",
        args=tuple(args),
        ports=tuple(
            ContainerPort(container_port=p, name=f"proxy{i}") for i, p in enumerate(layout.router_ports)
        ),
        security_context=SecurityContext(allow_privilege_escalation=False, run_as_non_root=True),
    )


def _security(context: RoleContext) -> SecurityContext:
    if context.overlay.privileged and _needs_network(context):
        return SecurityContext(privileged=True, run_as_user=0, run_as_group=0)
    add = (
        ["IPC_LOCK", "SYS_RAWIO", *context.overlay.extra_capabilities]
        if _needs_network(context)
        else ["IPC_LOCK"]
    )
    return SecurityContext(run_as_user=0, run_as_group=0, capabilities=Capabilities(add=tuple(add)))


def _needs_network(context: RoleContext) -> bool:
    return context.disaggregated or context.layout.pods_per_group > 1


def _share(total: int | None, wanted: int, gpus: int, gpus_per_node: int) -> int:
    return wanted if total is None else max(1, min(wanted, total * gpus // gpus_per_node))


def _resources(context: RoleContext, claims: tuple[PodResourceClaim, ...]) -> Resources:
    node, gpus = context.hardware.node, context.layout.gpus_per_pod
    memory = _share(node.memory_gib_allocatable, MEMORY_GIB_PER_GPU * gpus, gpus, node.gpus_per_node)
    cpu = _share(node.cpu_allocatable, CPU_PER_GPU * gpus, gpus, node.gpus_per_node)
    both = {"memory": f"{memory}Gi", "ephemeral-storage": f"{_ephemeral_gib(context)}Gi"}
    if not any(c.name.startswith(DRA_CLAIM) for c in claims) or context.overlay.rdma is Rdma.DRA_NIC:
        both[node.gpu_resource] = str(gpus)
    if _needs_network(context):
        rdma = rdma_request(context.overlay, node, gpus, foreign=context.foreign)
        if rdma is not None:
            both[rdma[0]] = str(rdma[1])
    return Resources(
        limits=both,
        requests={"cpu": str(cpu), **both},
        claims=tuple(ResourceClaimRef(name=c.name) for c in claims),
    )


def _checkpoint_gib(context: RoleContext) -> int:
    return math.ceil(context.model.weight_bytes / 2**30 * 1.1)


def host_cache(context: RoleContext) -> tuple[str, str] | None:
    """Folders on the node for checkpoint and kernels: the provider's, or shared ones when pods of one node cannot each
    keep a downloaded copy. Raises InputError ``export.ephemeral_too_small`` when not even one copy fits.
    """
    if context.options.model_source.kind is not SourceKind.HUB:
        return None
    node = context.hardware.node
    limit = node.ephemeral_gib_allocatable
    if context.overlay.host_cache is not None or limit is None:
        return context.overlay.host_cache
    copy = SCRATCH_GIB + _checkpoint_gib(context)
    pods = min(context.layout.pods, node.gpus_per_node // context.layout.gpus_per_pod)
    if copy > limit:
        raise InputError(
            Issue(
                code="export.ephemeral_too_small",
                what=f"{copy} GiB of scratch space on node '{node.id}', which has {limit} GiB",
                why="a hub download keeps the whole checkpoint on the node, and the pod would stay Pending",
                fix="--set model.source=pvc or --set model.source=oci",
            )
        )
    return SHARED_CACHE if copy * pods > limit else None


def _ephemeral_gib(context: RoleContext) -> int:
    """Scratch space: logs and kernels, plus the checkpoint when it is downloaded into the pod."""
    downloaded = context.options.model_source.kind is SourceKind.HUB and host_cache(context) is None
    return SCRATCH_GIB + (_checkpoint_gib(context) if downloaded else 0)


def _claims(context: RoleContext) -> tuple[PodResourceClaim, ...]:
    claims: list[PodResourceClaim] = []
    if _needs_network(context) and context.claim_template is not None:
        claims += [
            PodResourceClaim(name=f"{DRA_CLAIM}-{i}", resource_claim_template_name=context.claim_template)
            for i in range(context.layout.gpus_per_pod)
        ]
    if context.compute_domain_template is not None:
        claims.append(
            PodResourceClaim(
                name=COMPUTE_DOMAIN_CLAIM, resource_claim_template_name=context.compute_domain_template
            )
        )
    return tuple(claims)


def _volumes(context: RoleContext) -> tuple[tuple[Volume, ...], tuple[VolumeMount, ...]]:
    source = context.options.model_source
    shm = SHM_TP_GIB if context.plan.parallelism.tp > 1 else SHM_GIB
    cache = host_cache(context)
    volumes = [Volume(name="dshm", empty_dir=EmptyDir(medium="Memory", size_limit=f"{shm}Gi"))]
    mounts = [VolumeMount(name="dshm", mount_path="/dev/shm")]  # noqa: S108
    if source.kind is SourceKind.HUB:
        where = HostPath(path=cache[0]) if cache else None
        volumes.append(Volume(name="hf-cache", host_path=where, empty_dir=None if where else EmptyDir()))
        mounts.append(VolumeMount(name="hf-cache", mount_path=HF_CACHE))
    else:
        volumes.append(_model_volume(source))
        mounts.append(VolumeMount(name="model", mount_path=source.mount_path, read_only=True))
    where = HostPath(path=cache[1]) if cache else None
    volumes.append(Volume(name="jit-cache", host_path=where, empty_dir=None if where else EmptyDir()))
    mounts.append(VolumeMount(name="jit-cache", mount_path=JIT_CACHE))
    return tuple(volumes), tuple(mounts)


def _model_volume(source: ModelSource) -> Volume:
    if source.kind is SourceKind.PVC:
        claim = PvcSource(claim_name=source.claim, read_only=True)
        return Volume(name="model", persistent_volume_claim=claim)
    return Volume(name="model", image=ImageSource(reference=source.reference))


def active_ports(layout: RoleLayout, pool_ports: tuple[int, ...]) -> Mapping[str, str]:
    """Annotation that tells the router which of the pool's ports a pod with fewer ranks serves."""
    if layout.router_ports == pool_ports:
        return {}
    return {"llm-d.ai/active-ports": ",".join(map(str, layout.router_ports))}


def group_label(layout: RoleLayout) -> bool:
    """Whether followers must stay out of the pool (a rank that spans pods serves on its leader only)."""
    return layout.balancing is Balancing.SPANNING


def accelerator_vendor(hardware: RoleHardware) -> str:
    """Value of ``llm-d.ai/accelerator-vendor``."""
    return "amd" if hardware.gpu.vendor is Vendor.AMD else hardware.gpu.vendor.value
