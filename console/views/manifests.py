"""The manifests of a plan as text, ready to read, copy or write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from planner import __version__
from planner.domain.deployment import DeploymentPlan
from planner.export.options import ExportOptions, Target
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


def export_of(plan: DeploymentPlan, target: Target = Target.LLM_D, *, profiles: Path | None = None) -> Export:
    """The export of `plan` with default options. Raises PlannerError for what cannot be exported."""
    model, hardware = load_facts(plan, profiles=profiles)
    options = ExportOptions(target=target, created_by=f"wideplan {__version__}")
    return export_plan(plan, model=model, hardware=hardware, options=options)


def manifest_view(plan: DeploymentPlan) -> ManifestView:
    """Render `plan` with default export options. Raises PlannerError for what cannot be exported."""
    made = export_of(plan)
    text = made.stream if made.stream is not None else "\n".join(f.text for f in made.files)
    return ManifestView(title=f"{plan.name}: {plan.label()}", text=text, files=made.files, notes=made.notes)
