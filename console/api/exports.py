"""A plan as manifests of any target, and the linter's findings about them."""

from __future__ import annotations

from pathlib import Path

from planner import __version__
from planner.domain.deployment import DeploymentPlan
from planner.export.lint import Finding, lint_documents
from planner.export.options import ExportOptions, Target
from planner.export.targets import export_plan
from planner.export.targets.base import Export
from planner.export.yaml import Document
from planner.search.manifest_facts import CatalogueFacts, load_facts


def export_of(plan: DeploymentPlan, target: Target, *, profiles: Path | None) -> Export:
    """The manifests of `plan`. Raises PlannerError for what cannot be exported."""
    model, hardware = load_facts(plan, profiles=profiles)
    return export_plan(
        plan,
        model=model,
        hardware=hardware,
        options=ExportOptions(target=target, created_by=f"wideplan {__version__}"),
    )


def findings_of(export: Export, *, profiles: Path | None) -> tuple[Finding, ...]:
    """What the linter says about an export of ours."""
    documents = [
        Document(f"{m.kind}/{m.metadata.name}", i, 1, m.plain()) for i, m in enumerate(export.manifests)
    ]
    return tuple(lint_documents(documents, facts=CatalogueFacts(profiles=profiles)))
