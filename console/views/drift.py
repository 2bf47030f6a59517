"""A plan against what runs, as lines: group counts from what is watched, objects and flags by dry-run."""

from __future__ import annotations

from console.cluster.api import Api
from console.cluster.drift import ObjectState
from console.cluster.state import Snapshot
from console.views.cluster import ClusterOverview
from console.views.cluster_drift import drift_report
from console.views.manifests import export_of
from planner.domain.deployment import DeploymentPlan
from planner.export.naming import slug


def plan_lines(plan: DeploymentPlan, overview: ClusterOverview) -> tuple[str, ...]:
    """Per role of the plan: groups and GPUs planned and live."""
    lines = []
    for role in plan.roles:
        rows = [r for r in overview.roles if r.role == role.role.value]
        groups, ready, gpus = (
            sum(r.groups for r in rows),
            sum(r.ready for r in rows),
            sum(r.gpus for r in rows),
        )
        mark = "=" if (ready, gpus) == (role.groups, role.gpus) else "≠"
        lines.append(
            f"{mark} {role.role.value}: planned {role.groups} groups, {role.gpus} GPUs; "
            f"live {ready} ready of {groups} groups, {gpus} GPUs"
        )
    known = {r.role.value for r in plan.roles}
    lines.extend(f"≠ {r.role}: {r.groups} groups run that the plan does not have" for r in overview.roles
                 if r.role not in known and r.groups)  # fmt: skip
    return tuple(lines)


async def drift_lines(api: Api, snapshot: Snapshot, plan: DeploymentPlan) -> tuple[str, ...]:
    """Objects by server-side dry-run and running engines' flags. Raises ClusterError, or PlannerError from export."""
    space = snapshot.identity.namespace or "default"
    name, made = slug(plan.name), export_of(plan)
    report = await drift_report(
        api, snapshot, [m.plain() for m in made.manifests], name=name, namespace=space
    )
    lines = ["", f"objects in {space}"]
    for o in report.objects:
        mark = "=" if o.state is ObjectState.SAME else "≠"
        lines.append(f"{mark} {o.kind}/{o.name}: {o.state.value}{f', {o.why}' if o.why else ''}")
        lines += [f"    {c.path}: live {c.live or '–'}, planned {c.planned or '–'}" for c in o.changes]
    lines += ["", "running engines"]
    lines += [f"≠ {a.role} {a.flag}: planned {a.planned or '–'}, running {a.running or '–'} on {a.pods} pods"
              for a in report.arguments] or ["= all flags as planned"]  # fmt: skip
    return (*lines, *(f"note: {n}" for n in report.notes))
