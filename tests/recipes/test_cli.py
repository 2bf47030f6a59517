"""``planner recipes``: lists and pages say what the files say; new ones are checked before they are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from planner.catalog.locate import recipe_dir
from planner.catalog.recipes import list_recipes, load_expected, load_recipe, recipe_path
from planner.cli.main import main
from planner.cli.recipes_page import page
from planner.domain.deployment import Strategy
from planner.domain.errors import ExitCode

SMALL = "qwen3-30b-l40sx8"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def call(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as done:
            main(["recipes", *args])
        out = capsys.readouterr()
        return (done.value.code if isinstance(done.value.code, int) else 0), out.out, out.err

    return call


def test_the_list_fits_100_columns_and_names_every_recipe(run) -> None:
    code, out, _ = run("list")
    assert code == ExitCode.OK
    assert max(len(line) for line in out.splitlines()) <= 100
    assert all(f" {name} " in out for name in list_recipes())
    assert "README" not in list_recipes()
    code, out, _ = run("list", "--json")
    assert [r["id"] for r in json.loads(out)["recipes"]] == list(list_recipes())


@pytest.mark.parametrize("name", list_recipes())
def test_show_says_the_plan_that_is_kept_and_what_was_published(run, name: str) -> None:
    code, out, _ = run("show", name)
    assert code == ExitCode.OK
    text, _, commands = out.partition("\nNext\n")
    assert max(len(line) for line in text.splitlines()) <= 100
    kept, recipe = load_expected(recipe_path(name)), load_recipe(name)
    assert kept is not None
    assert all(plan in text and f"'{plan}'" in commands for plan in kept.plan)
    assert ("Published" in text) == (recipe.expected is not None)
    if recipe.expected is not None and kept.figures is not None:
        missed = not recipe.expected.overlaps(kept.figures.output_tok_s_per_gpu)
        assert missed == ("does not reach it" in " ".join(text.split()))


def test_show_as_json_has_the_recipe_and_the_plan(run) -> None:
    code, out, _ = run("show", SMALL, "--json")
    document = json.loads(out)
    assert (code, document["schema"], document["id"]) == (0, "wideplan.recipe/v1", SMALL)
    assert document["planned"]["figures"]["output_tok_s_per_gpu"]["low"] > 0


def test_the_commands_of_show_work_as_printed(run, planner_cli) -> None:
    import shlex

    _, out, _ = run("show", SMALL)
    line = next(line for line in out.splitlines() if "planner estimate" in line)
    done = planner_cli(*shlex.split(line)[1:], "--json")
    assert done.returncode == 0, done.stderr
    priced = json.loads(done.stdout)["evaluation"]["output_tok_s_per_gpu"]["value"]
    kept = load_expected(recipe_path(SMALL))
    assert kept is not None
    assert kept.figures is not None
    assert priced == pytest.approx(kept.figures.output_tok_s_per_gpu.value, rel=0.01)


def test_the_page_of_recipes_is_current() -> None:
    outcomes = {n: load_expected(recipe_path(n)) for n in list_recipes()}
    text = page(
        [load_recipe(n) for n in list_recipes()], {n: o for n, o in outcomes.items() if o is not None}
    )
    assert (recipe_dir() / "README.md").read_text(encoding="utf-8") == text, "planner recipes check --update"
    assert all(f"[{n}]({n}.yaml)" in text for n in list_recipes())


# --- new ---

FLAGS = (
    "--model",
    "minimax-m2.5",
    "--gpu",
    "H200",
    "--gpus",
    "8",
    "--fabric",
    "ndr",
    "--isl",
    "3000",
    "--osl",
    "500",
)


def test_new_resolves_names_and_writes_what_it_was_told(run) -> None:
    code, out, _ = run("new", "mine", *FLAGS, "--tpot-ms", "33.5", "--why", "Because.")
    assert code == ExitCode.OK
    assert "planner recommend ./mine.yaml" in out
    assert yaml.safe_load(Path("mine.yaml").read_text()) == {
        "id": "mine",
        "why": "Because.",
        "model": "MiniMaxAI/MiniMax-M2.5",
        "pool": {"gpu": "h200-sxm", "gpus": 8, "fabric": "ib-ndr400"},
        "workload": {"isl": 3000, "osl": 500},
        "slo": {"tpot_ms": 33.5},
        "engine": "vllm",
        "engine_version": "0.33.0",
    }
    assert load_recipe("./mine.yaml").slo.tpot_ms == 33.5


def test_new_from_a_recipe_changes_only_what_is_named(run) -> None:
    code, _, _ = run("new", "wider", "--from", "deepseek-r1-h200x32", "--gpus", "64", "--prefix-hit", "0.5")
    assert code == ExitCode.OK
    old, new = load_recipe("deepseek-r1-h200x32"), load_recipe("./wider.yaml")
    assert (new.gpus, new.workload.prefix_hit, new.workload.isl, new.slo) == (
        64,
        0.5,
        old.workload.isl,
        old.slo,
    )
    assert "deepseek-r1-h200x32" in new.why
    assert "--gpus 64" in new.why
    assert new.expected is None, "a published outcome belongs to the question it was published for"


def test_new_turns_one_pool_into_two_and_back(run) -> None:
    split = (
        "--prefill-gpu",
        "h100-sxm",
        "--prefill-gpus",
        "16",
        "--decode-gpu",
        "h200-sxm",
        "--decode-gpus",
        "8",
    )
    assert run("new", "two", "--from", "kimi-k2-h200x32", *split)[0] == ExitCode.OK
    two = load_recipe("./two.yaml")
    assert two.pool is None
    assert [(p.gpu, p.gpus) for p in two.pools] == [("h100-sxm", 16), ("h200-sxm", 8)]
    assert run("new", "one", "--from", "two.yaml", "--gpu", "b200-sxm", "--gpus", "16")[0] == ExitCode.OK
    assert [(p.gpu, p.gpus) for p in load_recipe("./one.yaml").pools] == [("b200-sxm", 16)]


def test_new_keeps_the_strategy_and_another_node_shape(run) -> None:
    assert run("new", "a", "--from", "deepseek-r1-h200x16-aggregated", "--cluster", "coreweave-h200")[0] == 0
    made = load_recipe("./a.yaml")
    assert made.strategies == (Strategy.AGGREGATED,)
    assert made.pool is not None
    assert made.pool.node == "coreweave-h200"
    assert run("new", "b", "--from", "a.yaml", "--gpu", "b200-sxm")[0] == 0, "the shape goes with its GPU"


def test_new_does_not_overwrite_unasked(run) -> None:
    Path("mine.yaml").write_text("precious")
    code, _, err = run("new", "mine", *FLAGS)
    assert (code, "recipe.exists" in err) == (ExitCode.USAGE, True)
    assert Path("mine.yaml").read_text() == "precious"
    assert run("new", "mine", *FLAGS, "--force")[0] == ExitCode.OK
    assert load_recipe("./mine.yaml").id == "mine"


@pytest.mark.parametrize(
    ("args", "code", "status"),
    [
        (("Mine/..", *FLAGS), "recipe.name", 2),
        (("mine", "--from", "deepseek-r1-h200x3"), "recipe.unknown", 2),
        (("mine", *FLAGS[:-2], "--osl", "0"), "osl.not-positive", 2),
        (("mine", *FLAGS, "--gpus", "12"), "gpus.not-tiling", 2),
        (("mine", *FLAGS, "--prefill-gpu", "h100-sxm"), "flags.conflict", 2),
        (("mine", *FLAGS, "--tpot-ms", "0.01"), "slo.tpot-below-bound", 1),
        (("mine",), "model.missing", 2),
    ],
)
def test_new_writes_nothing_that_cannot_be_planned(
    run, args: tuple[str, ...], code: str, status: int
) -> None:
    got, _, err = run("new", *args)
    assert got == status
    assert f"error[{code}]" in err
    assert list(Path().glob("*")) == []
