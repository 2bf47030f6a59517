"""Every listed command is there, has help, and the listing stays light."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from planner.cli.main import COMMANDS
from planner.cli.sections import SECTIONS

HEAVY = (
    "numpy",
    "optuna",
    "kubernetes",
    "sqlmodel",
    "sqlalchemy",
    "textual",
    "plotly",
    "numba",
    "yaml",
    "cattrs",
    "rich",
)


@pytest.mark.parametrize("name", COMMANDS)
def test_command_exists_and_has_one_line_of_help(name: str) -> None:
    module, attribute, text = COMMANDS[name]
    target = getattr(importlib.import_module(module), attribute)
    assert callable(target) or hasattr(target, "registered_commands")
    assert text.endswith(".")
    assert len(text) <= 62


def test_every_command_stands_in_one_section() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(COMMANDS)


def test_help_loads_no_heavy_library() -> None:
    """``planner --help`` under 0.3 s rests on this; the clock itself is in benchmarks/."""
    code = (
        "import sys\nfrom planner.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"heavy = [m for m in {HEAVY!r} if m in sys.modules]\nsys.exit(','.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in COMMANDS:
        assert f"  {name}" in done.stdout


def test_help_of_a_command_names_its_options(planner_cli) -> None:
    done = planner_cli("recommend", "--help")
    assert done.returncode == 0
    for flag in ("--model", "--gpu", "--ttft-ms", "--json", "--save", "--profiles"):
        assert flag in done.stdout


def test_version(planner_cli) -> None:
    from planner import __version__

    assert planner_cli("--version").stdout.strip() == f"wideplan {__version__}"
