"""Shared fixtures: the development data beside a checkout, and the command line as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def planner_cli() -> Run:
    """Run ``planner ARGS…`` in a process of its own; text in, text out, never raises on a status."""

    def run(*args: str, stdin: str | None = None, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "planner.cli.main", *args],
            capture_output=True,
            text=True,
            cwd=ROOT,
            input=stdin,
            timeout=timeout,
            check=False,
        )

    return run
