"""Where the output goes does not change its bytes, and a stream that cannot be written is no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ARGS = ("recommend", "gpt-oss-120b-h200x8")


def test_columns_of_the_shell_do_not_change_a_redirected_report(planner_cli) -> None:
    narrow = planner_cli(*ARGS, env={"COLUMNS": "60", "NO_COLOR": "1"})
    wide = planner_cli(*ARGS, env={"COLUMNS": "200"})
    assert narrow.returncode == wide.returncode == 0, narrow.stderr
    assert narrow.stdout == wide.stdout
    assert max(map(len, wide.stdout.splitlines())) <= 100
    assert "\x1b" not in wide.stdout


def _shell(redirect: str, *args: str) -> subprocess.CompletedProcess[str]:
    words = " ".join(f"'{a}'" for a in (sys.executable, "-m", "planner.cli.main", *args))
    return subprocess.run(
        ["/bin/sh", "-c", f"{words} {redirect}"],
        capture_output=True, text=True, cwd=ROOT, check=False, timeout=120,
    )  # fmt: skip


def test_a_closed_stdout_is_no_error() -> None:
    done = _shell(">&-", *ARGS)
    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.parametrize("command", ["recipes list", "explain", "export {plan}"])
def test_a_reader_that_leaves_early_is_no_error(command: str, tmp_path: Path, planner_cli) -> None:
    plan = tmp_path / "plan.json"
    if "{plan}" in command:
        assert planner_cli("recommend", "gpt-oss-120b-h200x8", "--save", plan).returncode == 0
    script = (
        f"{sys.executable} -m planner.cli.main {command.format(plan=plan)} | head -1; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_a_full_disk_is_said() -> None:
    done = _shell(">/dev/full", *ARGS)
    assert done.returncode == 2
    assert "error[output.failed]" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_an_unwritable_parity_page_is_refused_before_the_work(tmp_path: Path, planner_cli) -> None:
    points = tmp_path / "points.csv"
    points.write_text(
        "id,model,quantization,gpu,engine,mode,decode_workers,decode_tp,decode_dp,decode_ep,total_gpus,isl,osl,"
        "concurrency,notes\n"
        'a,DeepSeek-R1,fp8,H200,sglang,agg,1,8,1,1,8,1024,1024,16,"two\nlines, one field"\n'
        "b,DeepSeek-R1,fp8,H200,sglang,agg,1,8,1,1,8,99999999999,1024,16,\n"
        "c,DeepSeek-R1,fp8,H200,nosuch,agg,1,8,1,1,8,1024,1024,16,\n"
    )
    done = planner_cli("validate", str(points), "--html", str(tmp_path / "missing" / "page.html"))
    assert done.returncode == 2
    assert "error[save.unwritable]" in done.stderr
    assert "--html" in done.stderr
    answered = planner_cli("estimate", "--points", str(points))
    assert answered.returncode == 0, answered.stderr
    assert "3 rows, 1 answered" in answered.stdout
    for code in ("point.context", "point.engine"):
        assert code in answered.stdout
