"""The page of error codes is generated from the source and complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_errors_page_is_current() -> None:
    done = subprocess.run(
        [sys.executable, "docs/build_errors.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_page_lists_the_codes_users_meet_first() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    for code in (
        "model.unknown",
        "gpus.not-tiling",
        "memory.model-too-big",
        "save.unwritable",
        "tp.heads",
        "plan.gpus",
    ):
        assert f"`{code}`" in page
