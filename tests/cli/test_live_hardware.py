"""`planner recommend --cluster live` plans for what a cluster has."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODEL = ("recommend", "--cluster", "live", "--model", "openai/gpt-oss-120b", "--isl", "2000", "--osl", "500")


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    """A cluster in a box with two nodes of 8 H200."""
    path = tmp_path_factory.mktemp("live") / "demo.kubeconfig"
    args = [
        sys.executable,
        "-m",
        "planner.cli.main",
        "cluster",
        "demo",
        "--nodes",
        "2",
        "--kubeconfig",
        str(path),
    ]
    process = subprocess.Popen(args, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        if path.exists() and path.stat().st_size:
            break
        time.sleep(0.1)
    yield str(path)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)


def test_plans_for_the_nodes_it_finds(planner_cli, kubeconfig) -> None:
    done = planner_cli(*MODEL, "--json", env={"KUBECONFIG": kubeconfig})
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["pick"]["plan"]["gpus_owned"] == 16
    assert {r["gpu"] for r in answer["pick"]["plan"]["roles"]} == {"h200-sxm"}
    assert any(
        a["name"] == "hardware" and "found in the live cluster" in a["why"] for a in answer["assumptions"]
    )


def test_more_gpus_than_found_and_named_hardware_are_refused(planner_cli, kubeconfig) -> None:
    more = planner_cli(*MODEL, "--gpus", "32", env={"KUBECONFIG": kubeconfig})
    assert more.returncode == 2
    assert "gpus.more-than-found" in more.stderr
    named = planner_cli(*MODEL, "--gpu", "h100-sxm", env={"KUBECONFIG": kubeconfig})
    assert named.returncode == 2
    assert "flags.conflict" in named.stderr


def test_no_cluster_is_said(planner_cli, tmp_path) -> None:
    done = planner_cli(*MODEL, env={"KUBECONFIG": str(tmp_path / "none"), "HOME": str(tmp_path)})
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert os.linesep + "  fix:" in done.stderr or "fix:" in done.stderr
