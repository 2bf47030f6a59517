"""The documents name what the code has."""

from __future__ import annotations

from pathlib import Path

from planner.export.dialects import DIALECTS
from planner.export.lint import rules
from planner.export.options import Target
from planner.export.providers import PROVIDERS
from planner.export.settings import SETTINGS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_rule_is_documented_with_its_severity_and_title() -> None:
    text = (DOCS / "lint.md").read_text()
    for r in rules():
        assert f"| {r.id} | {r.severity.value} | {r.title} |" in text


def test_every_choice_of_the_export_is_documented() -> None:
    text = (DOCS / "manifests.md").read_text()
    names = [*(d.id for d in DIALECTS), *(p.id for p in PROVIDERS), *(t.value for t in Target), *SETTINGS]
    assert [n for n in names if f"`{n}`" not in text] == []
