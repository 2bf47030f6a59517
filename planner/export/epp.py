"""The router as plain objects: ServiceAccount, RBAC, ConfigMap, Deployment, Service.

Ports, probes and rights are those of the llm-d router charts (v0.10.0). Metrics need no cluster-wide rights because
metrics authentication is off inside the namespace; one replica, since prefix and in-flight state live in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.export.network import EPP_PORT, POOL_GROUP
from planner.export.objects import (
    ConfigMapSource,
    Container,
    ContainerPort,
    EnvSource,
    EnvVar,
    FieldRef,
    GrpcAction,
    LabelSelector,
    Manifest,
    ObjectMeta,
    PodSpec,
    PodTemplate,
    Probe,
    Resources,
    SecurityContext,
    TemplateMeta,
    Volume,
    VolumeMount,
)
from planner.export.options import ExportOptions
from planner.export.router import RouterConfig
from planner.export.workloads import GUIDE_LABEL, DeploymentSpec

HEALTH_PORT = 9003
METRICS_PORT = 9090
CONFIG_FILE = "router.yaml"
_APP = "app.kubernetes.io/name"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """RBAC rule."""

    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


_READ = ("get", "list", "watch")
_RULES = (
    PolicyRule(api_groups=(POOL_GROUP,), resources=("inferencepools",), verbs=_READ),
    PolicyRule(
        api_groups=("llm-d.ai",), resources=("inferencemodelrewrites", "inferenceobjectives"), verbs=_READ
    ),
    PolicyRule(api_groups=("",), resources=("pods",), verbs=_READ),
)


def router_objects(
    name: str, config: RouterConfig, *, image: str, options: ExportOptions
) -> tuple[Manifest, ...]:
    """Everything the endpoint picker needs in the namespace, in the order it should be applied."""
    epp = f"{name}-epp"
    labels = {_APP: epp, GUIDE_LABEL: name}

    def manifest(api: str, kind: str, body: Mapping[str, object], called: str = epp) -> Manifest:
        return Manifest(
            api_version=api,
            kind=kind,
            metadata=ObjectMeta(name=called, namespace=options.namespace, labels=labels),
            body=body,
        )

    rbac = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": epp}
    if options.namespace is not None:
        subject["namespace"] = options.namespace
    return (
        manifest("v1", "ServiceAccount", {}),
        manifest(f"{rbac}/v1", "Role", {"rules": _RULES}),
        manifest(
            f"{rbac}/v1",
            "RoleBinding",
            {"subjects": [subject], "roleRef": {"apiGroup": rbac, "kind": "Role", "name": epp}},
        ),
        manifest("v1", "ConfigMap", {"data": {CONFIG_FILE: config.text()}}),
        manifest("apps/v1", "Deployment", {"spec": _deployment(epp, name, labels, config, image)}),
        manifest(
            "v1",
            "Service",
            {
                "spec": {
                    "type": "ClusterIP",
                    "selector": {_APP: epp},
                    "ports": [
                        {
                            "name": "grpc-ext-proc",
                            "port": EPP_PORT,
                            "protocol": "TCP",
                            "appProtocol": "http2",
                        },
                        {"name": "http-metrics", "port": METRICS_PORT, "protocol": "TCP"},
                    ],
                }
            },
        ),
    )


def _deployment(
    epp: str, pool: str, labels: Mapping[str, str], config: RouterConfig, image: str
) -> DeploymentSpec:
    args = [
        f"--pool-name={pool}",
        f"--pool-group={POOL_GROUP}",
        f"--config-file=/config/{CONFIG_FILE}",
        f"--grpc-health-port={HEALTH_PORT}",
        "--zap-encoder=json",
        "--tracing=false",
        "--metrics-endpoint-auth=false",
    ]
    if config.needs_alpha:
        args.append("--allow-experimental-plugins")
    health = GrpcAction(port=HEALTH_PORT, service="inference-extension")
    container = Container(
        name="epp",
        image=image,
        args=tuple(args),
        env=(
            EnvVar(name="NAMESPACE", value_from=_field("metadata.namespace")),
            EnvVar(name="POD_NAME", value_from=_field("metadata.name")),
        ),
        ports=(
            ContainerPort(container_port=EPP_PORT, name="grpc"),
            ContainerPort(container_port=HEALTH_PORT, name="grpc-health"),
            ContainerPort(container_port=METRICS_PORT, name="metrics"),
        ),
        liveness_probe=Probe(grpc=health, initial_delay_seconds=5, period_seconds=10),
        readiness_probe=Probe(grpc=health, period_seconds=2),
        resources=Resources(limits={"memory": "16Gi"}, requests={"cpu": "4", "memory": "8Gi"}),
        security_context=SecurityContext(allow_privilege_escalation=False, run_as_non_root=True),
        volume_mounts=(VolumeMount(name="config", mount_path="/config", read_only=True),),
    )
    return DeploymentSpec(
        replicas=1,
        selector=LabelSelector(match_labels={_APP: epp}),
        template=PodTemplate(
            metadata=TemplateMeta(labels=labels),
            spec=PodSpec(
                service_account_name=epp,
                containers=(container,),
                volumes=(Volume(name="config", config_map=ConfigMapSource(name=epp)),),
                termination_grace_period_seconds=130,
            ),
        ),
    )


def _field(path: str) -> EnvSource:
    return EnvSource(field_ref=FieldRef(field_path=path))
