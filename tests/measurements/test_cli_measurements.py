"""`planner measurements` as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from planner.cli.main import main
from tests.measurements import samples as s

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Done:
    """What a command printed."""

    stdout: str
    stderr: str


class Planner:
    """Runs the command in this process, with a store of its own."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: str, status: int = 0) -> Done:
        with pytest.raises(SystemExit) as left:
            main(["measurements", *arguments])
        printed = self.capsys.readouterr()
        assert (left.value.code or 0) == status, printed.out + printed.err
        return Done(printed.out, printed.err)


@pytest.fixture
def planner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Planner:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("WIDEPLAN_DATABASE_URL", raising=False)
    return Planner(capsys)


def test_the_real_program_starts_from_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(s.dump(s.vllm()))
    done = subprocess.run(
        [sys.executable, "-m", "planner.cli.main", "measurements", "import", str(file)],
        cwd=REPOSITORY, env={**os.environ, "XDG_DATA_HOME": str(tmp_path / "home")}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "1 new, 0 already known\n"
    assert (tmp_path / "home" / "wideplan" / "wideplan.db").exists()


def test_import_list_show_export_delete(planner: Planner, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(s.dump(s.vllm()))
    assert "1 new, 0 already known" in planner("import", str(file)).stdout
    assert "0 new, 1 already known" in planner("import", str(file)).stdout
    listed = json.loads(planner("list", "--gpu", "h200-sxm", "--json").stdout)
    assert listed["schema"] == "wideplan.measurements/v1"
    (found,) = listed["measurements"]
    assert found["result"]["tpot"]["p50_ms"] == 31.5
    identity = found["hash"][:8]
    table = planner("list").stdout
    assert identity in table
    assert max(map(len, table.splitlines())) <= 100
    shown = planner("show", identity).stdout
    assert "400 tok/s per GPU of the whole deployment" in shown
    assert "p50 31.5 ms" in shown
    report = yaml.safe_load(planner("export", identity).stdout)
    assert report["version"] == "0.2.1"
    assert planner("export", "--raw", identity).stdout == file.read_text()
    assert "deleted 1" in planner("delete", identity, "--yes").stdout
    assert "no measurements" in planner("list").stdout


def test_missing_facts_are_named_with_their_flags(planner: Planner, tmp_path: Path) -> None:
    file = tmp_path / "g.json"
    file.write_bytes(s.dump(s.guidellm()))
    refused = planner("import", str(file), status=2)
    assert refused.stdout == ""
    for code in ("missing_gpu", "missing_engine", "missing_engine_version", "missing_roles"):
        assert f"error[measurement.{code}]" in refused.stderr
    flags = ("--gpu", "H200", "--engine", "vllm", "--engine-version", "0.33.0")
    planner("import", str(file), *flags, "--aggregated", "1x(tp1,dp16,ep16)", "--dry-run")
    assert "no measurements" in planner("list").stdout
    done = planner("import", str(file), *flags, "--aggregated", "1x(tp1,dp16,ep16)", "--no-dbo", "--json")
    (imported,) = json.loads(done.stdout)["measurements"]
    assert imported["new"] is True
    assert imported["settings"]["dbo"] is False
    assert imported["origin"]["supplied"]["gpu"] == "H200"


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        (("show", "ffffffff"), "measurement.unknown", 3),
        (("export",), "measurement.none_stored", 3),
        (("import", "absent.json"), "measurement.file", 2),
        (("import", "x.json", "--aggregated", "wide"), "measurement.widths", 2),
        (("import", "x.json", "--aggregated", "tp8", "--decode", "tp8"), "measurement.widths", 2),
    ],
)
def test_mistakes_get_a_code_and_a_status(
    planner: Planner, arguments: tuple[str, ...], code: str, status: int
) -> None:
    assert f"error[{code}]" in planner(*arguments, status=status).stderr


def test_unwritable_output_is_an_error(planner: Planner, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(s.dump(s.vllm()))
    planner("import", str(file))
    refused = planner("export", "-o", str(tmp_path / "no" / "x.yaml"), status=2)
    assert "error[output.unwritable]" in refused.stderr
    planner("export", "-o", str(tmp_path / "x.yaml"))
    assert yaml.safe_load((tmp_path / "x.yaml").read_text())["version"] == "0.2.1"
