"""Environment variables of the engine containers, each for a reason that the plan gives.

Sources: llm-d wide-ep and pd-disaggregation guides; vLLM 0.33.0 envs.py; DeepEP and NVSHMEM notes quoted there.
"""

from __future__ import annotations

from planner.domain.deployment import All2AllBackend, Role, RolePlan
from planner.domain.hardware import FabricKind, Vendor
from planner.export.layout import Balancing, RoleLayout
from planner.export.objects import EnvSource, EnvVar, FieldRef, SecretKeyRef
from planner.export.options import ExportOptions, RoleHardware, SourceKind
from planner.export.providers import ProviderOverlay, Rdma

KEEP_ALIVE_S = 120  # above the 90 s for which the sidecar keeps idle connections to prefill pods
QP_DEPTH_DEFAULT = 1024  # NVSHMEM's own default as the GLM guide uses it
HF_CACHE = "/var/cache/huggingface"
JIT_CACHE = "/var/cache/vllm"
DEEPEP_NVSHMEM = (All2AllBackend.DEEPEP_LOW_LATENCY, All2AllBackend.DEEPEP_HIGH_THROUGHPUT)


def nvlink_multinode(layout: RoleLayout, hardware: RoleHardware) -> bool:
    """Whether a group spans pods that share one NVLink domain (NVL72 class)."""
    return layout.pods_per_group > 1 and hardware.gpu.scale_up.domain_gpus > hardware.node.gpus_per_node


def engine_env(
    role: RolePlan,
    layout: RoleLayout,
    *,
    hardware: RoleHardware,
    overlay: ProviderOverlay,
    options: ExportOptions,
    disaggregated: bool,
    startup_s: int,
) -> tuple[EnvVar, ...]:
    """All variables of one role's engine container, in a fixed order."""
    env: list[EnvVar] = []
    if options.model_source.kind is SourceKind.HUB:
        source = options.model_source
        ref = SecretKeyRef(name=source.secret, key=source.secret_key)
        env.append(EnvVar(name="HF_TOKEN", value_from=EnvSource(secret_key_ref=ref)))
        env.append(EnvVar(name="HF_HUB_CACHE", value=HF_CACHE))
    values: dict[str, str] = {
        "USER": "llm-d",  # torch >= 2.11 asks for a user name (vllm#44548)
        "DP_SIZE_LOCAL": str(layout.ranks_per_pod),
        "TP_SIZE": str(role.parallelism.tp),
        "VLLM_ENGINE_READY_TIMEOUT_S": str(startup_s),
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": str(KEEP_ALIVE_S),
        "VLLM_SKIP_P2P_CHECK": "1",
        "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "1",
        "VLLM_LOGGING_LEVEL": "INFO",
        "VLLM_CACHE_ROOT": f"{JIT_CACHE}/vllm",
        "CUDA_CACHE_PATH": f"{JIT_CACHE}/cuda",
        "CCACHE_DIR": f"{JIT_CACHE}/ccache",
        "FLASHINFER_WORKSPACE_BASE": f"{JIT_CACHE}/flashinfer",
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_IFNAME": "eth0",
    }
    if role.parallelism.dp > 1:
        values["VLLM_RANDOMIZE_DP_DUMMY_INPUTS"] = "1"
    if disaggregated:
        pod_ip = EnvSource(field_ref=FieldRef(field_path="status.podIP"))
        env.append(EnvVar(name="VLLM_NIXL_SIDE_CHANNEL_HOST", value_from=pod_ip))
    if hardware.gpu.vendor is Vendor.NVIDIA:
        values["TRITON_LIBCUDA_PATH"] = "/usr/lib64"
        values["NVIDIA_GDRCOPY"] = "enabled"
        values |= _nvidia(role, layout, hardware=hardware)
    if role.dbo and role.all2all is All2AllBackend.DEEPEP_HIGH_THROUGHPUT:
        values["VLLM_DBO_COMM_SMS"] = "20"
    if disaggregated or layout.pods_per_group > 1:
        values |= dict(overlay.env)
        if overlay.rdma is Rdma.DRA_GPU_AND_NIC and layout.gpus_per_pod == hardware.node.gpus_per_node:
            pairs = (f"{i}:mlx5_{i}:1" for i in range(layout.gpus_per_pod))
            values["DEEP_EP_DEVICE_TO_HCA_MAPPING"] = ",".join(pairs)
    env.extend(EnvVar(name=k, value=v) for k, v in values.items())
    return tuple(env)


def _nvidia(role: RolePlan, layout: RoleLayout, *, hardware: RoleHardware) -> dict[str, str]:
    out: dict[str, str] = {}
    mnnvl = nvlink_multinode(layout, hardware)
    spans = layout.pods_per_group > 1 and layout.balancing is not Balancing.SINGLE
    backend = role.all2all
    if backend in DEEPEP_NVSHMEM and spans:
        out["NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME"] = "eth0"
        if mnnvl:
            out["NVSHMEM_CUMEM_HANDLE_TYPE"] = "FABRIC"
        elif hardware.fabric.kind in (FabricKind.INFINIBAND, FabricKind.ROCE):
            out["NVSHMEM_REMOTE_TRANSPORT"] = "ibgda"
            out["NVSHMEM_IB_ENABLE_IBGDA"] = "true"
        if backend is All2AllBackend.DEEPEP_LOW_LATENCY:
            out["NVSHMEM_SYMMETRIC_SIZE"] = "16G"
    if backend is All2AllBackend.DEEPEP_LOW_LATENCY:
        depth = (role.max_num_batched_tokens + 1) * 2
        if depth > QP_DEPTH_DEFAULT:
            out["NVSHMEM_QP_DEPTH"] = str(depth)
        if mnnvl:
            out["VLLM_DEEPEP_LOW_LATENCY_USE_MNNVL"] = "1"
    if mnnvl or (
        hardware.gpu.scale_up.domain_gpus > hardware.node.gpus_per_node and role.role is not Role.AGGREGATED
    ):
        out |= {
            "NCCL_MNNVL_ENABLE": "1",
            "NCCL_CUMEM_ENABLE": "1",
            "NCCL_NVLS_ENABLE": "1",
            "UCX_CUDA_IPC_ENABLE_MNNVL": "y",
            "UCX_TLS": "cuda_ipc,rc,cuda_copy",
            "UCX_MEMTYPE_CACHE": "n",
            "UCX_MEMTYPE_REG_WHOLE": "n",
        }
    return out
