"""Target kserve: one LLMInferenceService (serving.kserve.io/v1alpha2).

KServe's presets own the start command, ports, probes' paths, TLS, the routing sidecar and, for groups of several pods,
the DP flags (from ``parallelism``). What the presets do not set goes into VLLM_ADDITIONAL_ARGS, which they pass on. DP ranks
are balanced inside the engine there, so the pool has one port per pod. Source: KServe presets and samples, 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.domain.deployment import Role
from planner.domain.errors import InputError, Issue
from planner.export.command import engine_command
from planner.export.engine_args import EngineCommand
from planner.export.intent import encode
from planner.export.layout import RPC_PORT, Balancing
from planner.export.naming import PLAN_ANNOTATION, VERSION_ANNOTATION
from planner.export.objects import (
    Container,
    EnvVar,
    Manifest,
    ObjectMeta,
    PodSpec,
    SecurityContext,
    Volume,
)
from planner.export.options import ModelSource, SourceKind
from planner.export.pods import RoleContext, pod_spec, startup_seconds
from planner.export.render import Prepared
from planner.export.router import router_config
from planner.export.targets.base import Export, document_file
from planner.export.workloads import GUIDE_LABEL, workload_labels

# Set by the presets, or meaningless under them.
_PRESET_FLAGS = frozenset(
    {
        "port",
        "served-model-name",
        "disable-access-log-for-endpoints",
        "data-parallel-multi-port-external-lb",
        "data-parallel-external-lb",
        "data-parallel-supervisor-port",
        "data-parallel-start-rank",
        "data-parallel-rank",
        "data-parallel-address",
        "data-parallel-rpc-port",
    }
)
_PARALLELISM_FLAGS = frozenset(
    {"tensor-parallel-size", "data-parallel-size", "data-parallel-size-local", "enable-expert-parallel"}
)
_PRESET_ENV = frozenset(
    {
        "HF_TOKEN",
        "HF_HUB_CACHE",
        "VLLM_CACHE_ROOT",
        "CUDA_CACHE_PATH",
        "CCACHE_DIR",
        "FLASHINFER_WORKSPACE_BASE",
        "VLLM_LOGGING_LEVEL",
        "DP_SIZE_LOCAL",
        "TP_SIZE",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KserveParallelism:
    """``parallelism`` of a workload of several pods."""

    tensor: int
    data: int
    data_local: int
    data_rpc_port: int | None = field(default=None, metadata={"wire": "dataRPCPort"})
    expert: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupPatience:
    """The part of the preset's startup probe that the checkpoint's size decides."""

    period_seconds: int
    failure_threshold: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KserveContainer(Container):
    """A container whose startup probe keeps the preset's handler."""

    startup_patience: StartupPatience | None = field(default=None, metadata={"wire": "startupProbe"})


def write(prepared: Prepared) -> Export:
    """One object. Raises InputError ``export.kserve_unsupported`` for a rank that spans pods."""
    p, options = prepared, prepared.options
    for r in p.roles:
        if r.layout.balancing is Balancing.SPANNING:
            raise InputError(
                Issue(
                    code="export.kserve_unsupported",
                    what=f"{r.plan.role.value}: tp {r.plan.parallelism.tp} over {r.layout.pods_per_group} pods",
                    why="KServe's presets spread data and pipeline parallel over pods, not tensor parallel",
                    fix="--target llm-d, or tp within a node",
                    where="--target",
                )
            )
    serving = p.roles[-1]
    body: dict[str, object] = {
        "model": {"uri": model_uri(options.model_source, serving.model_name), "name": serving.model_name},
        **_workload(prepared, serving),
        "router": {
            "route": {},
            "gateway": {"refs": [_gateway(prepared)]} if options.gateway else {},
            "scheduler": {"config": {"inline": router_config(p.plan, p.dialect).plain()}},
        },
    }
    if len(p.roles) > 1:
        body["prefill"] = _workload(prepared, p.roles[0])
    manifest = Manifest(
        api_version="serving.kserve.io/v1alpha2",
        kind="LLMInferenceService",
        metadata=ObjectMeta(
            name=p.name,
            namespace=options.namespace,
            labels={GUIDE_LABEL: p.name},
            annotations={VERSION_ANNOTATION: options.created_by, PLAN_ANNOTATION: encode(p.plan)},
        ),
        body={"spec": body},
    )
    file = document_file(manifest.file_name, manifest.plain(), p.header())
    return Export(files=(file,), stream=file.text, manifests=(manifest,))


def model_uri(source: ModelSource, model: str) -> str:
    """``hf://``, ``pvc://`` or ``oci://``."""
    if source.kind is SourceKind.PVC:
        return f"pvc://{source.claim}/{source.path}".rstrip("/")
    return f"oci://{source.reference}" if source.kind is SourceKind.OCI else f"hf://{model}"


def _gateway(prepared: Prepared) -> Mapping[str, str]:
    name, namespace = prepared.options.gateway or "", prepared.options.gateway_namespace
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def _workload(prepared: Prepared, role: RoleContext) -> dict[str, object]:
    layout, p = role.layout, role.plan.parallelism
    several = layout.pods_per_group > 1
    out: dict[str, object] = {"replicas": layout.groups}
    if several:
        out["parallelism"] = KserveParallelism(
            tensor=p.tp,
            data=p.dp,
            data_local=layout.ranks_per_pod,
            data_rpc_port=RPC_PORT,
            expert=p.expert_parallel,
        )
    out["labels"] = {k: v for k, v in workload_labels(role).items() if k != "llm-d.ai/role"}
    out["template"] = _pod(prepared, role, several=several)
    if several:
        out["worker"] = _pod(prepared, role, several=several)
    return out


def additional_arguments(command: EngineCommand, *, several: bool) -> str:
    """Flags the presets do not set, quoted for the ``eval`` they go through."""
    skip = _PRESET_FLAGS | (_PARALLELISM_FLAGS if several else frozenset())
    kept = {k: v for k, v in command.args.items() if k not in skip}
    if not several:
        kept.pop("data-parallel-size-local", None)
    return " ".join(EngineCommand(model="m", args=kept).lines()[1:])


def _pod(prepared: Prepared, role: RoleContext, *, several: bool) -> PodSpec:
    command = engine_command(
        role.plan,
        role.layout,
        model=role.model,
        model_argument=role.model_name,
        served_name=role.model_name,
        max_model_len=prepared.plan.max_model_len,
        hardware=role.hardware,
        disaggregated=role.disaggregated,
        in_lws=False,
    )
    ours = pod_spec(role, script="", follower=False)
    engine = ours.containers[0]
    env = tuple(e for e in engine.env if e.name not in _PRESET_ENV)
    if prepared.options.model_source.kind is SourceKind.HUB:
        env = (*(e for e in engine.env if e.name == "HF_TOKEN"), *env)
    extra = EnvVar(name="VLLM_ADDITIONAL_ARGS", value=additional_arguments(command, several=several))
    startup = startup_seconds(role.model, prepared.options)
    privileged = engine.security_context is not None and engine.security_context.privileged
    main = KserveContainer(
        name="main",
        image=role.engine_image,
        env=(*env, extra),
        resources=engine.resources,
        startup_patience=StartupPatience(period_seconds=10, failure_threshold=-(-startup // 10)),
        security_context=SecurityContext(privileged=True) if privileged else None,
    )
    shm = tuple(v for v in ours.volumes if v.name == "dshm")
    return PodSpec(
        node_selector=ours.node_selector,
        affinity=ours.affinity if role.plan.role is not Role.PREFILL or several else None,
        tolerations=ours.tolerations,
        resource_claims=ours.resource_claims,
        containers=(main,),
        volumes=tuple(Volume(name=v.name, empty_dir=v.empty_dir) for v in shm),
    )
