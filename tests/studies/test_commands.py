"""The commands as a user runs them: studies on a store of their own, an interrupt in a real process."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
START = (
    "from planner.cli import main as m\n"
    "m.COMMANDS |= {'search': ('planner.cli.search', 'search', ''), 'studies': ('planner.cli.studies', 'app', ''),"
    " 'campaign': ('planner.cli.campaign', 'app', '')}\n"
    "m.main()\n"
)
QUESTION = (
    "--model", "openai/gpt-oss-120b", "--gpu", "h200-sxm", "--gpus", "4", "--isl", "2048", "--osl", "256", "--ttft-ms", "1000",
    "--tpot-ms", "25", "--kv-dtype", "fp8",
)  # fmt: skip


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data"), "PYTHONPATH": str(ROOT)}


def planner(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", START, *arguments],
        env=environment, capture_output=True, text=True, timeout=240, check=False, cwd=ROOT,
    )  # fmt: skip


def analytic(environment: dict[str, str], name: str, *more: str) -> subprocess.CompletedProcess[str]:
    return planner(
        environment, "search", *QUESTION, "--level", "analytic", "--trials", "8", "--workers", "1", "--name", name, *more
    )  # fmt: skip


def test_a_study_from_start_to_deletion(environment: dict[str, str], tmp_path: Path) -> None:
    done = analytic(environment, "one", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["schema"] == "wideplan.study/v1"
    assert report["trials"] == {"complete": 8}
    assert report["pick"]["meets_slo"] is True
    assert 0.0 <= report["regret"]["hypervolume_l1"] < 1.0
    assert analytic(environment, "one").returncode == 2
    listed = json.loads(planner(environment, "studies", "list", "--json").stdout)
    assert [s["name"] for s in listed["studies"]] == ["one"]
    shown = json.loads(planner(environment, "studies", "show", "one", "--json").stdout)
    assert shown["pick"] == report["pick"]
    more = planner(environment, "studies", "resume", "one", "--trials", "11", "--json")
    assert json.loads(more.stdout)["trials"] == {"complete": 11}
    rows = list(csv.DictReader(io.StringIO(planner(environment, "studies", "export", "one").stdout)))
    assert len(rows) == 11
    assert float(rows[0]["output_tok_s_per_gpu"]) > 0.0
    plan = tmp_path / "plan.yaml"
    assert planner(environment, "studies", "export", "one", "--plan", str(plan)).returncode == 0
    assert plan.exists()
    refused = planner(environment, "studies", "delete", "one")
    assert refused.returncode == 2
    assert "study.confirm" in refused.stderr
    assert planner(environment, "studies", "delete", "one", "--yes").returncode == 0
    gone = planner(environment, "studies", "show", "one")
    assert gone.returncode == 3
    assert "study.unknown" in gone.stderr


def test_a_study_is_copied_into_an_optuna_database_once(environment: dict[str, str], tmp_path: Path) -> None:
    import optuna

    url = f"sqlite:///{tmp_path / 'optuna.db'}"
    assert analytic(environment, "copy", "--optuna-storage", url).returncode == 0
    assert (
        "copied 0 trials" in planner(environment, "studies", "export", "copy", "--optuna-storage", url).stderr
    )
    copied = optuna.load_study(study_name="copy", storage=url)
    assert len(copied.trials) == 8
    assert copied.metric_names == ["output_tok_s_per_gpu", "tok_s_user"]
    assert all("ttft_ms" in t.constraints for t in copied.trials)
    unusable = analytic(environment, "bad", "--optuna-storage", "nonsense://x")
    assert unusable.returncode == 2
    assert "mirror.unusable" in unusable.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("search", *QUESTION, "--time", "soon"), "time.malformed"),
        (("search", *QUESTION, "--objective", "tok_s_user"), "objective.two"),
        (("studies", "resume", "nobody"), "study.unknown"),
        (("campaign", "run", "nowhere", "--endpoint", "http://x"), "campaign.missing"),
        (("campaign", "export", "nowhere"), "campaign.target"),
    ],
)
def test_mistakes_are_answered_with_a_code(
    environment: dict[str, str], arguments: tuple[str, ...], code: str
) -> None:
    done = planner(environment, *arguments)
    assert done.returncode in {2, 3}
    assert f"error[{code}]" in done.stderr
    assert "Traceback" not in done.stderr


SIMULATED = ("--workers", "2")
HERE = ("--workers", "1", "--level", "analytic")  # no process but its own


def start_search(environment: dict[str, str], name: str, *how: str) -> subprocess.Popen[str]:
    """A long search in a process group of its own, after its first progress line."""
    process = subprocess.Popen(
        [sys.executable, "-c", START, "search", *QUESTION, "--trials", "4000", *how, "--name", name],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    deadline = time.monotonic() + 150.0
    for line in process.stderr:
        if line.startswith("search ") or time.monotonic() > deadline:
            break
    return process


@pytest.mark.slow
@pytest.mark.parametrize("how", ["Ctrl-C", "SIGTERM to all", "studies stop"])
def test_a_stopped_search_keeps_its_trials_and_says_how_to_continue(
    environment: dict[str, str], how: str
) -> None:
    process = start_search(environment, "cut", *(SIMULATED if how == "SIGTERM to all" else HERE))
    if how == "studies stop":
        stopped = planner(environment, "studies", "stop", "cut")
        assert stopped.returncode == 0, stopped.stderr
    elif how == "Ctrl-C":
        process.send_signal(signal.SIGINT)
    else:
        os.killpg(process.pid, signal.SIGTERM)  # what a service manager does
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "planner studies resume cut" in err
    assert "interrupted" in out
    kept = json.loads(planner(environment, "studies", "show", "cut", "--json").stdout)
    assert kept["state"] == "interrupted"
    assert sum(kept["trials"].values()) >= 1
    assert "running" not in kept["trials"]
    again = planner(environment, "studies", "stop", "cut")
    assert again.returncode == 1
    assert "error[study.not_running]" in again.stderr


@pytest.mark.slow
def test_a_killed_search_is_shown_as_interrupted_leaves_no_process_and_goes_on(
    environment: dict[str, str],
) -> None:
    process = start_search(environment, "dead", *SIMULATED)
    workers = [int(c) for c in children_of(process.pid)]
    assert workers
    process.kill()
    process.communicate(timeout=60)
    (listed,) = json.loads(planner(environment, "studies", "list", "--json").stdout)["studies"]
    assert listed["state"] == "interrupted"
    kept = listed["trials"]["complete"]
    resumed = planner(
        environment, "studies", "resume", "dead", "--trials", str(kept + 4), "--workers", "1", "--json"
    )
    report = json.loads(resumed.stdout)
    assert report["state"] == "finished"
    # the points that the dead process had claimed are not lost to the study
    assert "running" not in report["trials"]
    deadline = time.monotonic() + 60.0
    while any(is_alive(w) for w in workers) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not [w for w in workers if is_alive(w)]


def children_of(pid: int) -> list[str]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [c for t in tasks for c in t.read_text().split()]


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
