"""The workload objects: DisaggregatedSet, LeaderWorkerSet, Deployment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.export.command import engine_command
from planner.export.layout import Balancing
from planner.export.naming import (
    DEPLOYMENT_LIMIT,
    DS_BUDGET,
    LWS_LIMIT,
    check_name,
    label_value,
)
from planner.export.objects import LabelSelector, Manifest, ObjectMeta, PodTemplate, TemplateMeta
from planner.export.options import SourceKind
from planner.export.placement import role_label
from planner.export.pods import RoleContext, accelerator_vendor, active_ports, group_label, pod_spec
from planner.export.script import start_script

SERVING_LABEL = "llm-d.ai/inference-serving"
GUIDE_LABEL = "llm-d.ai/guide"
ROLE_LABEL = "llm-d.ai/role"


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingUpdate:
    """Groups above and below the wanted number during a rollout."""

    max_surge: int
    max_unavailable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutStrategy:
    """LeaderWorkerSet rollout."""

    type: str = "RollingUpdate"
    rolling_update_configuration: RollingUpdate


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderWorkerTemplate:
    """Pods of one group. `leader_template` only where the leader alone serves."""

    size: int
    restart_policy: str = "RecreateGroupOnPodRestart"
    leader_template: PodTemplate | None = None
    worker_template: PodTemplate


@dataclass(frozen=True, slots=True, kw_only=True)
class LwsSpec:
    """LeaderWorkerSet spec. Startup is never LeaderReady: a leader is ready only once all ranks have joined."""

    replicas: int
    startup_policy: str = "LeaderCreated"
    rollout_strategy: RolloutStrategy
    leader_worker_template: LeaderWorkerTemplate


@dataclass(frozen=True, slots=True, kw_only=True)
class DisaggregatedRole:
    """One role of a DisaggregatedSet."""

    name: str
    metadata: TemplateMeta
    spec: LwsSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class DisaggregatedSetSpec:
    """DisaggregatedSet spec; slices are left to the default of 1."""

    roles: tuple[DisaggregatedRole, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentStrategy:
    """Deployment rollout."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentSpec:
    """Deployment spec."""

    replicas: int
    progress_deadline_seconds: int | None = None
    selector: LabelSelector
    strategy: DeploymentStrategy | None = None
    template: PodTemplate = field(kw_only=True)


def rollout(spare: bool) -> RollingUpdate:
    """Surge only when GPUs for one more group are asserted to be free; otherwise a full cluster would wait for ever."""
    return (
        RollingUpdate(max_surge=1, max_unavailable=0)
        if spare
        else RollingUpdate(max_surge=0, max_unavailable=1)
    )


def workload_labels(context: RoleContext) -> dict[str, str]:
    """Labels every generated object of a role carries."""
    return {
        GUIDE_LABEL: context.name,
        ROLE_LABEL: role_label(context.layout),
        "llm-d.ai/model": label_value(context.model_name),
        "llm-d.ai/accelerator-variant": "gpu",
        "llm-d.ai/accelerator-vendor": accelerator_vendor(context.hardware),
        "llm-d.ai/engine-type": "vllm",
    }


def template(
    context: RoleContext,
    *,
    in_lws: bool,
    pool_ports: tuple[int, ...],
    max_model_len: int,
    follower: bool = False,
) -> PodTemplate:
    """Pod template of one role."""
    source = context.options.model_source
    mounted = f"{source.mount_path}/{source.path}".rstrip("/")
    command = engine_command(
        context.plan,
        context.layout,
        model=context.model,
        model_argument=context.model_name if source.kind is SourceKind.HUB else mounted,
        served_name=context.model_name,
        max_model_len=max_model_len,
        hardware=context.hardware,
        disaggregated=context.disaggregated,
        in_lws=in_lws,
        follower=follower,
    )
    labels = workload_labels(context)
    if not follower:
        labels = {SERVING_LABEL: "true", **labels}
    return PodTemplate(
        metadata=TemplateMeta(
            labels=labels, annotations={} if follower else active_ports(context.layout, pool_ports)
        ),
        spec=pod_spec(
            context, script=start_script(command, context.layout, in_lws=in_lws), follower=follower
        ),
    )


def lws_spec(context: RoleContext, *, pool_ports: tuple[int, ...], max_model_len: int) -> LwsSpec:
    """LeaderWorkerSet spec of one role: one template for all pods, except where only leaders serve."""
    spanning = group_label(context.layout)
    serving = template(context, in_lws=True, pool_ports=pool_ports, max_model_len=max_model_len)
    worker = (
        template(context, in_lws=True, pool_ports=pool_ports, max_model_len=max_model_len, follower=True)
        if spanning
        else serving
    )
    return LwsSpec(
        replicas=context.layout.groups,
        rollout_strategy=RolloutStrategy(rolling_update_configuration=rollout(context.options.spare_groups)),
        leader_worker_template=LeaderWorkerTemplate(
            size=context.layout.pods_per_group,
            leader_template=serving if spanning else None,
            worker_template=worker,
        ),
    )


def disaggregated_set(
    contexts: tuple[RoleContext, ...],
    *,
    meta: Mapping[str, str],
    pool_ports: tuple[int, ...],
    max_model_len: int,
) -> Manifest:
    """One DisaggregatedSet with a role per context. `meta` are annotations of the object."""
    first = contexts[0]
    longest = max(len(c.layout.role.value) for c in contexts)
    name = check_name(
        first.name,
        limit=DS_BUDGET - longest,
        rule="the controller names Services <set>-<slice>-<revision>-<role>-prv, 63 characters in all: "
        f"set and role together hold {DS_BUDGET}",
    )
    roles = tuple(
        DisaggregatedRole(
            name=c.layout.role.value,
            metadata=TemplateMeta(labels=workload_labels(c)),
            spec=lws_spec(c, pool_ports=pool_ports, max_model_len=max_model_len),
        )
        for c in contexts
    )
    labels = {k: v for k, v in workload_labels(first).items() if k != ROLE_LABEL}
    return Manifest(
        api_version="disaggregatedset.x-k8s.io/v1",
        kind="DisaggregatedSet",
        metadata=ObjectMeta(name=name, namespace=first.options.namespace, labels=labels, annotations=meta),
        body={"spec": DisaggregatedSetSpec(roles=roles)},
    )


def leader_worker_set(
    context: RoleContext,
    *,
    name: str,
    meta: Mapping[str, str],
    pool_ports: tuple[int, ...],
    max_model_len: int,
) -> Manifest:
    """A bare LeaderWorkerSet for one role."""
    check_name(
        name,
        limit=LWS_LIMIT - context.layout.groups // 10,
        rule="the set's name goes into the labels of its pods, which hold 63 characters",
    )
    return Manifest(
        api_version="leaderworkerset.x-k8s.io/v1",
        kind="LeaderWorkerSet",
        metadata=ObjectMeta(
            name=name,
            namespace=context.options.namespace,
            labels=workload_labels(context),
            annotations=meta,
        ),
        body={"spec": lws_spec(context, pool_ports=pool_ports, max_model_len=max_model_len)},
    )


def deployment(
    context: RoleContext,
    *,
    name: str,
    meta: Mapping[str, str],
    pool_ports: tuple[int, ...],
    max_model_len: int,
    startup_s: int,
) -> Manifest:
    """A Deployment with one pod per group; ranks and addresses are literals, since no LWS_* variables exist."""
    if context.layout.balancing in (Balancing.EXTERNAL, Balancing.SPANNING):
        raise AssertionError("a group of several pods needs a LeaderWorkerSet")
    check_name(
        name,
        limit=DEPLOYMENT_LIMIT,
        rule="pod names add a hash to the Deployment's name, 63 characters in all",
    )
    pods = template(context, in_lws=False, pool_ports=pool_ports, max_model_len=max_model_len)
    return Manifest(
        api_version="apps/v1",
        kind="Deployment",
        metadata=ObjectMeta(
            name=name,
            namespace=context.options.namespace,
            labels=workload_labels(context),
            annotations=meta,
        ),
        body={
            "spec": DeploymentSpec(
                replicas=context.layout.groups,
                progress_deadline_seconds=startup_s + 600,
                selector=LabelSelector(
                    match_labels={GUIDE_LABEL: context.name, ROLE_LABEL: role_label(context.layout)}
                ),
                strategy=DeploymentStrategy(rolling_update=rollout(context.options.spare_groups)),
                template=pods,
            )
        },
    )
