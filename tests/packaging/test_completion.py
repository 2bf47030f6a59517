"""Shell completion: the lazy command tree completes as the full one would, quickly and without heavy libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.cli.main import COMMANDS, main

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


Complete = Callable[..., list[str]]


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """What Tab offers at the end of a line."""

    def offered(line: str, shell: str = "bash", **more: str) -> list[str]:
        typed = line if shell == "bash" else ""
        environment = {
            "_PLANNER_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
            "_TYPER_COMPLETE_ARGS": "" if typed else line,
            **more,
        }
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        with pytest.raises(SystemExit):
            main([])
        return capsys.readouterr().out.split("\n")[:-1]

    return offered


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
def test_bash(complete: Complete, line: str, offered: list[str]) -> None:
    assert [w for w in complete(line) if w] == offered


def test_the_other_shells(complete: Complete) -> None:
    assert '"status":' in complete("planner cluster st", "zsh")[0]
    fish = complete("planner rec", "fish", _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert [w.split("\t")[0] for w in fish] == ["recommend", "recipes"]


def test_every_word_of_the_top_level_is_offered(complete: Complete) -> None:
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
    """Top-level modules that are loaded after `code` in a process of its own."""
    probe = f"{code}\nimport sys\nprint(*sorted({{m.split('.')[0] for m in sys.modules}}), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", probe],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


def test_light_commands_load_nothing_heavy() -> None:
    """One process for all: what the first must not load the last must not either."""
    light = [["--help"], ["--version"], ["demo", "--help"], ["doctor", "--help"], ["schemas", "show", "plan"], ["completion", "zsh"]]  # fmt: skip
    code = f"""
        import contextlib
        from planner.cli.main import main
        for arguments in {light!r}:
            with contextlib.suppress(SystemExit):
                main(arguments)
    """
    modules = loaded(textwrap.dedent(code))
    assert "typer" in modules
    assert modules & set(HEAVY) == set()


def test_completing_loads_nothing_heavy() -> None:
    modules = loaded(
        "import contextlib\nfrom planner.cli.main import main\nwith contextlib.suppress(SystemExit):\n    main([])",
        _PLANNER_COMPLETE="complete_bash",
        COMP_WORDS="planner recommend --model qwen/",
        COMP_CWORD="3",
    )
    assert "typer" in modules
    assert modules & set(HEAVY) == set()
