"""Target dynamo: one DynamoGraphDeployment (nvidia.com/v1alpha1) with a frontend and a vLLM worker per role.

The operator injects addresses and node ranks into workers of several nodes; workers take vLLM's flags beside
``--disaggregation-mode``. Source: Dynamo's DeepSeek-R1 recipes, 2026. Pods of a worker are balanced by the KV router.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from planner.domain.deployment import Role, RouterKind
from planner.domain.errors import InputError, Issue
from planner.export.command import engine_command
from planner.export.intent import encode
from planner.export.layout import Balancing
from planner.export.naming import PLAN_ANNOTATION, VERSION_ANNOTATION
from planner.export.objects import Manifest, ObjectMeta, Volume
from planner.export.options import SourceKind
from planner.export.pods import RoleContext, pod_spec, startup_seconds
from planner.export.render import Prepared
from planner.export.targets.base import Export, document_file
from planner.export.workloads import GUIDE_LABEL, workload_labels

RUNTIME_IMAGE = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.8.0"  # last version seen in a published recipe
_OPERATOR_FLAGS = frozenset(
    {
        "port",
        "disable-access-log-for-endpoints",
        "data-parallel-multi-port-external-lb",
        "data-parallel-external-lb",
        "data-parallel-supervisor-port",
        "data-parallel-size-local",
        "data-parallel-start-rank",
        "data-parallel-rank",
        "data-parallel-address",
        "data-parallel-rpc-port",
        "nnodes",
        "node-rank",
        "master-addr",
        "master-port",
    }
)
_POD_ENV = frozenset({"DP_SIZE_LOCAL", "TP_SIZE", "VLLM_HTTP_TIMEOUT_KEEP_ALIVE"})
_MODES = {Role.PREFILL: "prefill", Role.DECODE: "decode"}


def write(prepared: Prepared) -> Export:
    """One object. Raises InputError ``export.dynamo_unsupported`` for sources and routers it has no form for."""
    p, options = prepared, prepared.options
    if options.model_source.kind is SourceKind.OCI:
        raise InputError(
            Issue(
                code="export.dynamo_unsupported",
                what="model.source=oci",
                why="Dynamo workers read a volume claim or download from the hub",
                fix="--set model.source=pvc",
                where="--set",
            )
        )
    image = options.images.engine or RUNTIME_IMAGE
    services: dict[str, object] = {"Frontend": _frontend(prepared, image)}
    for role in p.roles:
        name = _MODES.get(role.plan.role, "worker")
        services[name] = _worker(prepared, role, image)
    spec: dict[str, object] = {"backendFramework": "vllm"}
    if options.model_source.kind is SourceKind.PVC:
        spec["pvcs"] = [{"name": options.model_source.claim, "create": False}]
    spec["services"] = services
    manifest = Manifest(
        api_version="nvidia.com/v1alpha1",
        kind="DynamoGraphDeployment",
        metadata=ObjectMeta(
            name=p.name,
            namespace=options.namespace,
            labels={GUIDE_LABEL: p.name},
            annotations={VERSION_ANNOTATION: options.created_by, PLAN_ANNOTATION: encode(p.plan)},
        ),
        body={"spec": spec},
    )
    file = document_file(manifest.file_name, manifest.plain(), p.header())
    notes = (
        () if options.images.engine else (f"image {image}: name a newer runtime with --set image.engine=",)
    )
    return Export(files=(file,), stream=file.text, manifests=(manifest,), notes=notes)


def _frontend(prepared: Prepared, image: str) -> dict[str, object]:
    mode = {RouterKind.RANDOM: "random", RouterKind.ROUND_ROBIN: "round-robin"}
    router = mode.get(prepared.plan.router.kind, "kv")
    return {
        "componentType": "frontend",
        "replicas": 1,
        "envs": [{"name": "DYN_ROUTER_MODE", "value": router}],
        "extraPodSpec": {"mainContainer": {"image": image}},
    }


def _worker(prepared: Prepared, role: RoleContext, image: str) -> dict[str, object]:
    layout, source = role.layout, prepared.options.model_source
    ours = pod_spec(role, script="", follower=False)
    engine = ours.containers[0]
    resources = engine.resources
    rdma: Mapping[str, str] = {}
    if resources is not None:
        fixed = ("memory", "ephemeral-storage", "cpu", role.hardware.node.gpu_resource)
        rdma = {k: v for k, v in resources.limits.items() if k not in fixed}
    limits: dict[str, object] = {"gpu": str(layout.gpus_per_pod)}
    if resources is not None:
        limits["memory"] = resources.limits["memory"]
    if rdma:
        limits["custom"] = dict(rdma)
    startup = startup_seconds(role.model, prepared.options)
    out: dict[str, object] = {"componentType": "worker"}
    mode = _MODES.get(role.plan.role)
    if mode is not None:
        out["subComponentType"] = mode
    out["replicas"] = layout.groups
    if layout.pods_per_group > 1:
        out["multinode"] = {"nodeCount": layout.pods_per_group}
    out["resources"] = {"limits": limits}
    if source.kind is SourceKind.PVC:
        out["volumeMounts"] = [{"name": source.claim, "mountPoint": source.mount_path}]
    out["sharedMemory"] = {"size": _shm(ours.volumes)}
    out["labels"] = workload_labels(role)
    if source.kind is SourceKind.HUB:
        out["envFromSecret"] = source.secret
    out["extraPodSpec"] = {
        "nodeSelector": ours.node_selector,
        "tolerations": ours.tolerations,
        "affinity": ours.affinity,
        "mainContainer": {
            "image": image,
            "workingDir": "/workspace",
            "command": ["python3", "-m", "dynamo.vllm"],
            "args": _arguments(prepared, role),
            "env": [e for e in engine.env if e.name not in _POD_ENV and e.name != "HF_TOKEN"],
            "securityContext": engine.security_context,
            "startupProbe": {
                "httpGet": {"path": "/health", "port": 9090},
                "periodSeconds": 10,
                "timeoutSeconds": 10,
                "failureThreshold": -(-startup // 10),
            },
        },
    }
    pod = out["extraPodSpec"]
    if isinstance(pod, dict):
        out["extraPodSpec"] = {k: v for k, v in pod.items() if v}
    return out


def _shm(volumes: tuple[Volume, ...]) -> str:
    sizes = [v.empty_dir.size_limit for v in volumes if v.name == "dshm" and v.empty_dir is not None]
    return sizes[0] or "2Gi"


def _arguments(prepared: Prepared, role: RoleContext) -> list[str]:
    source = prepared.options.model_source
    mounted = f"{source.mount_path}/{source.path}".rstrip("/")
    command = engine_command(
        role.plan,
        role.layout,
        model=role.model,
        model_argument=role.model_name if source.kind is SourceKind.HUB else mounted,
        served_name=role.model_name,
        max_model_len=prepared.plan.max_model_len,
        hardware=role.hardware,
        disaggregated=role.disaggregated,
        in_lws=False,
    )
    words = ["--model", command.model]
    mode = _MODES.get(role.plan.role)
    if mode is not None:
        words += ["--disaggregation-mode", mode]
    if role.layout.balancing in (Balancing.MULTI_PORT, Balancing.EXTERNAL) and role.layout.pods_per_group > 1:
        words.append("--data-parallel-hybrid-lb")
    for name, value in command.args.items():
        if name in _OPERATOR_FLAGS:
            continue
        if name == "kv-transfer-config" and isinstance(value, Mapping):
            value = {**value, "kv_role": "kv_both"}  # noqa: PLW2901 - Dynamo's handlers act in both directions
        words.append(f"--{name}")
        if isinstance(value, Mapping):
            words.append(json.dumps(value, separators=(",", ":")))
        elif value is not None:
            words.append(str(value))
    return words
