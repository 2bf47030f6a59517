"""Recipes: the shipped ones resolve; wrong ones are refused with every problem at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.catalog.engines import load_engine
from planner.catalog.hardware import default_node, load_fabric, load_gpu
from planner.catalog.recipes import list_recipes, load_recipe
from planner.domain.deployment import Strategy
from planner.domain.errors import InputError, MissingDataError

GOOD = """\
id: mine
why: A test.
model: org/model
pool: {gpu: h200, gpus: 16, fabric: ndr}
workload: {isl: 100, osl: 10}
slo: {tpot_ms: 50}
engine: vllm
"""


def test_shipped_recipes_resolve() -> None:
    names = list_recipes()
    assert {
        "deepseek-r1-h200x32", "deepseek-r1-h200x16-aggregated", "qwen3-235b-h100x16", "gpt-oss-120b-h200x8",
        "deepseek-v3-gb200x72",
    } <= set(names)  # fmt: skip
    for name in names:
        recipe = load_recipe(name)
        assert recipe.id == name
        load_engine(recipe.engine, recipe.engine_version)
        for pool in recipe.pools:
            node = default_node(load_gpu(pool.gpu), load_fabric(pool.fabric))
            assert pool.gpus % node.gpus_per_node == 0


def test_the_reference_recipe() -> None:
    r = load_recipe("DeepSeek-R1-H200x32")
    assert r.pool is not None
    assert (r.pool.gpu, r.pool.gpus, r.pool.fabric) == ("h200-sxm", 32, "ib-ndr400")
    assert (r.workload.isl, r.workload.osl, r.slo.ttft_ms, r.slo.tpot_ms) == (10000, 2000, 2000, 50)
    assert load_recipe("deepseek-r1-h200x16-aggregated").strategies == (Strategy.AGGREGATED,)


def write(folder: Path, *edits: tuple[str, str]) -> Path:
    text = GOOD
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path) -> dict[str, str]:
    with pytest.raises(InputError) as caught:
        load_recipe(path)
    return {i.code: i.where or "" for i in caught.value.issues}


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert load_recipe(path) == load_recipe(str(path))
    split = write(
        tmp_path,
        (
            "pool: {gpu: h200, gpus: 16, fabric: ndr}",
            "prefill_pool: {gpu: h100, gpus: 8, fabric: ndr}\ndecode_pool: {gpu: h200, gpus: 16, fabric: ndr}",
        ),
    )
    assert load_recipe(split).gpus == 24


def test_all_problems_of_a_recipe_are_told_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        ("gpu: h200, gpus: 16, fabric: ndr", "gpu: h2000, gpus: 0, fabric: nddr, node: nowhere"),
        ("isl: 100", "isl: 0, prefix_hit: 1.0"),
        ("tpot_ms: 50", "tpot_ms: -1"),
    )
    with pytest.raises(InputError) as caught:
        load_recipe(path)
    assert sorted((i.code, (i.where or "").partition("@ ")[2]) for i in caught.value.issues) == [
        ("recipe.fabric_unknown", "$.pool.fabric"),
        ("recipe.gpu_unknown", "$.pool.gpu"),
        ("recipe.node_unknown", "$.pool.node"),
        ("recipe.value_range", "$.pool.gpus"),
        ("recipe.value_range", "$.slo.tpot_ms"),
        ("recipe.value_range", "$.workload.isl"),
        ("recipe.value_range", "$.workload.prefix_hit"),
    ]


@pytest.mark.parametrize(
    "pools",
    [
        "",
        "prefill_pool: {gpu: h200, gpus: 8, fabric: ndr}",
        "pool: {gpu: h200, gpus: 8, fabric: ndr}\ndecode_pool: {gpu: h200, gpus: 8, fabric: ndr}",
    ],
)
def test_pools_are_shared_or_both_given(tmp_path: Path, pools: str) -> None:
    assert "recipe.pools" in refused(write(tmp_path, ("pool: {gpu: h200, gpus: 16, fabric: ndr}", pools)))


def test_names_and_paths_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_recipe("deepseek-r1-h200")
    assert caught.value.issues[0].code == "recipe.unknown"
    assert "deepseek-r1-h200x32" in caught.value.issues[0].fix
    with pytest.raises(MissingDataError):
        load_recipe(str(tmp_path / "none.yaml"))


def test_a_recipe_without_a_reason_is_refused(tmp_path: Path) -> None:
    assert "recipe.why" in refused(write(tmp_path, ("why: A test.", 'why: " "')))
