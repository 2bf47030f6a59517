"""Every recipe is answered as kept in recipes/expected, and its pick becomes manifests nobody has anything against."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from planner.catalog.recipes import list_recipes, load_expected, load_recipe, recipe_path, stray_outcomes
from planner.domain.recipe import RecipeFamily
from planner.export.lint import Severity, lint_documents
from planner.export.options import ExportOptions
from planner.export.schema import SchemaSet, load_schemas
from planner.export.targets import export_plan
from planner.export.yaml import load_stream
from planner.search.manifest_facts import CatalogueFacts, load_facts
from planner.search.recipe_check import answer_recipe, compare

CRDS = Path(__file__).resolve().parents[3] / "shared" / "crds"


@pytest.mark.parametrize("name", list_recipes())
def test_the_answer_is_the_one_kept_and_can_be_deployed(name: str) -> None:
    """One test, so that a recipe is planned once wherever it lands among the workers."""
    kept = load_expected(recipe_path(name))
    assert kept is not None, "planner recipes check --update"
    answered = answer_recipe(name)
    changes = compare(kept, answered.outcome)
    assert not changes, "\n".join(f"{c.field}: kept {c.expected}, today {c.found}" for c in changes)
    answer = answered.recommendation
    pick = answer.pick if answer is not None else None
    if pick is None:
        assert load_recipe(name).family is RecipeFamily.LIMITS, "a recipe without an answer is one on purpose"
        assert kept.needed
        return
    model, hardware = load_facts(pick.plan, profiles=None)
    made = export_plan(pick.plan, model=model, hardware=hardware, options=ExportOptions())
    assert made.stream is not None
    documents = load_stream(made.stream, source=name)
    findings = lint_documents(documents, facts=CatalogueFacts(), schemas=schemas())
    assert [f.what for f in findings if f.severity is Severity.ERROR] == []


@cache
def schemas() -> SchemaSet | None:
    return load_schemas(CRDS) if CRDS.exists() else None


def test_there_is_a_recipe_for_every_family_and_none_without_one() -> None:
    families = [load_recipe(n).family for n in list_recipes()]
    assert None not in families
    assert set(families) == set(RecipeFamily)
    assert len(families) >= 16


def test_every_kept_outcome_has_its_recipe_and_its_question() -> None:
    assert stray_outcomes() == ()
    for name in list_recipes():
        kept = load_expected(recipe_path(name))
        assert kept is not None
        assert kept.recipe == name
        assert kept.gpus_owned == load_recipe(name).gpus
