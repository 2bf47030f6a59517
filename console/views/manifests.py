"""The manifests of a plan as text, ready to read, copy or write."""

from __future__ import annotations

from dataclasses import dataclass

from planner import __version__
from planner.domain.deployment import DeploymentPlan
from planner.export.naming import slug
from planner.export.options import ExportOptions
from planner.export.targets import export_plan
from planner.export.targets.base import Export, ExportFile
from planner.search.manifest_facts import load_facts


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestView:
    """One stream for reading and copying; `files` for a folder; `notes` say what the user has to know."""

    title: str
    text: str
    files: tuple[ExportFile, ...]
    notes: tuple[str, ...]


def export_of(plan: DeploymentPlan) -> tuple[str, Export]:
    """The name and the default export of `plan`. Raises PlannerError for what cannot be exported."""
    model, hardware = load_facts(plan)
    options = ExportOptions(created_by=f"wideplan {__version__}")
    made = export_plan(plan, model=model, hardware=hardware, options=options)
    return slug(plan.name), made


def manifest_view(plan: DeploymentPlan) -> ManifestView:
    """Render `plan` with default export options. Raises PlannerError for what cannot be exported."""
    _, made = export_of(plan)
    text = made.stream if made.stream is not None else "\n".join(f.text for f in made.files)
    return ManifestView(title=f"{plan.name}: {plan.label()}", text=text, files=made.files, notes=made.notes)
