"""The kinds that are watched. Each is optional: a cluster without it, or an account that may not read it, is normal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from console.cluster import parse, parse_serving
from console.cluster.objects import (
    AutoscalerView,
    DeploymentView,
    DisaggregatedSetView,
    EventView,
    GatewayView,
    GroupSetView,
    NodeView,
    PodView,
    PoolView,
    QueuedWorkloadView,
    RoleScalerView,
    RouterConfigView,
    RouteView,
    View,
)
from planner.export.values import Table


class Kind(StrEnum):
    """Watched kinds, named by their plural resource."""

    PODS = "pods"
    NODES = "nodes"
    EVENTS = "events"
    ROUTER_CONFIGS = "configmaps"
    DEPLOYMENTS = "deployments"
    GROUP_SETS = "leaderworkersets"
    DISAGGREGATED_SETS = "disaggregatedsets"
    ROLE_SCALERS = "disaggregatedsetrolescalers"
    POOLS = "inferencepools"
    GATEWAYS = "gateways"
    ROUTES = "httproutes"
    QUEUED_WORKLOADS = "workloads"
    AUTOSCALERS = "horizontalpodautoscalers"
    SCALED_OBJECTS = "scaledobjects"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindInfo:
    """How a kind is found and read. `versions` are in order of preference; `purpose` says what is lost without it."""

    kind: Kind
    group: str
    versions: tuple[str, ...]
    view: type[View]
    parse: Callable[[Table], View | None]
    purpose: str
    namespaced: bool = True


KINDS: dict[Kind, KindInfo] = {
    k.kind: k
    for k in (
        KindInfo(kind=Kind.PODS, group="", versions=("v1",), view=PodView, parse=parse.pod,
                 purpose="groups, ranks and their health"),
        KindInfo(kind=Kind.NODES, group="", versions=("v1",), view=NodeView, parse=parse.node, namespaced=False,
                 purpose="GPUs of the cluster, hardware profile"),
        KindInfo(kind=Kind.EVENTS, group="", versions=("v1",), view=EventView, parse=parse.event,
                 purpose="reasons behind a blocked rollout"),
        KindInfo(kind=Kind.ROUTER_CONFIGS, group="", versions=("v1",), view=RouterConfigView,
                 parse=parse.router_config, purpose="which router plugins run"),
        KindInfo(kind=Kind.DEPLOYMENTS, group="apps", versions=("v1",), view=DeploymentView,
                 parse=parse.deployment, purpose="single-pod engines and the endpoint picker"),
        KindInfo(kind=Kind.GROUP_SETS, group="leaderworkerset.x-k8s.io", versions=("v1",), view=GroupSetView,
                 parse=parse_serving.group_set, purpose="groups of engine pods"),
        KindInfo(kind=Kind.DISAGGREGATED_SETS, group="disaggregatedset.x-k8s.io", versions=("v1", "v1alpha1"),
                 view=DisaggregatedSetView, parse=parse_serving.disaggregated_set,
                 purpose="prefill and decode roles of one deployment"),
        KindInfo(kind=Kind.ROLE_SCALERS, group="disaggregatedset.x-k8s.io", versions=("v1", "v1alpha1"),
                 view=RoleScalerView, parse=parse_serving.role_scaler, purpose="roles that scale by themselves"),
        KindInfo(kind=Kind.POOLS, group="inference.networking.k8s.io", versions=("v1",), view=PoolView,
                 parse=parse_serving.pool, purpose="endpoints the router may choose"),
        KindInfo(kind=Kind.GATEWAYS, group="gateway.networking.k8s.io", versions=("v1", "v1beta1"),
                 view=GatewayView, parse=parse_serving.gateway, purpose="the entry point"),
        KindInfo(kind=Kind.ROUTES, group="gateway.networking.k8s.io", versions=("v1", "v1beta1"), view=RouteView,
                 parse=parse_serving.route, purpose="the way from the entry point to the pool"),
        KindInfo(kind=Kind.QUEUED_WORKLOADS, group="kueue.x-k8s.io", versions=("v1beta2", "v1beta1"),
                 view=QueuedWorkloadView, parse=parse_serving.queued_workload, purpose="waiting for quota"),
        KindInfo(kind=Kind.AUTOSCALERS, group="autoscaling", versions=("v2",), view=AutoscalerView,
                 parse=parse_serving.autoscaler, purpose="who changes replicas"),
        KindInfo(kind=Kind.SCALED_OBJECTS, group="keda.sh", versions=("v1alpha1",), view=AutoscalerView,
                 parse=parse_serving.scaled_object, purpose="who changes replicas"),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Served:
    """A kind at the version this server offers."""

    info: KindInfo
    version: str

    def path(self, namespace: str | None) -> str:
        """Collection path; `namespace` None lists all of them."""
        root = f"/apis/{self.info.group}/{self.version}" if self.info.group else f"/api/{self.version}"
        if namespace is None or not self.info.namespaced:
            return f"{root}/{self.info.kind}"
        return f"{root}/namespaces/{namespace}/{self.info.kind}"
