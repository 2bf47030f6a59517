"""Refit the calibration pack and write docs/accuracy.md: ``python benchmarks/accuracy_report.py POINTS.csv``.

Takes some minutes; everything in the document comes from this one run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from console.figures.parity import parity_svg
from planner.measurements.factor_fit import METRICS
from planner.measurements.fit_pack import PackFit, coverage, fit_pack, summary, write_pack
from planner.measurements.points import Metric, Point
from planner.measurements.validation import KINDS, kendall_tau
from planner.perf.calibration import pack_folder

ROOT = Path(__file__).resolve().parents[1]
NAMES = {Metric.TPOT: "TPOT", Metric.OUTPUT: "output tok/s/GPU", Metric.TTFT: "TTFT"}
BASELINE = {Metric.TPOT: (13.5, 3.5), Metric.OUTPUT: (13.8, 3.7), Metric.TTFT: (33.0, 10.7)}
TARGETS = {
    "agg": {Metric.TPOT: (10, 4), Metric.OUTPUT: (10, 4), Metric.TTFT: (25, 12)},
    "disagg": {Metric.TPOT: (15, 4), Metric.OUTPUT: (15, 4), Metric.TTFT: (30, 12)},
}


def errors(residual: np.ndarray) -> tuple[float, float, float]:
    """Median and p90 absolute percentage error and bias (predicted over measured) of log residuals."""
    known = residual[np.isfinite(residual)]
    ape = np.abs(np.exp(-known) - 1.0) * 100.0
    return float(np.median(ape)), float(np.quantile(ape, 0.9)), float(np.exp(-np.median(known)) - 1.0) * 100.0


def cell(residual: np.ndarray) -> str:
    """``median / p90``, or a dash."""
    if not np.isfinite(residual).any():
        return "-"
    median, p90, _ = errors(residual)
    return f"{median:.1f} / {p90:.0f}"


def headline(result: PackFit) -> list[str]:
    """The table of targets and results."""
    lines = [
        (
            "| phase | metric | physics alone | physics + factors, grouped | all, grouped | all, checkpoint left out "
            "| all, random rows | plain GBM (grouped, random) | target (grouped, random) |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for phase, label in (("agg", "aggregated"), ("disagg", "P/D")):
        part = result.scored & (result.phase == phase)
        for m, metric in enumerate(METRICS):
            rows = part & result.below_saturation if metric is Metric.TTFT else part
            name = NAMES[metric] + (" below saturation" if metric is Metric.TTFT else "")
            base = f"{BASELINE[metric][0]}, {BASELINE[metric][1]}" if phase == "agg" else "-"
            goal = TARGETS[phase][metric]
            lines.append(
                f"| {label} | {name} | {cell(result.uncalibrated[rows, m])} | "
                f"{cell(result.grouped.factors_only[rows, m])} | **{cell(result.grouped.residual[rows, m])}** | "
                f"{cell(result.strict.residual[rows, m])} | **{cell(result.random.residual[rows, m])}** | {base} | "
                f"{goal[0]}, {goal[1]} |"
            )
    return lines


def by_kind(result: PackFit, kind: str, key: Callable[[Point], str]) -> list[str]:
    """Errors per label of one kind, grouped cross-validation, worst TPOT first."""
    labels = np.array([key(p) for p in result.points])
    rows = []
    for label in sorted(set(labels[result.scored])):
        part = result.scored & (labels == label)
        tpot = (
            errors(result.grouped.residual[part, 0])[0]
            if np.isfinite(result.grouped.residual[part, 0]).any()
            else 0.0
        )
        cells = " | ".join(cell(result.grouped.residual[part, m]) for m in range(3))
        rows.append((tpot, f"| {label} | {int(part.sum())} | {cells} |"))
    head = [f"| {kind} | rows | TPOT | output tok/s/GPU | TTFT |", "|---|---|---|---|---|"]
    return head + [text for _, text in sorted(rows, reverse=True)]


def order(result: PackFit) -> list[str]:
    """Kendall tau within sweeps of left-out groups."""
    lines = []
    sweeps: dict[object, list[int]] = {}
    for i, p in enumerate(result.points):
        if result.scored[i] and p.load is not None:
            sweeps.setdefault((p.config, p.date), []).append(i)
    for m, metric in enumerate(METRICS):
        taus = []
        for members in sweeps.values():
            rows = [i for i in members if np.isfinite(result.grouped.residual[i, m])]
            if len({result.points[i].load for i in rows}) < 3:
                continue
            measured = [result.points[i].measured[metric] for i in rows]
            predicted = [
                v / np.exp(result.grouped.residual[i, m]) for v, i in zip(measured, rows, strict=True)
            ]
            tau = kendall_tau(measured, predicted)
            if not np.isnan(tau):
                taus.append(tau)
        lines.append(f"| {NAMES[metric]} | {len(taus)} | {np.median(taus):.2f} | {np.mean(taus):.2f} |")
    return ["| metric | sweeps | median tau | mean tau |", "|---|---|---|---|", *lines]


def document(result: PackFit, source: Path) -> str:
    """The Markdown text."""
    covered = coverage(result)
    engines = sorted({p.config.dialect for p in result.points})
    parts = [
        "# Accuracy",
        "",
        (
            f"Generated by `python benchmarks/accuracy_report.py {source.name}`; do not edit. "
            f"{len(result.points)} distinct rows, {int(result.scored.sum())} of them scored "
            f"({', '.join(engines)}). Rows that their source marks CONFIG SUSPECT or QC-FAIL are answered, never scored; "
            "rows whose source warns of errors without naming them inform the learned residual only and are not scored here."
        ),
        "",
        (
            "Errors are absolute percentages of the measured value, median / 90th percentile. *Grouped* leaves out every "
            "row of a (model, GPU, engine) and predicts it from the others; *checkpoint left out* also leaves out other "
            "names of the same weights' shape (DeepSeek-R1, R1-0528 and V3 are one). *Random* leaves out a tenth of the "
            "rows: what to expect inside measured territory. Factors and residual are both refitted without the left-out "
            "rows."
        ),
        "",
        "## Result",
        "",
        *headline(result),
        "",
        "Share of measured values inside the stated 80 % interval, the bands fitted on other groups:",
        "",
        "| metric | groups left out | rows left out |",
        "|---|---|---|",
        *(f"| {NAMES[m]} | {covered[m.value][0]:.0%} | {covered[m.value][1]:.0%} |" for m in METRICS),
        "",
        "Order within sweeps of left-out groups (one configuration and date, at least three loads):",
        "",
        *order(result),
        "",
        "![TPOT](figures/parity-tpot.svg) ![output](figures/parity-output.svg) ![TTFT](figures/parity-ttft.svg)",
        "",
        "Blue vLLM, orange SGLang, green TensorRT-LLM, pink ATOM; groups left out.",
        "",
        "## Where we are worst, and why",
        "",
        (
            "- **TTFT of P/D near saturation.** Once the prefill pool is full, TTFT is all queue: an error of a tenth in "
            "prefill capacity moves it several-fold. Rows do not say batch sizes, chunk sizes or scheduler timeouts, which "
            "recipes set per point."
        ),
        "- **TTFT of SGLang on Blackwell.** Recipes poll for requests only every 10 or 30 steps; rows do not say which.",
        (
            "- **Speculation.** A part of the rows does not say whether multi-token prediction was on, or with how many "
            "drafts and which acceptance. The same configuration then has two TPOTs, a factor of two apart: the 90th "
            "percentile of TPOT is mostly these. Where a row says MTP is on, 3 drafts (1 with attention DP) at an "
            "acceptance of 0.65 (0.82 for a single draft) are assumed."
        ),
        (
            "- **vLLM** is measured on few models here (gpt-oss, Qwen3-235B and a few single points): plans for other "
            "models lean on operator curves and on factors of those two."
        ),
        "- **AMD** has no operator tables: datasheet rooflines with transferred efficiencies, then factors.",
        "",
        "## By engine, GPU, phase, width and load (groups left out)",
        "",
    ]
    for kind, key in KINDS.items():
        parts += [*by_kind(result, kind, key), ""]
    parts += ["## Method", "", METHOD, "", "```", summary(result), "```", ""]
    return "\n".join(parts)


METHOD = """1. Step time from operator curves, memory, closed-loop equations (docs/architecture.md). Engines differ in scheduling:
   SGLang runs prompts in steps of their own, vLLM and TensorRT-LLM mix them with decodes; steps with prompts are not
   covered by CUDA graphs and have a host floor.
2. A few bounded log-factors per (engine, GPU family, format) scale parts of the step: `profiles/calibration/factors.json`.
   `planner recommend`, `estimate` and the simulator use the same factors. `WIDEPLAN_CALIBRATION=off` switches them off.
3. A Gaussian process on the log residuals, over ever narrower circles (engine, GPU family, model and GPU, configuration),
   corrects rows near measured ones: `profiles/calibration/learned.npz`. It is used for measured-point files only.
4. Interval half-widths are conformal quantiles of left-out residuals by closeness to the remaining rows, per metric and
   phase: `profiles/calibration/intervals.json`. Plans take the width of the farthest bin.

The simulator's accuracy on the same rows, per load, beside the analytic level's: [simulation.md](simulation.md#accuracy).

InferenceX data: SemiAnalysis InferenceX (Apache-2.0)."""


def main() -> None:
    source = Path(sys.argv[1])
    result = fit_pack(source)
    write_pack(result, pack_folder(), source)
    figures = ROOT / "docs" / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for m, metric in enumerate(METRICS):
        rows = [
            (
                p.config.dialect,
                p.measured[metric],
                p.measured[metric] / float(np.exp(result.grouped.residual[i, m])),
            )
            for i, p in enumerate(result.points)
            if result.scored[i] and np.isfinite(result.grouped.residual[i, m])
        ]
        name = {Metric.TPOT: "tpot", Metric.OUTPUT: "output", Metric.TTFT: "ttft"}[metric]
        (figures / f"parity-{name}.svg").write_text(parity_svg(rows, NAMES[metric]), encoding="utf-8")
    (ROOT / "docs" / "accuracy.md").write_text(document(result, source), encoding="utf-8")
    sys.stdout.write(summary(result) + "\n")


if __name__ == "__main__":
    main()
