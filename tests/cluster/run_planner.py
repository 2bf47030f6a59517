"""The command line as a user runs it, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def planner(
    *args: str, kubeconfig: Path | None = None, timeout: float = 90.0, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run ``planner ARGS…``; `kubeconfig` becomes KUBECONFIG."""
    environment = {**os.environ, **env, "KUBECONFIG": str(kubeconfig or ROOT / "no-kubeconfig-here")}
    environment.pop("KUBERNETES_SERVICE_HOST", None)
    code = "from planner.cli.main import main\nmain()\n"
    return subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, env=environment, cwd=ROOT,
        timeout=timeout, check=False,
    )  # fmt: skip
