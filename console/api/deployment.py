"""The console as Kubernetes objects: one pod that reads with an account of its own, behind a Service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from console.api.settings import DEFAULT_PORT
from console.cluster.rbac import role_manifests
from planner import __version__
from planner.export.objects import (
    Capabilities,
    Container,
    ContainerPort,
    EmptyDir,
    EnvVar,
    HttpGet,
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
from planner.export.yaml import dump_stream

NAME: Final = "wideplan-console"
DATA: Final = "/data"
LABELS: Final = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/version": __version__}
SELECTOR: Final = {"app.kubernetes.io/name": NAME}
USER: Final = 65532


def console_manifests(*, namespace: str, image: str, hosts: Sequence[str]) -> tuple[Manifest, ...]:
    """ServiceAccount, read-only roles, Deployment and Service. `hosts` are the names viewers' browsers use."""
    meta = ObjectMeta(name=NAME, namespace=namespace, labels=LABELS)
    subject = f"ServiceAccount:{NAME}"
    roles = [_manifest(m) for m in role_manifests(namespace=namespace, subject=subject)]
    arguments = ["serve", "--in-cluster", "--namespace", namespace, "--host", "0.0.0.0"]  # noqa: S104 - inside a pod
    for host in hosts:
        arguments += ["--allow-host", host]
    container = Container(
        name="console",
        image=image,
        command=("planner",),
        args=tuple(arguments),
        env=(EnvVar(name="XDG_DATA_HOME", value=DATA), EnvVar(name="HOME", value=DATA)),
        ports=(ContainerPort(container_port=DEFAULT_PORT, name="http"),),
        readiness_probe=Probe(http_get=HttpGet(path="/healthz", port="http"), period_seconds=5),
        liveness_probe=Probe(http_get=HttpGet(path="/healthz", port="http"), period_seconds=15),
        resources=Resources(requests={"cpu": "500m", "memory": "1Gi"}, limits={"memory": "4Gi"}),
        security_context=SecurityContext(
            run_as_non_root=True,
            run_as_user=USER,
            run_as_group=USER,
            allow_privilege_escalation=False,
            read_only_root_filesystem=True,
            capabilities=Capabilities(drop=("ALL",)),
        ),
        volume_mounts=(VolumeMount(name="data", mount_path=DATA), VolumeMount(name="tmp", mount_path="/tmp")),  # noqa: S108
    )
    pod = PodSpec(
        service_account_name=NAME,
        containers=(container,),
        volumes=(
            Volume(name="data", empty_dir=EmptyDir(size_limit="2Gi")),
            Volume(name="tmp", empty_dir=EmptyDir(size_limit="1Gi")),
        ),
        termination_grace_period_seconds=30,
    )
    return (
        Manifest(api_version="v1", kind="ServiceAccount", metadata=meta),
        *roles,
        Manifest(
            api_version="apps/v1",
            kind="Deployment",
            metadata=meta,
            body={
                "spec": {
                    "replicas": 1,
                    "strategy": {"type": "Recreate"},  # one writer of the store
                    "selector": LabelSelector(match_labels=SELECTOR),
                    "template": PodTemplate(metadata=TemplateMeta(labels=LABELS), spec=pod),
                }
            },
            comments=(
                "TLS in front is yours: an Ingress or Gateway for the names given with --allow-host.",
                "The store is lost with the pod; set WIDEPLAN_DATABASE_URL to a PostgreSQL database to keep it.",
            ),
        ),
        Manifest(
            api_version="v1",
            kind="Service",
            metadata=meta,
            body={
                "spec": {
                    "selector": SELECTOR,
                    "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}],
                }
            },
        ),
    )


def console_yaml(*, namespace: str, image: str, hosts: Sequence[str]) -> str:
    """The same as one stream for ``kubectl apply -f -``."""
    made = console_manifests(namespace=namespace, image=image, hosts=hosts)
    header = (
        f"wideplan {__version__}: the console for namespace {namespace}; it reads, and changes nothing",
    )
    return dump_stream([(m.comments, m.plain()) for m in made], header=header)


def _manifest(plain: Mapping[str, Any]) -> Manifest:
    meta = plain["metadata"]
    return Manifest(
        api_version=plain["apiVersion"],
        kind=plain["kind"],
        metadata=ObjectMeta(name=meta["name"], namespace=meta.get("namespace"), labels=LABELS),
        body={k: v for k, v in plain.items() if k not in {"apiVersion", "kind", "metadata"}},
    )
