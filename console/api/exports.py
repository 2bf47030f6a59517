"""A plan as manifests of any target, and the linter's findings about them."""

from __future__ import annotations

from pathlib import Path

from planner import __version__
from planner.catalog.hardware import load_fabric, load_gpu, load_node, with_fabric
from planner.catalog.models import load_model
from planner.domain.deployment import DeploymentPlan
from planner.export.lint import Finding, lint_documents
from planner.export.options import ExportOptions, RoleHardware, Target
from planner.export.targets import export_plan
from planner.export.targets.base import Export
from planner.export.yaml import Document


def export_of(plan: DeploymentPlan, target: Target, *, profiles: Path | None) -> Export:
    """The manifests of `plan`. Raises PlannerError for what cannot be exported."""
    fabric = load_fabric(plan.fabric, overlay=profiles)
    hardware = {}
    for role in plan.roles:
        node = load_node(role.node, overlay=profiles)
        hardware[role.role] = RoleHardware(
            gpu=load_gpu(role.gpu, overlay=profiles),
            node=node if node.fabric == fabric.id else with_fabric(node, fabric),
            fabric=fabric,
        )
    return export_plan(
        plan,
        model=load_model(plan.model, overlay=profiles),
        hardware=hardware,
        options=ExportOptions(target=target, created_by=f"wideplan {__version__}"),
    )


def findings_of(export: Export, *, profiles: Path | None) -> tuple[Finding, ...]:
    """What the linter says about an export of ours."""
    from planner.cli.catalogue_facts import CatalogueFacts

    documents = [
        Document(f"{m.kind}/{m.metadata.name}", i, 1, m.plain()) for i, m in enumerate(export.manifests)
    ]
    return tuple(lint_documents(documents, facts=CatalogueFacts(profiles=profiles)))
