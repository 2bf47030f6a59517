"""What is imported when: the Kubernetes client costs half a second and is needed by one module only."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("kubernetes", "aiohttp", "console", "numpy", "rich")


def loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join(sorted({{m.split('.')[0] for m in sys.modules}})))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize("module", ["planner.cli.cluster", "planner.cli.diff"])
def test_a_command_module_loads_nothing_heavy(module: str) -> None:
    assert loaded_by(f"import {module}") & set(HEAVY) == set()


def test_watching_needs_the_client_only_when_it_connects() -> None:
    assert "kubernetes" not in loaded_by(
        "import console.cluster.live, console.cluster.open, console.views.cluster"
    )


def test_kubernetes_is_imported_in_one_place() -> None:
    found = [
        str(p.relative_to(ROOT))
        for folder in ("planner", "console")
        for p in (ROOT / folder).rglob("*.py")
        if re.search(r"^\s*(from|import) kubernetes\b", p.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert found == ["console/cluster/connect.py"]


def test_planner_reaches_console_lazily_and_from_commands_only() -> None:
    for path in (ROOT / "planner").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if re.search(r"^(from|import) console\b", text, re.MULTILINE):
            msg = f"{path} imports console at its top"
            raise AssertionError(msg)
        if re.search(r"^\s+(from|import) console\b", text, re.MULTILINE):
            assert path.parent.name == "cli", path
