"""`planner explain`: everything a message or a table names can be looked up, offline."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from console.views.metrics import METRICS, Axis
from planner.cli.main import COMMANDS, main
from planner.domain.errors import ExitCode, InputError
from planner.domain.legality import PAIR_RULES, PLAN_RULES, ROLE_RULES
from planner.explain import TERMS, Better, Kind, find, metrics, topics
from planner.export.lint import rules

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r'\bcode="([a-z_-]+\.[a-z_0-9.-]+)"')


def test_every_code_in_the_source_is_known() -> None:
    known = {t.name for t in topics()}
    raised = {
        code
        for folder in ("planner", "console")
        for path in (ROOT / folder).rglob("*.py")
        for code in CODE.findall(path.read_text())
    }
    assert len(raised) > 150
    assert raised - known == set()


@pytest.mark.parametrize(
    "code",
    ["gpu.unknown", "fabric.unknown", "export.setting_unknown", "gpu.sparse_peak", "node.rdma_count"],
)
def test_codes_that_are_put_together_are_known_too(code: str) -> None:
    found = find(code)
    assert found.kind is Kind.ERROR
    assert found.exit_status == ExitCode.USAGE
    assert found.cases[0].fix


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("cluster.unreachable", ExitCode.CLUSTER),
        ("store.newer", ExitCode.MISSING_DATA),
        ("study.worker_died", ExitCode.STOPPED_EARLY),
        ("memory.weights", ExitCode.ANSWERED_NO),
        ("notation.role", ExitCode.USAGE),
    ],
)
def test_exit_statuses_are_those_of_the_error_class(code: str, status: ExitCode) -> None:
    assert find(code).exit_status == status


def test_rules_lint_rules_and_statuses_are_topics() -> None:
    for rule in (*ROLE_RULES, *PAIR_RULES, *PLAN_RULES):
        found = find(rule.code)
        assert found.kind is Kind.RULE, rule.code
        assert found.title == rule.title
        assert found.cases, rule.code
    for info in rules():
        assert find(info.id.lower()).source == info.source
    for status in ExitCode:
        assert find(str(int(status))).kind is Kind.EXIT


def test_names_are_not_ambiguous() -> None:
    spelled: dict[str, str] = {}
    for term in TERMS:
        for name in {term.name.lower(), *term.aliases}:
            assert name == name.lower(), name
            assert spelled.setdefault(name, term.name) == term.name, name


def test_related_terms_exist_and_commands_are_real() -> None:
    for term in TERMS:
        for name in term.see:
            assert find(name).term is not None, (term.name, name)
            assert find(name).name != term.name
        for place in term.shown:
            named = re.match(r"planner ([a-z-]+)", place)
            assert named is None or named[1] in COMMANDS, (term.name, place)
            page = re.search(r"docs/\S+\.md", place)
            assert page is None or (ROOT / page[0]).is_file(), (term.name, place)


def test_units_and_directions_are_those_of_the_charts() -> None:
    for axis in Axis:
        term = find(axis.value).term
        assert term is not None, axis
        assert (term.better is Better.HIGHER) == METRICS[axis].higher_is_better, axis
        assert METRICS[axis].unit in (term.unit or ""), axis
    assert all(t.unit for t in metrics())


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("tpot", "TPOT"),
        ("Wide  EP", "wide EP"),
        ("dp attention", "data parallelism"),
        ("dual-batch overlap", "DBO"),
        ("lws", "LeaderWorkerSet"),
        ("hypervolume", "hypervolume"),
        ("goodput", "goodput"),
        ("eplb", "EPLB"),
    ],
)
def test_terms_are_found_by_what_people_type(typed: str, name: str) -> None:
    assert find(typed).name == name


@pytest.mark.parametrize(
    ("typed", "suggested"), [("gpu.unknwn", "'gpu.unknown'"), ("lockstp", "'lockstep'"), ("L99", "'l")]
)
def test_a_near_miss_is_answered_with_the_name(typed: str, suggested: str) -> None:
    with pytest.raises(InputError) as refused:
        find(typed)
    assert suggested in refused.value.issues[0].fix


@pytest.mark.parametrize("typed", [".", "é🙂", "xyzzy", "'; drop"])
def test_nonsense_gets_no_suggestion_but_a_way_on(typed: str) -> None:
    with pytest.raises(InputError) as refused:
        find(typed)
    assert "planner explain lists all" in refused.value.issues[0].fix


def run(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    with pytest.raises(SystemExit) as left:
        main(["explain", *args])
    assert left.value.code == 0
    return capsys.readouterr().out


def test_the_command_tells_unit_direction_and_fix(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "tpot")
    assert "unit: ms" in shown
    assert "better: lower" in shown
    assert "fix: use DCP 1, or turn DBO off" in run(capsys, "dbo.dcp")
    assert "reported by: " in run(capsys, "L13")
    assert "exit status 4" in run(capsys, "cluster.unreachable")


def test_lists_name_everything_and_fit(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys)
    flat = " ".join(shown.split())
    for topic in topics():
        wanted = topic.name.split(".")[0] + ". (" if topic.kind is Kind.ERROR else topic.name
        assert wanted in flat, topic.name
    area = run(capsys, "memory.")
    assert "memory.weights" in area
    assert max(map(len, (shown + area).splitlines())) <= 100


def test_json_has_all_cases(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(run(capsys, "trace.line", "--json"))
    assert document["schema"] == "wideplan.topic/v1"
    assert len(document["cases"]) > 6
    every = json.loads(run(capsys, "--json"))
    assert every["schema"] == "wideplan.topics/v1"
    assert {"TPOT", "gpu.unknown", "dbo.dcp", "L13", "130"} <= {t["name"] for t in every["topics"]}


def test_an_unknown_area_names_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["explain", "exprt."])
    assert left.value.code == ExitCode.USAGE
    assert "'export.'" in capsys.readouterr().err
