"""Plan against cluster as one report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.cluster.api import Api, ApiError, refused, unreachable
from console.cluster.arguments import ArgumentDrift, argument_drift
from console.cluster.discovery import resource_names
from console.cluster.drift import ObjectDrift, ObjectState, object_drift
from console.cluster.kinds import Kind
from console.cluster.state import Snapshot, Trust
from console.cluster.topology import topology
from planner.export.values import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """What differs. `objects` in the order they are applied."""

    name: str
    namespace: str
    objects: tuple[ObjectDrift, ...]
    arguments: tuple[ArgumentDrift, ...]
    notes: tuple[str, ...]

    @property
    def drifted(self) -> bool:
        """Whether anything differs or is missing."""
        return bool(self.arguments) or any(o.state is not ObjectState.SAME for o in self.objects)


async def drift_report(
    api: Api, snapshot: Snapshot, manifests: Sequence[Table], *, name: str, namespace: str
) -> DriftReport:
    """Compare. Raises ClusterError when the server cannot be reached or lets nothing be read."""
    try:
        names = await resource_names(api, (str(m["apiVersion"]) for m in manifests))
        objects = await object_drift(api, manifests, namespace=namespace, names=names)
    except ApiError as error:
        if error.denied:
            raise refused(api.server, error, "reading the plan's objects") from None
        raise unreachable(api.server, error.message) from None
    notes = []
    if any(not o.by_dry_run for o in objects):
        notes.append("dry-run needs the verb patch; without it the server's defaults are not considered")
    if snapshot.kinds[Kind.PODS].trust is not Trust.LIVE:
        notes.append("no pod could be read: running engines were not compared")
    return DriftReport(
        name=name,
        namespace=namespace,
        objects=objects,
        arguments=argument_drift(manifests, topology(snapshot), name=name),
        notes=tuple(notes),
    )
