"""Shared fixtures: the development data beside a checkout, and the command line as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def planner_cli(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run ``planner ARGS…`` in a process of its own; text in, text out, never raises on a status.

    The data folder is a fresh one, so that a developer's own studies and calibrations do not leak in; `env` adds to
    the environment.
    """
    home = tmp_path_factory.mktemp("xdg")

    def run(
        *args: str, stdin: str | None = None, timeout: float = 180.0, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("WIDEPLAN_")}
        return subprocess.run(
            [sys.executable, "-m", "planner.cli.main", *args],
            capture_output=True,
            text=True,
            cwd=ROOT,
            input=stdin,
            timeout=timeout,
            check=False,
            env={**clean, "XDG_DATA_HOME": str(home), **(env or {})},
        )

    return run
