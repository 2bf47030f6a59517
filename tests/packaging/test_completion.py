"""Shell completion: the lazy command tree completes as the full one would, quickly and without heavy libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = (
    "numpy",
    "numba",
    "textual",
    "fastapi",
    "optuna",
    "kubernetes",
    "plotly",
    "sqlmodel",
    "sqlalchemy",
    "pandas",
)


def complete(line: str, shell: str = "bash", **more: str) -> list[str]:
    """What Tab offers at the end of `line`."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "_PLANNER_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line if shell == "bash" else "",
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line if shell != "bash" else "",
        **more,
    }
    done = subprocess.run(
        [sys.executable, "-m", "planner.cli.main"],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("planner rec", ["recommend", "recipes"]),
        ("planner recommend --gpu h200-", ["h200-sxm"]),
        ("planner recommend --ttft", ["--ttft-ms"]),
        ("planner recommend gpt-oss-120b-h200x", ["gpt-oss-120b-h200x8"]),
        ("planner recommend --model openai/gpt-oss-1", ["openai/gpt-oss-120b"]),
        ("planner recommend --cluster liv", ["live"]),
        ("planner cluster stat", ["status"]),
        ("planner demo clus", ["cluster"]),
        ("planner completion z", ["zsh"]),
        ("planner schemas show wh", ["why-not"]),
        ("planner --vers", ["--version"]),
        ("planner nothing-like-it x", []),
    ],
)
def test_bash(line: str, offered: list[str]) -> None:
    assert [w for w in complete(line) if w] == offered


def test_the_other_shells() -> None:
    assert '"status":' in complete("planner cluster st", "zsh")[0]
    fish = complete("planner rec", "fish", _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert [w.split("\t")[0] for w in fish] == ["recommend", "recipes"]


def test_every_word_of_the_top_level_is_offered() -> None:
    from planner.cli.main import COMMANDS

    assert {*COMMANDS} <= set(complete("planner "))


def test_the_script_works_in_bash(tmp_path: Path, planner_cli) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    program = tmp_path / "planner"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m planner.cli.main "$@"\n')
    program.chmod(0o755)
    done = planner_cli("completion", "bash")
    assert done.returncode == 0
    (tmp_path / "planner.bash").write_text(done.stdout)
    script = (
        f"source {tmp_path}/planner.bash; COMP_WORDS=(planner recipes l); COMP_CWORD=2; _planner_completion planner; "
        'echo "${COMPREPLY[@]}"; complete -p planner wideplan'
    )
    ran = subprocess.run(
        [bash, "-c", script],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines()[0] == "list"
    assert ran.stdout.count("complete -o default") == 2


def loaded(code: str, **environment: str) -> set[str]:
    """Top-level modules that are loaded after `code`."""
    probe = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\n"
        "print(*sorted({m.split('.')[0] for m in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["demo", "--help"],
        ["doctor", "--help"],
        ["schemas", "list"],
        ["completion", "zsh"],
    ],
)
def test_light_commands_load_nothing_heavy(arguments: list[str]) -> None:
    modules = loaded(f"from planner.cli.main import main; main({arguments!r})")
    assert "typer" in modules
    assert modules & set(HEAVY) == set()


def test_completing_loads_nothing_heavy() -> None:
    modules = loaded(
        "from planner.cli.main import main; main([])",
        _PLANNER_COMPLETE="complete_bash",
        COMP_WORDS="planner recommend --model qwen/",
        COMP_CWORD="3",
    )
    assert "typer" in modules
    assert modules & set(HEAVY) == set()
