"""`planner doctor`: every check says ok, warn or fail with a fix, and nothing is changed by looking."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import stat
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from console.cluster.checkup import check_cluster
from console.cluster.fake.access import Access
from console.cluster.fake.box import cluster_in_a_box
from console.cluster.open import Opening
from planner.cli import doctor_machine
from planner.cli.demo_cluster import deployment
from planner.cli.main import main
from planner.domain.checkup import Check, CheckState
from planner.domain.errors import PlannerError
from planner.perf.intervals import EXTRAPOLATION_FACTOR
from planner.search.coverage import find_coverage
from planner.storage.database import parse_url
from planner.storage.inspect import inspect_database
from planner.storage.schema import HEAD
from planner.storage.store import open_store


def by_name(checks: tuple[Check, ...]) -> dict[str, Check]:
    return {c.name: c for c in checks}


# --- the command ---

Doctor = Callable[..., tuple[int, str, str]]


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Doctor:
    """Run `planner doctor` here without a kubeconfig; `env` adds to the environment."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("WIDEPLAN_DATABASE_URL", raising=False)

    def run(*args: str, **env: str) -> tuple[int, str, str]:
        for key, value in env.items():
            monkeypatch.setenv(key, value)
        with pytest.raises(SystemExit) as done:
            main(["doctor", *args])
        out = capsys.readouterr()
        return int(done.value.code or 0), out.out, out.err

    return run


def test_without_a_cluster_it_warns_and_succeeds(doctor: Doctor, tmp_path: Path) -> None:
    status, out, _ = doctor()
    assert status == 0, out
    assert "warn cluster" in out
    assert "planner demo" in out
    assert all(len(line) <= 100 for line in out.splitlines() if str(tmp_path) not in line)
    assert out.rstrip().endswith("0 failed")
    assert list(tmp_path.iterdir()) == []  # looking creates nothing


def test_json_has_every_check_and_the_coverage(doctor: Doctor) -> None:
    status, out, _ = doctor("--no-cluster", "--model", "deepseek-ai/DeepSeek-R1", "--gpu", "mi300x", "--json")
    body = json.loads(out)
    assert body["schema"] == "wideplan.doctor/v1"
    assert body["ok"] is (status == 0)
    names = list(dict.fromkeys(c["name"] for c in body["checks"]))
    assert names == ["python", "data", "command", "terminal", "kubectl", "database", "coverage"]
    assert all(c["fix"] for c in body["checks"] if c["state"] != "ok")
    assert body["coverage"]["gpu"] == "mi300x"
    assert {p["provenance"] for p in body["coverage"]["parts"]} == {"datasheet"}


def test_a_failed_check_is_exit_status_1_and_no_traceback(doctor: Doctor, tmp_path: Path) -> None:
    broken = tmp_path / "own.db"
    broken.write_bytes(b"this is no database, it only looks like a file" * 100)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("apiVersion: v1\nkind: Config\ncontexts: 3\n")
    status, out, _ = doctor(
        "--model",
        "no/such-model",
        "--gpu",
        "h200-sxm",
        WIDEPLAN_DATABASE_URL=f"sqlite:///{broken}",
        KUBECONFIG=str(kubeconfig),
    )
    assert status == 1
    for name in ("database", "coverage", "cluster"):
        assert f"fail {name}" in out
    assert "3 failed" in out


def test_half_a_pair_is_refused(doctor: Doctor) -> None:
    status, _, err = doctor("--gpu", "h200-sxm")
    assert status == 2
    assert "doctor.pair" in err


def test_ascii_terminals_get_ascii(planner_cli) -> None:
    done = planner_cli("doctor", "--no-cluster", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert "warn terminal" in done.stdout


# --- this machine ---


def script(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_foreign_planner_first_on_path_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, "planner", "#!/usr/bin/python3\nfrom llm_planner import main\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    (found,) = doctor_machine.check_command()
    assert found.state is CheckState.WARN
    assert "another program of the same name" in found.what
    assert "wideplan" in found.fix


def test_our_script_of_another_environment_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"#!{tmp_path}/other/bin/python\nfrom planner.cli.main import main\n"
    script(tmp_path, "planner", text)
    monkeypatch.setenv("PATH", str(tmp_path))
    (found,) = doctor_machine.check_command()
    assert found.state is CheckState.WARN
    assert "another environment" in found.what


def test_a_link_to_our_own_script_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"#!{sys.prefix}/bin/python\nfrom planner.cli.main import main\n"
    script(tmp_path, "planner", text)
    monkeypatch.setenv("PATH", str(tmp_path))
    (found,) = doctor_machine.check_command()
    assert found.state is CheckState.OK


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ('#!/bin/sh\necho \'{"clientVersion": {"gitVersion": "v1.36.2"}}\'\n', CheckState.OK),
        ("#!/bin/sh\necho not json\n", CheckState.WARN),
        ("#!/bin/sh\necho '[]'\n", CheckState.WARN),
        (None, CheckState.WARN),
    ],
)
def test_kubectl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, state: CheckState
) -> None:
    if text is not None:
        script(tmp_path, "kubectl", text)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor_machine.check_kubectl().state is state


# --- the database ---


def state_of(path: Path) -> str:
    try:
        return str(inspect_database(parse_url(f"sqlite:///{path}")).revision)
    except PlannerError as error:
        return error.issues[0].code


def test_database_states(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "own.db"
    assert state_of(path) == "None"
    assert not path.parent.exists()  # looking creates nothing
    with open_store(parse_url(f"sqlite:///{path}")):
        pass
    assert state_of(path) == HEAD
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE alembic_version SET version_num = '9999'")
    assert state_of(path) == "store.newer"
    strange = tmp_path / "strange.db"
    with closing(sqlite3.connect(strange)) as other, other:
        other.execute("CREATE TABLE mine (x)")
    assert state_of(strange) == "store.foreign"
    assert state_of(tmp_path) == "store.unwritable"  # a folder in its place
    assert state_of(strange / "below.db") == "store.unwritable"


def test_a_database_held_by_another_process_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.storage.inspect._WAIT_S", 0.05)
    path = tmp_path / "own.db"
    with open_store(parse_url(f"sqlite:///{path}")):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert state_of(path) == "store.locked"
        other.execute("ROLLBACK")
    assert state_of(path) == HEAD


# --- data coverage ---


def test_coverage_tells_measured_from_datasheet() -> None:
    known = find_coverage("deepseek-ai/DeepSeek-R1", "h200-sxm")
    bare = find_coverage("deepseek-ai/DeepSeek-R1", "mi300x")
    assert known.calibrated
    assert not bare.calibrated
    assert known.measured_parts == len(known.parts)
    assert bare.measured_parts == 0
    for ours, theirs in zip(known.intervals, bare.intervals, strict=True):
        assert ours.low < 1.0 < ours.high
        if ours.metric == "tpot_ms":
            assert theirs.high / theirs.low > ours.high / ours.low


def test_coverage_agrees_with_a_priced_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """The interval that is promised is the one that a plan gets, wider by the stated factor beyond the data."""
    with pytest.raises(SystemExit):
        main(
            ["estimate", "--model", "openai/gpt-oss-120b", "--gpu", "h200-sxm", "--gpus", "8", "--no-calibration",
             "--aggregated", "1x(tp8,dp1)", "--isl", "1000", "--osl", "1000", "--concurrency", "32", "--json"]
        )  # fmt: skip
    body = json.loads(capsys.readouterr().out)["evaluation"]
    expected = next(
        i
        for i in find_coverage("openai/gpt-oss-120b", "h200-sxm").intervals
        if i.metric == "tpot_ms" and not i.disaggregated
    )
    tpot = body["tpot_ms"]
    wider = EXTRAPOLATION_FACTOR if body["extrapolates"] else 1.0
    assert tpot["high"] / tpot["value"] == pytest.approx(expected.high**wider, rel=1e-6)


# --- the cluster ---


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    with pytest.raises(SystemExit) as done:
        main(["recommend", "gpt-oss-120b-h200x8", "--save", str(path)])
    assert not done.value.code
    return path


def checked(
    tmp_path: Path, *, plan: Path | None = None, access: Access | None = None, silent: bool = False
) -> dict[str, Check]:
    async def look() -> tuple[Check, ...]:
        objects, loads = deployment(plan) if plan is not None else ([], {})
        async with cluster_in_a_box(nodes=1, objects=objects, loads=loads, access=access) as box:
            kubeconfig = tmp_path / "kubeconfig"
            kubeconfig.write_text(box.kubeconfig())
            if silent:
                box.engines.silent |= {
                    p["metadata"]["name"] for p in box.server.store.list(("", "pods"), None)
                }
            return await check_cluster(Opening(kubeconfig=str(kubeconfig), period_s=5.0), timeout_s=10.0)

    return by_name(asyncio.run(look()))


def test_a_healthy_cluster_passes_and_its_engines_are_scraped(tmp_path: Path, plan: Path) -> None:
    found = checked(tmp_path, plan=plan)
    assert {c.state for c in found.values()} == {CheckState.OK}
    assert "engine endpoints answer" in found["metrics"].what


def test_engines_that_do_not_answer_fail(tmp_path: Path, plan: Path) -> None:
    found = checked(tmp_path, plan=plan, silent=True)["metrics"]
    assert found.state is CheckState.FAIL
    assert "pods/proxy" in found.fix


def test_denied_kinds_are_named_with_the_role_that_allows_them(tmp_path: Path) -> None:
    found = checked(tmp_path, access=Access(denied={("*", "nodes"), ("*", "events")}))["permissions"]
    assert found.state is CheckState.WARN
    assert "nodes" in found.what
    assert "events" in found.what
    assert "planner cluster rbac" in found.fix


def kubeconfig_for(folder: Path, port: int) -> Path:
    path = folder / "kubeconfig"
    path.write_text(
        f"apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n"
        "users: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )
    return path


def test_a_server_that_is_not_there_fails(tmp_path: Path) -> None:
    kubeconfig = kubeconfig_for(tmp_path, 9)
    (found,) = asyncio.run(check_cluster(Opening(kubeconfig=str(kubeconfig)), timeout_s=5.0))
    assert found.state is CheckState.FAIL
    assert "127.0.0.1:9" in found.what


def test_a_server_that_never_answers_runs_into_the_limit(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:  # the kernel accepts, nobody answers
        kubeconfig = kubeconfig_for(tmp_path, mute.getsockname()[1])
        (found,) = asyncio.run(check_cluster(Opening(kubeconfig=str(kubeconfig)), timeout_s=0.5))
    assert found.state is CheckState.FAIL
    assert "did not answer within" in found.what


def test_a_context_that_is_asked_for_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    (quiet,) = asyncio.run(check_cluster(Opening(), timeout_s=1.0))
    (asked,) = asyncio.run(check_cluster(Opening(context="prod"), timeout_s=1.0))
    assert (quiet.state, asked.state) == (CheckState.WARN, CheckState.FAIL)
