"""Side by side with AIConfigurator 0.12: same questions, same machine, one run; prints times, memory and ratios.

    python benchmarks/vs_aiconfigurator.py [--runs 3] [--case r1] [--venv DIR]

AIConfigurator is installed into a virtual environment of its own (about 850 MiB) on first use. Both programs run as
whole processes; wall time, user CPU and peak memory are the operating system's own figures. Run on an idle machine.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "aiconfigurator==0.12.0"


@dataclass(frozen=True)
class Case:
    """One question in both programs' words."""

    theirs: tuple[str, ...]
    ours: tuple[str, ...]


CASES = {
    "r1": Case(
        theirs=("--model", "deepseek-ai/DeepSeek-R1", "--system", "h200_sxm", "--total-gpus", "32", "--backend", "vllm",
                "--isl", "10000", "--osl", "2000", "--ttft", "2000", "--tpot", "50"),
        ours=("--model", "deepseek-ai/DeepSeek-R1", "--gpu", "h200-sxm", "--fabric", "ib-ndr400", "--gpus", "32",
              "--isl", "10000", "--osl", "2000", "--ttft-ms", "2000", "--tpot-ms", "50"),
    ),
    "qwen3": Case(
        theirs=("--model", "Qwen/Qwen3-235B-A22B-FP8", "--system", "h100_sxm", "--total-gpus", "16", "--backend",
                "vllm", "--isl", "4000", "--osl", "1000", "--ttft", "3000", "--tpot", "60"),
        ours=("--model", "Qwen/Qwen3-235B-A22B-FP8", "--gpu", "h100-sxm", "--fabric", "ib-ndr400", "--gpus", "16",
              "--isl", "4000", "--osl", "1000", "--ttft-ms", "3000", "--tpot-ms", "60"),
    ),
    "gpt-oss": Case(
        theirs=("--model", "openai/gpt-oss-120b", "--system", "h200_sxm", "--total-gpus", "8", "--backend", "vllm",
                "--isl", "4000", "--osl", "1000"),
        ours=("--model", "openai/gpt-oss-120b", "--gpu", "h200-sxm", "--fabric", "ib-ndr400", "--gpus", "8",
              "--isl", "4000", "--osl", "1000", "--ttft-ms", "2000", "--tpot-ms", "30"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Figures:
    """Of one finished process."""

    wall_s: float
    user_s: float
    rss_mib: float
    status: int
    output: str


def measure(command: list[str]) -> Figures:
    """Run `command` to its end and read the kernel's accounting of it."""
    with tempfile.TemporaryFile("w+") as out:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read()
    return Figures(wall, usage.ru_utime, usage.ru_maxrss / 1024.0, process.returncode, text)


def install(venv: Path) -> Path:
    """AIConfigurator in its own environment; returns its program."""
    program = venv / "bin" / "aiconfigurator"
    if not program.exists():
        print(f"installing {PACKAGE} into {venv} …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(venv / "bin" / "pip"), "install", "--quiet", PACKAGE], check=True)
    return program


def evaluated(name: str, text: str) -> str:
    """How many points each program says it priced."""
    if name == "ours":
        found = re.search(r"([\d,]+) \(configuration x load\) points", text)
        return f"{found[1]} points" if found else "?"
    rows = re.findall(r"(\d+) (?:results|rows|candidates|configurations)", text)
    return f"{rows[-1]} rows" if rows else "see its log"


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--case", choices=[*CASES, "all"], default="r1")
    parser.add_argument(
        "--venv", type=Path, default=Path.home() / ".cache" / "wideplan-benchmarks" / "aiconfigurator"
    )
    parser.add_argument("--remove", action="store_true", help="remove the environment afterwards")
    args = parser.parse_args()
    program = install(args.venv)
    names = list(CASES) if args.case == "all" else [args.case]
    print(f"{'case':8} {'program':8} {'wall s':>8} {'user s':>8} {'MiB':>7}  priced")
    for name in names:
        case = CASES[name]
        theirs = [str(program), "cli", "default", "--no-color", *case.theirs]
        ours = [sys.executable, "-m", "planner.cli.main", "recommend", *case.ours]
        for command in (ours, theirs):
            measure(command)  # warm the page cache
        pairs = [(measure(ours), measure(theirs)) for _ in range(args.runs)]
        for label, index in (("ours", 0), ("aic", 1)):
            figures = [p[index] for p in pairs]
            print(
                f"{name:8} {label:8} {median(f.wall_s for f in figures):8.2f} {median(f.user_s for f in figures):8.2f} "
                f"{median(f.rss_mib for f in figures):7.0f}  {evaluated(label, figures[0].output)}"
                f"{'' if figures[0].status == 0 else f' (status {figures[0].status})'}"
            )
        for what, get in (
            ("wall", lambda f: f.wall_s),
            ("user CPU", lambda f: f.user_s),
            ("memory", lambda f: f.rss_mib),
        ):
            ratios = [get(b) / get(a) for a, b in pairs]
            print(f"{name:8} aic / ours, {what}: {median(ratios):.1f}x ({min(ratios):.1f}-{max(ratios):.1f})")
    if args.remove:
        shutil.rmtree(args.venv)


if __name__ == "__main__":
    main()
