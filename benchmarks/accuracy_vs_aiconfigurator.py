"""Accuracy beside AIConfigurator on the same rows in one run.

    python benchmarks/accuracy_vs_aiconfigurator.py POINTS.csv [--rows 200] [--seed 0]

Installs ``aiconfigurator==0.12.0`` into a virtual environment of its own (build/aic-venv) on first use. It prices about a
row per second or two, so a seeded sample of aggregated and P/D rows is compared. Prints a table; never fails on a figure.
Rows with MTP are left out: the file does not say how many drafts. With calibration our figures are in-sample for the
development file (docs/accuracy.md has them with whole groups left out); "physics" is without any calibration.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import venv
from collections import Counter
from pathlib import Path

import numpy as np

from planner.measurements.points import Metric, Point, PointsFile, read_points
from planner.measurements.predictions import Answer, PointPrediction, predict_points
from planner.measurements.widths import Widths

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENT = "aiconfigurator==0.12.0"
SYSTEMS = {
    "h100": "h100_sxm", "h200": "h200_sxm", "b200": "b200_sxm", "b300": "b300_sxm", "gb200": "gb200", "gb300": "gb300",
}  # fmt: skip
MODELS = {
    "DeepSeek-R1-0528": "deepseek-ai/DeepSeek-R1", "DeepSeek-R1": "deepseek-ai/DeepSeek-R1",
    "DeepSeek-V3": "deepseek-ai/DeepSeek-V3", "gpt-oss-120b": "openai/gpt-oss-120b",
    "Qwen3-235B-A22B-FP8": "Qwen/Qwen3-235B-A22B-FP8", "Qwen3.5-397B-A17B": "Qwen/Qwen3.5-397B-A17B",
    "MiniMax-M2.5": "MiniMaxAI/MiniMax-M2.5",
}  # fmt: skip
QUANT = {"fp8": ("fp8_block", "fp8_block"), "fp4": ("nvfp4", "nvfp4"), "bf16": ("bfloat16", "bfloat16")}

# runs inside the other environment: one JSON list of keyword sets in, one JSON list of answers out
WORKER = """
import json, sys, contextlib, io
from aiconfigurator.cli.api import cli_estimate
out = []
for keywords in json.load(sys.stdin):
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            r = cli_estimate(**keywords)
        out.append({"ttft": float(r.ttft), "tpot": float(r.tpot)})
    except BaseException as error:
        out.append({"error": str(error)[:200]})
json.dump(out, sys.stdout)
"""


def environment() -> Path:
    """Python of the environment that holds the peer; created and filled when absent."""
    folder = ROOT / "build" / "aic-venv"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", REQUIREMENT], check=True)
    return python


def keywords_of(point: Point) -> dict[str, object] | None:
    """The peer's arguments for a row, or None where it has no such system, model or width."""
    c = point.config
    system, model, quant = SYSTEMS.get(c.gpu), MODELS.get(c.model), QUANT.get(c.quantization)
    if (
        system is None
        or model is None
        or quant is None
        or c.dialect == "atom"
        or c.decode is None
        or not point.load
    ):
        return None
    if model == "openai/gpt-oss-120b":
        quant = ("bfloat16", "w4a16_mxfp4")

    def side(prefix: str, w: Widths) -> dict[str, object]:
        ep = min(w.ep, w.group_gpus)
        return {
            f"{prefix}tp_size": w.tp,
            f"{prefix}pp_size": 1,
            f"{prefix}attention_dp_size": w.dp,
            f"{prefix}moe_tp_size": max(w.group_gpus // ep, 1),
            f"{prefix}moe_ep_size": ep,
        }

    base: dict[str, object] = {
        "model_path": model, "system_name": system, "backend_name": c.dialect, "isl": c.isl, "osl": c.osl,
        "gemm_quant_mode": quant[0], "moe_quant_mode": quant[1],
    }  # fmt: skip
    batch = max(round(point.load / (c.decode.groups * c.decode.dp)), 1)
    if c.prefill is None:
        return base | {"mode": "agg", "batch_size": batch} | side("", c.decode)
    return (
        base
        | {"mode": "disagg", "prefill_batch_size": 1, "decode_batch_size": batch}
        | {"prefill_num_workers": c.prefill.groups, "decode_num_workers": c.decode.groups}
        | side("prefill_", c.prefill)
        | side("decode_", c.decode)
    )


def line(name: str, rows: list[Point], values: list[dict[Metric, float] | None]) -> str:
    """One row of the table: share answered, then median / p90 error and bias of TPOT and TTFT."""
    answered = sum(v is not None for v in values)
    cells = [f"{answered / max(len(rows), 1):6.1%}"]
    for metric in (Metric.TPOT, Metric.TTFT):
        ratio = np.array(
            [
                v[metric] / p.measured[metric]
                for p, v in zip(rows, values, strict=True)
                if v and metric in p.measured
            ]
        )
        if ratio.size:
            error = np.abs(ratio - 1.0) * 100.0
            bias = (np.exp(np.median(np.log(np.maximum(ratio, 1e-9)))) - 1.0) * 100.0
            cells.append(f"{np.median(error):6.1f} /{np.quantile(error, 0.9):5.0f} ({bias:+.0f})")
        else:
            cells.append("-")
    return f"{name:28} {cells[0]:>8}  TPOT {cells[1]:>22}  TTFT {cells[2]:>22}"


def ours(answers: tuple[Answer, ...]) -> list[dict[Metric, float] | None]:
    return [
        {m: e.value for m, e in a.values.items()} if isinstance(a, PointPrediction) else None for a in answers
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("points", type=Path)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    file = read_points(options.points)
    wanted = [p for p in file.points if p.scored and p.measured and keywords_of(p) is not None]
    chosen = np.random.default_rng(options.seed).permutation(len(wanted))[: options.rows]
    sample = [wanted[i] for i in sorted(chosen)]
    asked = json.dumps([keywords_of(p) for p in sample])
    done = subprocess.run(
        [str(environment()), "-c", WORKER], input=asked, capture_output=True, text=True, check=True
    )
    theirs: list[dict[Metric, float] | None] = [
        None if "error" in r else {Metric.TPOT: r["tpot"], Metric.TTFT: r["ttft"]}
        for r in json.loads(done.stdout)
    ]
    reasons = Counter(str(r["error"]).split("\n")[0][:90] for r in json.loads(done.stdout) if "error" in r)
    part = PointsFile(path=options.points, rows=tuple(sample))
    sys.stdout.write(
        f"{len(sample)} rows (seed {options.seed}); answered, median / p90 absolute error % (bias %)\n"
    )
    for label, keep in (("all", None), ("aggregated", False), ("P/D", True)):
        index = [i for i, p in enumerate(sample) if keep is None or (p.config.prefill is not None) == keep]
        rows = [sample[i] for i in index]
        for name, values in (
            (REQUIREMENT, theirs),
            ("wideplan, physics", ours(predict_points(part, calibrated=False))),
            ("wideplan", ours(predict_points(part))),
        ):
            sys.stdout.write(line(f"{label}: {name}", rows, [values[i] for i in index]) + "\n")
    for reason, count in reasons.most_common(6):
        sys.stdout.write(f"{REQUIREMENT} refused {count}: {reason}\n")


if __name__ == "__main__":
    main()
