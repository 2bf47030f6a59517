"""The main job against its bounds: start-up, refusals, wall time, memory, and evaluations per second inside.

    python benchmarks/main_job.py [--runs 5]

Prints figures and never fails on a clock. Run on an idle machine; bounds are for two cores.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

WHOLE = {
    "planner --help (bound 0.3 s)": ["--help"],
    "unknown model refused (0.5 s)": ["recommend", "--model", "nope", "--gpu", "h200-sxm", "--gpus", "32"],
    "model too big refused (0.5 s)": [
        "recommend",
        "--model",
        "deepseek-r1",
        "--gpu",
        "h100-sxm",
        "--gpus",
        "8",
    ],
    "recommend deepseek-r1-h200x32 (3 s, 250 MiB)": ["recommend", "deepseek-r1-h200x32"],
    "recommend deepseek-v3-gb200x72": ["recommend", "deepseek-v3-gb200x72"],
}


def whole(arguments: list[str]) -> tuple[float, float, float]:
    """(wall s, user s, MiB) of one process, by the kernel's accounting."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "planner.cli.main", *arguments],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return time.perf_counter() - started, usage.ru_utime, usage.ru_maxrss / 1024.0


def inside(recipe: str) -> tuple[int, float, float]:
    """(points priced, seconds of pricing alone, seconds of the whole solution) of a recipe."""
    import planner.search.solve as module
    from planner.search.ask import Request, build_problem
    from planner.search.from_recipe import with_recipe

    problem, engine = build_problem(with_recipe(recipe, Request()))
    module.solve(problem, engine)  # curves loaded, caches warm
    spent = 0.0
    names = ("disaggregated_plan_points", "aggregated_plan_points")
    originals = {n: getattr(module, n) for n in names}

    def timed(function):  # type: ignore[no-untyped-def]
        def run(*args, **kwargs):  # type: ignore[no-untyped-def]
            nonlocal spent
            began = time.perf_counter()
            result = function(*args, **kwargs)
            spent += time.perf_counter() - began
            return result

        return run

    for n in names:
        setattr(module, n, timed(originals[n]))
    began = time.perf_counter()
    solution = module.solve(problem, engine)
    total = time.perf_counter() - began
    for n in names:
        setattr(module, n, originals[n])
    return solution.evaluated, spent, total


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    for name, arguments in WHOLE.items():
        whole(arguments)
        figures = [whole(arguments) for _ in range(runs)]
        wall, user, mib = (median(f[i] for f in figures) for i in range(3))
        print(f"{name:48} wall {wall:6.2f} s  user {user:6.2f} s  {mib:5.0f} MiB")
    for recipe in ("deepseek-r1-h200x32", "deepseek-v3-gb200x72"):
        points, spent, total = inside(recipe)
        print(
            f"{recipe:48} {points:,} points: {points / spent / 1e6:.1f} M/s in the pricing pass, "
            f"{points / total / 1e6:.2f} M/s over the whole solution ({total:.2f} s)"
        )


if __name__ == "__main__":
    main()
