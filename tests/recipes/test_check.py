"""What counts as a change, and what `planner recipes check` says and writes about it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from planner.catalog.recipes import expected_path, load_expected, recipe_path
from planner.cli.main import main
from planner.domain.errors import ExitCode
from planner.domain.provenance import Estimate
from planner.domain.recipe import ExpectedOutcome, PlannedOutcome
from planner.search.ask import Request, build_problem
from planner.search.from_recipe import with_recipe
from planner.search.notation import notation_of, parse_role
from planner.search.recipe_check import answer_recipe, compare, significant
from planner.search.recommend import recommend

SMALL = "qwen3-30b-l40sx8"


@pytest.fixture(scope="module")
def kept() -> PlannedOutcome:
    found = load_expected(recipe_path(SMALL))
    assert found is not None
    return found


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The smallest recipe as a file of the user's own."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copy(recipe_path(SMALL), tmp_path / "mine.yaml"))


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main(["recipes", "check", *args])
    out = capsys.readouterr()
    return (done.value.code if isinstance(done.value.code, int) else 0), out.out, out.err


def changed(kept: PlannedOutcome, factor: float) -> PlannedOutcome:
    assert kept.figures is not None
    old = kept.figures.ttft_ms
    ttft = Estimate(old.value * factor, old.low * factor, old.high * factor)
    return replace(kept, figures=replace(kept.figures, ttft_ms=ttft))


def test_figures_may_move_by_half_a_percent_and_no_more(kept: PlannedOutcome) -> None:
    assert compare(kept, kept) == ()
    assert compare(kept, changed(kept, 1.004)) == ()
    assert compare(kept, changed(kept, 0.996)) == ()
    (change,) = compare(kept, changed(kept, 1.02))
    assert (change.field, change.percent) == ("TTFT ms", pytest.approx(2.0, abs=0.01))


def test_an_interval_that_widens_is_a_change(kept: PlannedOutcome) -> None:
    assert kept.figures is not None
    old = kept.figures.tpot_ms
    wider = replace(kept, figures=replace(kept.figures, tpot_ms=replace(old, high=old.high * 1.1)))
    assert [c.field for c in compare(kept, wider)] == ["TPOT ms (high)"]


def test_plans_and_reasons_are_compared_in_words(kept: PlannedOutcome) -> None:
    other = replace(
        kept, plan=(kept.plan[0], kept.plan[1].replace("tp2", "tp1")), gpus_used=kept.gpus_used - 1
    )
    assert {c.field for c in compare(kept, other)} == {"decode plan", "GPUs used"}
    aggregated = replace(kept, roles=("aggregated",), plan=kept.plan[:1])
    assert {c.field for c in compare(kept, aggregated)} == {"prefill plan", "decode plan", "aggregated plan"}
    digits = replace(kept, binding=kept.binding.translate(str.maketrans("0123456789", "1234567890")))
    assert digits.binding != kept.binding
    assert compare(kept, digits) == ()
    assert [c.field for c in compare(kept, replace(kept, binding="KV capacity"))] == ["binding"]
    assert compare(kept, replace(kept, calibration="00000000", model_version="99")) == ()


def test_no_figures_at_all_is_a_change(kept: PlannedOutcome) -> None:
    gone = compare(kept, replace(kept, feasible=False, figures=None, other=None))
    assert {"meets the targets", "output tok/s/GPU", "TTFT ms"} <= {c.field for c in gone}
    assert next(c for c in gone if c.field == "TTFT ms").found == "none"


@pytest.mark.parametrize(
    ("value", "kept_as"),
    [(1234.56, 1235.0), (0.0123456, 0.01235), (99999.0, 100000.0), (0.0, 0.0), (-1.23456, -1.235)],
)
def test_figures_are_kept_to_four_digits(value: float, kept_as: float) -> None:
    assert significant(value) == kept_as


@pytest.mark.parametrize(
    ("low", "high", "reached"),
    [
        (None, 99.0, False),
        (None, 100.0, True),
        (200.0, None, True),
        (201.0, None, False),
        (250.0, 300.0, False),
    ],
)
def test_a_published_range_is_reached_when_it_shares_a_value(
    low, high, reached: bool, kept: PlannedOutcome
) -> None:
    from planner.catalog.recipes import load_recipe

    source = load_recipe("deepseek-r1-b200x16").expected
    assert source is not None
    e = ExpectedOutcome(source=source.source, output_tok_s_per_gpu_low=low, output_tok_s_per_gpu_high=high)
    assert e.overlaps(Estimate(150.0, 100.0, 200.0)) is reached


def test_check_writes_compares_and_names_what_differs(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "mine.yaml")
    assert (code, "nothing kept" in out, "--update mine.yaml" in err) == (ExitCode.ANSWERED_NO, True, True)
    assert not expected_path(own).exists()
    assert run(capsys, "mine.yaml", "--update")[0] == ExitCode.OK
    first = expected_path(own).read_bytes()
    code, out, _ = run(capsys, "./mine.yaml")
    assert (code, out.strip()) == (ExitCode.OK, "./mine.yaml: as expected")

    data = yaml.safe_load(first)
    data["figures"]["output_tok_s_per_gpu"]["value"] *= 2
    data["plan"][0] = data["plan"][0].replace("tp1", "tp2")
    expected_path(own).write_text(yaml.safe_dump(data))
    code, out, _ = run(capsys, "mine.yaml", "--json")
    (result,) = json.loads(out)["recipes"]
    assert (code, result["status"]) == (ExitCode.ANSWERED_NO, "changed")
    by_field = {c["field"]: c for c in result["changes"]}
    assert by_field.keys() == {"prefill plan", "output tok/s/GPU"}
    assert by_field["output tok/s/GPU"]["percent"] == pytest.approx(-50.0)
    code, out, _ = run(capsys, "mine.yaml", "--update")
    assert (code, max(len(line) for line in out.splitlines()) <= 100) == (ExitCode.OK, True)
    assert expected_path(own).read_bytes() == first, "same answer, same bytes"


def test_a_damaged_outcome_is_refused_with_its_line(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected_path(own).parent.mkdir()
    expected_path(own).write_text("recipe: mine\nfeasible: maybe\n")
    code, _, err = run(capsys, "mine.yaml")
    assert code == ExitCode.USAGE
    assert "mine.yaml:2 @ $.feasible" in err


def test_unknown_names_are_told_before_anything_is_planned(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "mine.yaml", "deepseek-r1-h200x31")
    assert (code, out) == (ExitCode.USAGE, "")
    assert "recipe.unknown" in err


def test_a_question_refused_by_arithmetic_is_an_outcome(own: Path) -> None:
    own.write_text(own.read_text().replace("tpot_ms: 50", "tpot_ms: 0.01"))
    answered = answer_recipe("mine.yaml")
    assert answered.recommendation is None
    assert not answered.outcome.feasible
    assert answered.outcome.gpus_owned == 8
    assert "TPOT" in answered.outcome.binding
    assert answered.outcome.needed


@pytest.mark.parametrize("recipe", [SMALL, "minimax-m2.5-h200x8"])
def test_the_notation_of_every_plan_reads_back_as_that_plan(recipe: str) -> None:
    problem, engine = build_problem(with_recipe(recipe, Request(calibration=False)))
    answer = recommend(problem, engine)
    roles = [r for entry in answer.ranked for r in entry.plan.roles]
    assert roles
    for role in roles:
        pool = problem.prefill_pool if role.role.value == "prefill" else problem.decode_pool
        read = parse_role(notation_of(role), role.role, model=problem.model, pool=pool, flag="--x")
        assert read == replace(
            role, concurrency=read.concurrency, gpu_memory_utilization=read.gpu_memory_utilization
        )
