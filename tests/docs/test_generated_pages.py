"""Pages made from the program are those of this program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "script", ["build_errors.py", "build_cli.py", "build_glossary.py", "build_figures.py"]
)
def test_generated_pages_are_current(script: str) -> None:
    done = subprocess.run(
        [sys.executable, f"docs/{script}", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_error_page_lists_the_codes_users_meet_first() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    for code in (
        "model.unknown",
        "gpu.unknown",
        "gpus.not-tiling",
        "memory.model-too-big",
        "save.unwritable",
        "tp.heads",
        "plan.gpus",
    ):
        assert f"`{code}`" in page


def test_the_command_page_has_every_command_with_its_options() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    for words, option in (
        ("recommend", "--ttft-ms"),
        ("cluster status", "--replay"),
        ("studies resume", "--workers"),
        ("explain", "--json"),
    ):
        section = page.split(f"\n## planner {words}\n")[1].split("\n## ")[0]
        assert f"`{option}`" in section, words


def test_pictures_are_used_and_small() -> None:
    pages = "".join(p.read_text() for p in (ROOT / "docs").rglob("*.md"))
    for picture in (ROOT / "docs" / "figures").iterdir():
        assert f"figures/{picture.name}" in pages, picture.name
        assert picture.stat().st_size < 300_000, picture.name


def test_one_command_brings_everything_up_to_date() -> None:
    scripts = {p.stem for p in (ROOT / "docs").glob("build_*.py")} - {"build_all", "build_demo"}
    text = (ROOT / "docs" / "build_all.py").read_text()
    assert {s for s in (*scripts, "run_pages") if f'"{s}"' not in text} == set()
