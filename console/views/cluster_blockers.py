"""Why a rollout does not proceed: the first cause in the order things have to happen.

Quota → pods created → scheduled → volumes and claims → image → start → readiness → endpoint picker → pool → route. What comes
later in the chain is a consequence and is not listed for the same group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from console.cluster.kinds import Kind
from console.cluster.objects import Condition, ContainerView, EventView, PodView
from console.cluster.state import Snapshot
from console.cluster.topology import Group, Topology


class Stage(IntEnum):
    """Where a rollout stops; earlier stages explain later ones."""

    QUOTA = 1
    CREATE = 2
    SCHEDULE = 3
    MOUNT = 4
    IMAGE = 5
    CRASH = 6
    START = 7
    READY = 8
    PICKER = 9
    POOL = 10
    ROUTE = 11

    @property
    def words(self) -> str:
        """For people."""
        return _WORDS[self]


_WORDS = {
    Stage.QUOTA: "waiting for quota",
    Stage.CREATE: "pods not created",
    Stage.SCHEDULE: "not scheduled",
    Stage.MOUNT: "volume or claim missing",
    Stage.IMAGE: "image not pulled",
    Stage.CRASH: "container crashes",
    Stage.START: "starting",
    Stage.READY: "running, not ready",
    Stage.PICKER: "endpoint picker not ready",
    Stage.POOL: "pool not accepted",
    Stage.ROUTE: "route not accepted",
}
_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
_CONFIG = ("CreateContainerConfigError", "CreateContainerError")
_MOUNT = ("FailedMount", "FailedAttachVolume", "FailedPrepareDynamicResources", "UnallocatedResourceClaims")
_CREATE = ("FailedCreate", "FailedUpdate", "ReplicaFailure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """One thing that stops something. `count` groups or objects have the same cause."""

    stage: Stage
    what: str
    why: str
    role: str = ""
    count: int = 1


def blockers(snapshot: Snapshot, topology: Topology) -> tuple[Blocker, ...]:
    """All blockers, earliest stage first, equal causes of a role counted once."""
    events = _events_about(snapshot)
    found: list[Blocker] = [
        b for g in topology.groups.values() if not g.ready and (b := _of_group(g, events))
    ]
    found += _missing_groups(snapshot, topology, events)
    found += _quota(snapshot)
    found += _routing(snapshot)
    merged: dict[tuple[Stage, str, str], Blocker] = {}
    for blocker in found:
        key = (blocker.stage, blocker.role, _signature(blocker.why))
        held = merged.get(key)
        merged[key] = (
            blocker
            if held is None
            else Blocker(
                stage=held.stage,
                what=held.what,
                why=held.why,
                role=held.role,
                count=held.count + blocker.count,
            )
        )
    return tuple(sorted(merged.values(), key=lambda b: (b.stage, -b.count, b.what)))


def _signature(why: str) -> str:
    """The text without names and numbers that differ between pods."""
    return re.sub(r"[\d.]+|\"[^\"]*\"", "#", why)[:120]


def _events_about(snapshot: Snapshot) -> Mapping[tuple[str, str, str], list[EventView]]:
    out: dict[tuple[str, str, str], list[EventView]] = {}
    for event in snapshot.events.values():
        if event.type == "Warning":
            out.setdefault((event.meta.namespace, event.about_kind, event.about_name), []).append(event)
    return out


def _latest(events: Iterable[EventView], reasons: tuple[str, ...]) -> EventView | None:
    fitting = [e for e in events if e.reason in reasons]
    return max(fitting, key=lambda e: e.last, default=None)


def _of_group(group: Group, events: Mapping[tuple[str, str, str], list[EventView]]) -> Blocker | None:
    causes = []
    for pod in group.pods:
        about = events.get((pod.meta.namespace, "Pod", pod.meta.name), [])
        if not pod.ready and (cause := _of_pod(pod, about)) is not None:
            causes.append((cause[0], pod.meta.name, cause[1]))
    if not causes:
        if len(group.pods) < group.size:
            why = f"{len(group.pods)} of {group.size} pods exist"
            return Blocker(stage=Stage.CREATE, what=f"group {group.id.group}", why=why, role=group.id.role)
        return None
    stage, pod_name, why = min(causes)
    return Blocker(stage=stage, what=f"pod {pod_name}", why=why, role=group.id.role)


def _of_pod(pod: PodView, events: list[EventView]) -> tuple[Stage, str] | None:
    if pod.meta.deleting:
        return Stage.START, "the pod is being deleted"
    if pod.unschedulable:
        return Stage.SCHEDULE, pod.unschedulable
    if pod.phase == "Failed":
        return Stage.CRASH, " ".join(t for t in (pod.reason, pod.message) if t) or "the pod failed"
    if not pod.node:
        return Stage.SCHEDULE, "no node chosen yet"
    mount = _latest(events, _MOUNT)
    waiting = [c for c in pod.containers if c.waiting]
    for c in waiting:
        if c.waiting in _IMAGE:
            return Stage.IMAGE, f"{c.waiting}: {c.waiting_message or c.image}"
    for c in waiting:
        if c.waiting in _CONFIG:
            return Stage.MOUNT, f"{c.waiting}: {c.waiting_message}"
    crashed = next((c for c in pod.containers if _crashes(c)), None)
    if crashed is not None:
        return Stage.CRASH, _crash_text(crashed)
    if mount is not None and any(c.waiting in ("ContainerCreating", "PodInitializing") for c in waiting):
        return Stage.MOUNT, f"{mount.reason}: {mount.message}"
    if pod.phase != "Running":
        init = next((c.name for c in pod.containers if c.init and not c.ready), None)
        return Stage.START, f"init container {init} runs" if init else "containers start"
    unhealthy = _latest(events, ("Unhealthy",))
    late = [c.name for c in pod.containers if not c.ready and not c.init]
    text = unhealthy.message if unhealthy else "no failed probe reported"
    return Stage.READY, f"{', '.join(late) or 'a readiness gate'} not ready: {text}"


def _crashes(container: ContainerView) -> bool:
    return container.waiting == "CrashLoopBackOff" or (
        not container.ready and bool(container.exit_code) and container.restarts > 0
    )


def _crash_text(container: ContainerView) -> str:
    reason = container.exit_reason or "ended"
    code = f" with exit code {container.exit_code}" if container.exit_code is not None else ""
    return f"{container.name} {reason}{code}, {container.restarts} restarts"


def _missing_groups(
    snapshot: Snapshot, topology: Topology, events: Mapping[tuple[str, str, str], list[EventView]]
) -> list[Blocker]:
    out = []
    for lws in snapshot.group_sets.values():
        prefix = f"{lws.meta.name}/"
        present = sum(
            1 for g in topology.groups if g.namespace == lws.meta.namespace and g.group.startswith(prefix)
        )
        if present >= lws.replicas:
            continue
        about = events.get((lws.meta.namespace, "LeaderWorkerSet", lws.meta.name), [])
        event = _latest(about, _CREATE)
        role = lws.meta.labels.get("disaggregatedset.x-k8s.io/role", "")
        why = f"{event.reason}: {event.message}" if event else f"{present} of {lws.replicas} groups exist"
        out.append(Blocker(stage=Stage.CREATE, what=f"LeaderWorkerSet {lws.meta.name}", why=why, role=role))
    for ds in snapshot.disaggregated_sets.values():
        owned = [
            v
            for v in snapshot.group_sets.values()
            if v.meta.labels.get("disaggregatedset.x-k8s.io/name") == ds.meta.name
            and v.meta.namespace == ds.meta.namespace
        ]
        if (
            not owned
            and snapshot.kinds[Kind.GROUP_SETS].objects is not None
            and any(r.replicas for r in ds.roles)
        ):
            about = events.get((ds.meta.namespace, "DisaggregatedSet", ds.meta.name), [])
            event = _latest(about, _CREATE)
            why = (
                f"{event.reason}: {event.message}"
                if event
                else "it has no LeaderWorkerSet yet: is its controller running?"
            )
            out.append(Blocker(stage=Stage.CREATE, what=f"DisaggregatedSet {ds.meta.name}", why=why))
    return out


def _quota(snapshot: Snapshot) -> list[Blocker]:
    out = []
    for workload in snapshot.queued_workloads.values():
        states = {c.type: c for c in workload.conditions}
        finished = states.get("Finished")
        if finished is not None and finished.holds:
            continue
        for kind in ("QuotaReserved", "Admitted"):
            state = states.get(kind)
            if state is None or not state.holds:
                why = state.message if state and state.message else f"{kind} is not true yet"
                what = f"Workload {workload.meta.name} in queue {workload.queue}"
                out.append(Blocker(stage=Stage.QUOTA, what=what, why=why))
                break
    return out


def _routing(snapshot: Snapshot) -> list[Blocker]:
    out: list[Blocker] = []
    for deployment in snapshot.deployments.values():
        if deployment.picker_for and deployment.ready < deployment.replicas:
            why = f"{deployment.ready} of {deployment.replicas} replicas ready"
            out.append(Blocker(stage=Stage.PICKER, what=f"Deployment {deployment.meta.name}", why=why))
    for pool in snapshot.pools.values():
        out += _refused(Stage.POOL, f"InferencePool {pool.meta.name}", pool.conditions)
    for route in snapshot.routes.values():
        out += _refused(Stage.ROUTE, f"HTTPRoute {route.meta.name}", route.conditions)
    for gateway in snapshot.gateways.values():
        out += _refused(Stage.ROUTE, f"Gateway {gateway.meta.name}", gateway.conditions)
    return out


def _refused(stage: Stage, what: str, conditions: Iterable[Condition]) -> list[Blocker]:
    """Conditions that are False. Optional ones (Exported: NotRequested) do not count."""
    return [
        Blocker(
            stage=stage,
            what=what,
            why=f"{c.type} is false at {c.of or 'its parent'}: {c.reason} {c.message}".strip(),
        )
        for c in conditions
        if c.status == "False" and c.type in ("Accepted", "ResolvedRefs", "Programmed")
    ]
