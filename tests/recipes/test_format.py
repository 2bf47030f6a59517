"""Recipes that say something the planner would pass over are refused, and wrong files say where."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.catalog.documents import parse_document
from planner.catalog.locate import recipe_dir
from planner.catalog.recipes import check_recipe, list_recipes, load_recipe, write_beside
from planner.catalog.wire import structure
from planner.domain.errors import InputError
from planner.domain.recipe import Recipe

TWO = """\
id: two
why: A test.
model: org/model
prefill_pool: {gpu: h100-sxm, gpus: 8, fabric: ib-ndr400}
decode_pool: {gpu: h200-sxm, gpus: 8, fabric: ndr}
workload: {isl: 100, osl: 10}
slo: {}
engine: vllm
"""


def codes(text: str) -> dict[str, str]:
    document = parse_document(text, name="two.yaml")
    issues = check_recipe(structure(document, Recipe), document=document)
    return {i.code: (i.where or "").partition("@ ")[2] for i in issues}


def test_two_pools_on_one_network_by_two_names_are_fine() -> None:
    assert codes(TWO) == {}


@pytest.mark.parametrize(
    ("old", "new", "code", "where"),
    [
        ("fabric: ndr", "fabric: roce-400", "recipe.fabrics_differ", "$.prefill_pool.fabric"),
        ("fabric: ndr", "fabric: ndr, node: coreweave-h200", "recipe.node_of_role", "$.decode_pool.node"),
        ("engine: vllm", "engine: sglang", "recipe.engine", "$.engine"),
    ],
)
def test_what_would_be_passed_over_is_refused(old: str, new: str, code: str, where: str) -> None:
    assert codes(TWO.replace(old, new)) == {code: where}


def test_an_unknown_network_is_told_once() -> None:
    assert set(codes(TWO.replace("fabric: ndr", "fabric: nddr"))) == {"recipe.fabric_unknown"}


def test_only_files_with_recipes_in_them_are_recipes() -> None:
    files = {p.stem for p in recipe_dir().glob("*.yaml")}
    assert set(list_recipes()) == files
    for name in list_recipes():
        assert load_recipe(name).id == name
        assert load_recipe(name).engine_version is not None, "a new engine profile must not change an answer"


def test_a_folder_that_cannot_be_written_is_an_error_with_a_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError) as caught:
        write_beside(tmp_path / "file" / "expected" / "x.yaml", "text")
    assert caught.value.issues[0].code == "recipe.unwritable"


def test_a_plan_for_a_conversation_accepts_its_last_turn() -> None:
    """The workload of a recipe is a mean; engines must take the longest request of the traffic it stands for."""
    from planner.search.plans import max_model_len
    from planner.simulation.traffic import SEED_TALK

    prompts, length = [], 0
    for turn in SEED_TALK.turns:
        length += turn.new_tokens
        prompts.append(length)
        length += turn.answer_tokens
    workload = load_recipe("deepseek-r1-h200x32-conversation").workload
    assert workload.isl == sum(prompts) / len(prompts)
    assert workload.osl == SEED_TALK.turns[0].answer_tokens
    assert workload.prefix_hit == pytest.approx(sum(prompts[:-1]) / sum(prompts), abs=0.005)
    assert max_model_len(workload, 163_840) >= length
    assert max_model_len(workload, 20_000) == 20_000
