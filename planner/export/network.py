"""Objects around the pods: service account, pool, route, objectives, monitors, device claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.export.dialects import Dialect
from planner.export.objects import LabelSelector, Manifest, ObjectMeta
from planner.export.options import ExportOptions
from planner.export.providers import ProviderOverlay, Rdma
from planner.export.workloads import GUIDE_LABEL, SERVING_LABEL

EPP_PORT = 9002
POOL_GROUP = "inference.networking.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPort:
    """One port of the pool."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PortRef:
    """Port of a Service."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointPickerRef:
    """The router's Service."""

    name: str
    kind: str = "Service"
    port: PortRef
    failure_mode: str = "FailClose"


@dataclass(frozen=True, slots=True, kw_only=True)
class InferencePoolSpec:
    """Which pods and ports are endpoints, and who picks."""

    selector: LabelSelector
    target_ports: tuple[TargetPort, ...]
    endpoint_picker_ref: EndpointPickerRef


def selector_labels(name: str) -> dict[str, str]:
    """Labels of the serving pods of deployment `name`."""
    return {SERVING_LABEL: "true", GUIDE_LABEL: name}


def service_account(name: str, options: ExportOptions) -> Manifest:
    """The account of the engine pods."""
    return Manifest(
        api_version="v1",
        kind="ServiceAccount",
        metadata=ObjectMeta(name=name, namespace=options.namespace, labels={GUIDE_LABEL: name}),
    )


def inference_pool(name: str, ports: tuple[int, ...], options: ExportOptions) -> Manifest:
    """Pool with one target port per local DP rank."""
    return Manifest(
        api_version=f"{POOL_GROUP}/v1",
        kind="InferencePool",
        metadata=ObjectMeta(name=name, namespace=options.namespace, labels={GUIDE_LABEL: name}),
        body={
            "spec": InferencePoolSpec(
                selector=LabelSelector(match_labels=selector_labels(name)),
                target_ports=tuple(TargetPort(number=p) for p in ports),
                endpoint_picker_ref=EndpointPickerRef(name=f"{name}-epp", port=PortRef(number=EPP_PORT)),
            )
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRef:
    """Reference to another object; `namespace` only when it is elsewhere."""

    group: str
    kind: str
    name: str
    namespace: str | None = None


def http_route(
    name: str, *, options: ExportOptions, overlay: ProviderOverlay, timeout_s: int
) -> Manifest | None:
    """Route from an existing Gateway to the pool, or None when no Gateway was named."""
    if options.gateway is None:
        return None
    rule: dict[str, object] = {
        "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
        "backendRefs": [ObjectRef(group=POOL_GROUP, kind="InferencePool", name=name)],
    }
    if overlay.http_route_timeout:
        rule["timeouts"] = {"request": f"{timeout_s}s"}
    gateway = ObjectRef(
        group="gateway.networking.k8s.io",
        kind="Gateway",
        name=options.gateway,
        namespace=options.gateway_namespace,
    )
    return Manifest(
        api_version="gateway.networking.k8s.io/v1",
        kind="HTTPRoute",
        metadata=ObjectMeta(name=name, namespace=options.namespace, labels={GUIDE_LABEL: name}),
        body={"spec": {"parentRefs": [gateway], "rules": [rule]}},
    )


def destination_rule(name: str, options: ExportOptions) -> Manifest | None:
    """Istio reaches the router over TLS with its self-signed certificate; None for other Gateways."""
    if options.gateway is None or not options.istio:
        return None
    host = f"{name}-epp.{options.namespace}.svc" if options.namespace else f"{name}-epp"
    return Manifest(
        api_version="networking.istio.io/v1",
        kind="DestinationRule",
        metadata=ObjectMeta(name=f"{name}-epp", namespace=options.namespace, labels={GUIDE_LABEL: name}),
        body={
            "spec": {
                "host": host,
                "trafficPolicy": {"tls": {"mode": "SIMPLE", "insecureSkipVerify": True}},
            }
        },
    )


def objectives(name: str, options: ExportOptions, dialect: Dialect) -> tuple[Manifest, ...]:
    """InferenceObjectives: request priorities of the pool."""
    return tuple(
        Manifest(
            api_version=dialect.objective_api,
            kind="InferenceObjective",
            metadata=ObjectMeta(name=objective, namespace=options.namespace, labels={GUIDE_LABEL: name}),
            body={"spec": {"priority": priority, "poolRef": {"group": POOL_GROUP, "name": name}}},
        )
        for objective, priority in sorted(options.objectives.items())
    )


def pod_monitor(
    name: str, role: str, ports: tuple[str, ...], *, options: ExportOptions, overlay: ProviderOverlay
) -> Manifest:
    """Scrape every rank of every pod of a role (the engine's own ports, not the sidecar's)."""
    kind = "PodMonitoring" if overlay.monitoring_api.startswith("monitoring.googleapis") else "PodMonitor"
    labels = {GUIDE_LABEL: name, "llm-d.ai/role": role}
    endpoints = [{"port": p, "path": "/metrics", "interval": "15s"} for p in ports]
    key = "endpoints" if kind == "PodMonitoring" else "podMetricsEndpoints"
    return Manifest(
        api_version=overlay.monitoring_api,
        kind=kind,
        metadata=ObjectMeta(name=f"{name}-{role}", namespace=options.namespace, labels=labels),
        body={"spec": {"selector": {"matchLabels": labels}, key: endpoints}},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """One device of a class."""

    name: str
    exactly: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClaim:
    """Devices of one claim, and what they must share."""

    requests: tuple[DeviceRequest, ...]
    constraints: tuple[Mapping[str, object], ...] = field(default=())


def claim_template_name(name: str, overlay: ProviderOverlay) -> str | None:
    """Name of the RDMA claim template, None when the provider has no claims."""
    return f"{name}-rdma" if overlay.rdma in (Rdma.DRA_GPU_AND_NIC, Rdma.DRA_NIC) else None


def claim_template(name: str, overlay: ProviderOverlay, options: ExportOptions) -> Manifest:
    """ResourceClaimTemplate: a NIC, with the GPU on the same PCIe root where GPUs are claimed too."""
    nic = DeviceRequest(name="nic", exactly={"deviceClassName": "mrdma.google.com", "count": 1})
    gpu = DeviceRequest(name="gpu", exactly={"deviceClassName": "gpu.nvidia.com", "count": 1})
    paired = overlay.rdma is Rdma.DRA_GPU_AND_NIC
    claim = DeviceClaim(
        requests=(gpu, nic) if paired else (nic,),
        constraints=({"requests": ["gpu", "nic"], "matchAttribute": "resource.kubernetes.io/pcieRoot"},)
        if paired
        else (),
    )
    return Manifest(
        api_version="resource.k8s.io/v1",
        kind="ResourceClaimTemplate",
        metadata=ObjectMeta(name=f"{name}-rdma", namespace=options.namespace, labels={GUIDE_LABEL: name}),
        body={"spec": {"spec": {"devices": claim}}},
    )


def compute_domain(name: str, options: ExportOptions) -> Manifest:
    """ComputeDomain for multi-node NVLink; its controller makes the channel's ResourceClaimTemplate.

    numNodes 1 as in the OCI overlay of the llm-d guides: pods do not wait for a number of nodes to join.
    """
    return Manifest(
        api_version="resource.nvidia.com/v1beta1",
        kind="ComputeDomain",
        metadata=ObjectMeta(name=f"{name}-nvlink", namespace=options.namespace, labels={GUIDE_LABEL: name}),
        body={
            "spec": {
                "numNodes": 1,
                "channel": {
                    "resourceClaimTemplate": {"name": f"{name}-nvlink-channel"},
                    "allocationMode": "Single",
                },
            }
        },
    )
