"""The commands, as a user runs them: exit status, streams, messages."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from export_builders import CRDS, example_a, example_b
from typer.testing import CliRunner

from planner.catalog.plans import load_plan, save_plan
from planner.cli.export import export
from planner.cli.import_ import import_
from planner.cli.lint import lint
from planner.domain.errors import PlannerError

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run() -> Run:
    """Run one command; a PlannerError becomes its exit code and messages, as main() does it."""
    app = typer.Typer()
    app.command("export")(export)
    app.command("lint")(lint)
    app.command("import")(import_)

    def call(*args: object, stdin: str | None = None) -> tuple[int, str, str]:
        result = CliRunner().invoke(app, [str(a) for a in args], input=stdin)
        if isinstance(result.exception, PlannerError):
            text = "\n".join(f"{i.code}: {i.what} / {i.fix}" for i in result.exception.issues)
            return int(result.exception.exit_code), result.stdout, text
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    return call


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    save_plan(example_a().build(), path)
    return path


def test_export_writes_a_stream_and_nothing_else(run: Run, plan: Path) -> None:
    code, out, _ = run("export", plan)
    assert code == 0
    kinds = [d["kind"] for d in yaml.safe_load_all(out)]
    assert kinds == [
        "ServiceAccount",
        "DisaggregatedSet",
        "InferencePool",
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ConfigMap",
        "Deployment",
        "Service",
    ]


def test_export_into_a_folder(run: Run, plan: Path, tmp_path: Path) -> None:
    code, out, err = run("export", plan, "--out", tmp_path / "m", "--namespace", "llm")
    assert (code, out) == (0, "")
    assert "01-serviceaccount-r1.yaml" in err
    files = sorted((tmp_path / "m").iterdir())
    assert yaml.safe_load(files[1].read_text())["metadata"]["namespace"] == "llm"


def test_export_as_json(run: Run, plan: Path) -> None:
    code, out, _ = run("export", plan, "--json")
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "wideplan.manifests/v1"
    assert document["objects"][1]["kind"] == "DisaggregatedSet"


def test_the_same_plan_gives_the_same_bytes(run: Run, plan: Path) -> None:
    assert run("export", plan) == run("export", plan)


@pytest.mark.parametrize(
    ("args", "status", "code"),
    [
        (["--target", "lmd"], 2, "export.target_unknown"),
        (["--provider", "corewave"], 2, "export.provider_unknown"),
        (["--dialect", "x"], 2, "export.dialect_unknown"),
        (["--set", "gatway=x"], 2, "export.setting_unknown"),
        (["--name", "a" * 41], 2, "export.name_too_long"),
        (["--target", "kustomize"], 2, "export.needs_folder"),
    ],
)
def test_bad_export_requests(run: Run, plan: Path, args: list[str], status: int, code: str) -> None:
    got, out, err = run("export", plan, *args)
    assert (got, out) == (status, "")
    assert code in err


def test_export_to_a_place_that_cannot_be_written(run: Run, plan: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    code, _, err = run("export", plan, "--out", tmp_path / "file" / "sub")
    assert code == 2
    assert "export.unwritable" in err


def test_plans_of_another_schema_version_are_refused(run: Run, plan: Path) -> None:
    document = json.loads(plan.read_text())
    document["schema"] = "wideplan.plan/v99"
    plan.write_text(json.dumps(document))
    code, out, err = run("export", plan)
    assert (code, out) == (2, "")
    assert "plan.schema_newer" in err


def test_export_then_lint_is_clean(run: Run, plan: Path) -> None:
    _, out, _ = run("export", plan)
    code, text, _ = run("lint", "-", "--exit-code", "--against", plan, stdin=out)
    assert code == 0
    assert text.endswith("0 errors, 0 warnings, 0 info, 0 differences from the plan\n")


def test_lint_reports_place_reason_and_fix(run: Run, plan: Path, tmp_path: Path) -> None:
    _, out, _ = run("export", plan)
    bad = tmp_path / "bad.yaml"
    bad.write_text(out.replace("failureMode: FailClose", "failureMode: FailClosed"))
    code, text, _ = run("lint", bad)
    assert code == 0
    assert f"{bad}:" in text
    assert "error L27 InferencePool/r1: failureMode 'FailClosed'" in text
    assert "fix: write FailClose" in text
    assert run("lint", bad, "--exit-code")[0] == 1


def test_lint_compares_with_a_plan(run: Run, plan: Path) -> None:
    _, out, _ = run("export", plan)
    changed = out.replace("--max-num-seqs 256", "--max-num-seqs 128")
    code, text, _ = run("lint", "-", "--against", plan, "--exit-code", stdin=changed)
    assert code == 1
    assert "prefill.max_num_seqs: planned 256, running 128" in text
    assert "decode.max_num_seqs: planned 256, running 128" in text


def test_lint_as_json_and_sarif(run: Run, plan: Path) -> None:
    _, out, _ = run("export", plan)
    bad = out.replace("FailClose", "FailClosed")
    document = json.loads(run("lint", "-", "--json", stdin=bad)[1])
    assert document["schema"] == "wideplan.lint/v1"
    assert {f["rule"] for f in document["findings"]} == {"L27"}
    log = json.loads(run("lint", "-", "--sarif", stdin=bad)[1])
    result = log["runs"][0]["results"][0]
    assert (result["ruleId"], result["level"]) == ("L27", "error")
    known = {r["id"] for r in log["runs"][0]["tool"]["driver"]["rules"]}
    assert {r["ruleId"] for r in log["runs"][0]["results"]} <= known


def test_lint_validates_against_crds(run: Run, plan: Path, tmp_path: Path, crds: Any) -> None:
    assert crds
    _, out, _ = run("export", plan)
    bad = out.replace("startupPolicy: LeaderCreated", "startupPolicy: LeaderCreated\n        startPolicy: x")
    code, text, _ = run("lint", "-", "--crds", CRDS, "--exit-code", stdin=bad)
    assert code == 1
    assert "V01" in text
    assert "did you mean 'startupPolicy'" in text


@pytest.mark.parametrize(
    ("args", "stdin", "status", "code"),
    [
        ([], None, 2, "lint.nothing_given"),
        (["missing.yaml"], None, 3, "lint.file_missing"),
        (["-"], "", 2, "lint.empty"),
        (["-"], "a: [", 2, "yaml.malformed"),
        (["-", "--only", "L99"], "a: 1", 2, "lint.rule_unknown"),
        (["-", "--crds", "nowhere"], "a: 1", 3, "crds.missing"),
    ],
)
def test_bad_lint_requests(run: Run, args: list[str], stdin: str | None, status: int, code: str) -> None:
    got, out, err = run("lint", *args, stdin=stdin)
    assert (got, out) == (status, "")
    assert code in err


def test_rules_can_be_listed(run: Run) -> None:
    _, out, _ = run("lint", "--list-rules")
    assert out.splitlines()[0].startswith("L01 error")


def test_import_gives_the_plan_back(run: Run, plan: Path, tmp_path: Path) -> None:
    _, out, _ = run("export", plan)
    back = tmp_path / "back.json"
    code, text, err = run("import", "-", "--save", back, stdin=out)
    assert (code, text) == (0, "")
    assert load_plan(back) == example_a().build()
    assert f"wrote {back}" in err


def test_import_names_flags_that_a_plan_cannot_hold(run: Run, tmp_path: Path) -> None:
    save_plan(example_b().build(), tmp_path / "b.json")
    _, out, _ = run("export", tmp_path / "b.json")
    code, text, err = run("import", "-", "--json", stdin=out.replace("--port 8000", "--port 8000 --seed 7"))
    assert code == 0
    assert json.loads(text)["extra_flags"] == {"aggregated": ["--seed 7"]}
    assert "--seed 7" in err


def test_modules_of_the_commands_import_little() -> None:
    import subprocess

    probe = "import sys, planner.cli.export, planner.cli.lint, planner.cli.import_; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"yaml", "numpy", "cattrs", "planner.export.render", "planner.catalog.hardware"}


def test_standard_input_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from planner.export.files import read_manifests

    monkeypatch.setattr(sys, "stdin", io.StringIO("kind: A\n"))
    assert [d.value for d in read_manifests(["-"], sys.stdin)] == [{"kind": "A"}]
