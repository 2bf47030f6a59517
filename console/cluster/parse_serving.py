"""Raw JSON of serving, gateway, queueing and scaling kinds to views."""

from __future__ import annotations

from console.cluster.objects import (
    AutoscalerView,
    Condition,
    DisaggregatedSetView,
    GatewayView,
    GroupSetView,
    PoolView,
    QueuedWorkloadView,
    RoleScalerView,
    RouteView,
    SetRole,
)
from console.cluster.parse import conditions, count, labels, meta, text
from planner.export.values import Json, Table, dig, number, rows, table


def _default(value: Json, default: int) -> int:
    found = number(value)
    return default if found is None else found


def group_set(raw: Table) -> GroupSetView:
    """A LeaderWorkerSet."""
    spec, status = table(raw.get("spec")), table(raw.get("status"))
    template = table(spec.get("leaderWorkerTemplate"))
    return GroupSetView(
        meta=meta(raw),
        replicas=_default(spec.get("replicas"), 1),
        size=_default(template.get("size"), 1),
        restart_policy=text(template.get("restartPolicy")),
        startup_policy=text(spec.get("startupPolicy")),
        status_replicas=count(status.get("replicas")),
        ready=count(status.get("readyReplicas")),
        updated=count(status.get("updatedReplicas")),
        observed_generation=number(status.get("observedGeneration")),
        conditions=conditions(status.get("conditions")),
    )


def disaggregated_set(raw: Table) -> DisaggregatedSetView:
    """A DisaggregatedSet."""
    spec, status = table(raw.get("spec")), table(raw.get("status"))
    seen = {text(table(r).get("name")): table(r) for r in rows(status.get("roleStatuses"))}
    roles = []
    for role in map(table, rows(spec.get("roles"))):
        name = text(role.get("name"))
        found = seen.get(name)
        roles.append(
            SetRole(
                name=name,
                replicas=_default(dig(role, "spec", "replicas"), 1),
                size=_default(dig(role, "spec", "leaderWorkerTemplate", "size"), 1),
                scaling=text(dig(role, "scaling", "mode")) or "Static",
                status_replicas=count(found.get("replicas")) if found else None,
                ready=count(found.get("readyReplicas")) if found else None,
                updated=count(found.get("updatedReplicas")) if found else None,
            )
        )
    return DisaggregatedSetView(
        meta=meta(raw),
        slices=_default(spec.get("slices"), 1),
        roles=tuple(roles),
        placement=text(dig(spec, "placementPolicy", "type")) or "None",
        observed_generation=number(status.get("observedGeneration")),
        conditions=conditions(status.get("conditions")),
    )


def role_scaler(raw: Table) -> RoleScalerView:
    """A DisaggregatedSetRoleScaler."""
    return RoleScalerView(
        meta=meta(raw),
        replicas=count(dig(raw, "spec", "replicas")),
        status_replicas=count(dig(raw, "status", "replicas")),
        conditions=conditions(dig(raw, "status", "conditions")),
    )


def _parent_conditions(parents: Json) -> tuple[Condition, ...]:
    out: list[Condition] = []
    for parent in map(table, rows(parents)):
        out += conditions(parent.get("conditions"), of=text(dig(parent, "parentRef", "name")))
    return tuple(out)


def pool(raw: Table) -> PoolView:
    """An InferencePool."""
    spec = table(raw.get("spec"))
    picker = table(spec.get("endpointPickerRef"))
    return PoolView(
        meta=meta(raw),
        selector=labels(dig(spec, "selector", "matchLabels")),
        target_ports=tuple(count(table(p).get("number")) for p in rows(spec.get("targetPorts"))),
        picker=text(picker.get("name")),
        picker_port=number(dig(picker, "port", "number")),
        failure_mode=text(picker.get("failureMode")),
        conditions=_parent_conditions(dig(raw, "status", "parents")),
    )


def gateway(raw: Table) -> GatewayView:
    """A Gateway."""
    return GatewayView(
        meta=meta(raw),
        gateway_class=text(dig(raw, "spec", "gatewayClassName")),
        addresses=tuple(text(table(a).get("value")) for a in rows(dig(raw, "status", "addresses"))),
        conditions=conditions(dig(raw, "status", "conditions")),
    )


def route(raw: Table) -> RouteView:
    """An HTTPRoute."""
    spec = table(raw.get("spec"))
    backends = (table(b) for r in rows(spec.get("rules")) for b in rows(table(r).get("backendRefs")))
    return RouteView(
        meta=meta(raw),
        parents=tuple(text(table(p).get("name")) for p in rows(spec.get("parentRefs"))),
        backends=tuple(f"{text(b.get('kind')) or 'Service'}/{text(b.get('name'))}" for b in backends),
        conditions=_parent_conditions(dig(raw, "status", "parents")),
    )


def queued_workload(raw: Table) -> QueuedWorkloadView:
    """A Kueue Workload."""
    return QueuedWorkloadView(
        meta=meta(raw),
        queue=text(dig(raw, "spec", "queueName")),
        conditions=conditions(dig(raw, "status", "conditions")),
    )


def autoscaler(raw: Table) -> AutoscalerView:
    """A HorizontalPodAutoscaler."""
    spec, status = table(raw.get("spec")), table(raw.get("status"))
    target = table(spec.get("scaleTargetRef"))
    return AutoscalerView(
        meta=meta(raw),
        target=f"{text(target.get('kind'))}/{text(target.get('name'))}",
        minimum=_default(spec.get("minReplicas"), 1),
        maximum=number(spec.get("maxReplicas")),
        current=number(status.get("currentReplicas")),
        desired=number(status.get("desiredReplicas")),
        conditions=conditions(status.get("conditions")),
    )


def scaled_object(raw: Table) -> AutoscalerView:
    """A KEDA ScaledObject."""
    spec = table(raw.get("spec"))
    target = table(spec.get("scaleTargetRef"))
    return AutoscalerView(
        meta=meta(raw),
        target=f"{text(target.get('kind')) or 'Deployment'}/{text(target.get('name'))}",
        minimum=_default(spec.get("minReplicaCount"), 0),
        maximum=number(spec.get("maxReplicaCount")),
        conditions=conditions(dig(raw, "status", "conditions")),
    )
