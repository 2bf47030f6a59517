"""Target helm-values: values for the llm-d router charts, beside the model servers as plain objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.export.network import selector_labels
from planner.export.options import RouterForm
from planner.export.render import Prepared, manifests, route_timeout_s
from planner.export.router import router_config
from planner.export.targets.base import Export, ExportFile, document_file, stream_of
from planner.export.yaml import Plain

CHART_REGISTRY = "oci://ghcr.io/llm-d/charts"
_CONFIG = "wideplan-router.yaml"


def chart_of(prepared: Prepared) -> str:
    """The chart the values are for: with a Gateway, or standalone behind its own Envoy."""
    return "llm-d-router-gateway" if prepared.options.gateway else "llm-d-router-standalone"


def values(prepared: Prepared) -> dict[str, Plain]:
    """Values of the chart."""
    p, options = prepared, prepared.options
    config = router_config(p.plan, p.dialect)
    flags: dict[str, Plain] = {"allow-experimental-plugins": True} if config.needs_alpha else {}
    image = options.images.router or p.dialect.images.router
    epp: dict[str, Plain] = {
        "replicas": 1,
        "pluginsConfigFile": _CONFIG,
        "pluginsCustomConfig": {_CONFIG: config.text()},
        "resources": {"requests": {"cpu": "4", "memory": "8Gi"}, "limits": {"memory": "16Gi"}},
    }
    if image:
        epp = {"replicas": 1, "image": _image(image), **epp}
    if flags:
        epp["flags"] = flags
    router: dict[str, Plain] = {
        "modelServers": {
            "type": "vllm",
            "protocol": "http",
            "matchLabels": dict(selector_labels(p.name)),
            "targetPorts": [{"number": n} for n in p.pool_ports],
        },
        "epp": epp,
    }
    out: dict[str, Plain] = {"router": router}
    if options.gateway:
        router["inferencePool"] = {"create": True, "failureMode": "FailClose"}
        if options.objectives:
            router["inferenceObjectives"] = [
                {"name": n, "priority": v} for n, v in sorted(options.objectives.items())
            ]
        route: dict[str, Plain] = {"create": True, "inferenceGatewayName": options.gateway}
        if options.gateway_namespace:
            route["inferenceGatewayNamespace"] = options.gateway_namespace
        if p.overlay.http_route_timeout:
            route["requestTimeout"] = f"{route_timeout_s(p.plan)}s"
        out["provider"] = {"name": _gateway_provider(p)}
        out["httpRoute"] = route
    else:
        router["inferencePool"] = {"create": False}
        router["proxy"] = {"proxyType": "envoy"}
        router["extraServicePorts"] = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8081}]
    if options.monitoring:
        router["monitoring"] = {"prometheus": {"enabled": True}}
    return out


def _gateway_provider(prepared: Prepared) -> str:
    if prepared.options.istio:
        return "istio"
    return "gke" if prepared.overlay.id.startswith("gke-") else "none"


def _image(reference: str) -> dict[str, Plain]:
    path, _, tag = reference.rpartition(":")
    registry, _, repository = path.partition("/")
    return {"registry": registry, "repository": repository, "tag": tag}


def write(prepared: Prepared) -> Export:
    """``router.values.yaml`` (also on stdout) and ``modelservers.yaml``."""
    options = replace(prepared.options, router=RouterForm.HELM)
    servers = manifests(replace(prepared, options=options))
    chart = chart_of(prepared)
    version = prepared.dialect.router_chart or "VERSION"
    header = (
        *prepared.header(),
        f"helm install {prepared.name} {CHART_REGISTRY}/{chart} --version {version} -f router.values.yaml",
    )
    tables: Mapping[str, Plain] = values(prepared)
    file = document_file("router.values.yaml", dict(tables), header)
    return Export(
        files=(file, ExportFile("modelservers.yaml", stream_of(servers, prepared.header()))),
        stream=file.text,
        manifests=servers,
        notes=("model servers are in modelservers.yaml: write to a folder with --out DIR",),
    )
