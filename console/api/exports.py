"""What the linter says about manifests of ours."""

from __future__ import annotations

from pathlib import Path

from planner.export.lint import Finding, lint_documents
from planner.export.targets.base import Export
from planner.export.yaml import Document
from planner.search.manifest_facts import CatalogueFacts


def findings_of(export: Export, *, profiles: Path | None) -> tuple[Finding, ...]:
    """What the linter says about an export of ours."""
    documents = [
        Document(f"{m.kind}/{m.metadata.name}", i, 1, m.plain()) for i, m in enumerate(export.manifests)
    ]
    return tuple(lint_documents(documents, facts=CatalogueFacts(profiles=profiles)))
