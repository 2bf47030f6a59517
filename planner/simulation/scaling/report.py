"""A comparison of fleets as plain data and as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from html import escape
from typing import Any

from planner.domain.workload import SloTargets
from planner.simulation.export import plain
from planner.simulation.paired import student_interval
from planner.simulation.report import STYLE, line_plot
from planner.simulation.result import Figure
from planner.simulation.scaling.compare import Answer
from planner.simulation.scaling.figures import ScaledFigures
from planner.simulation.scaling.load import time_unit

METRICS: dict[str, Callable[[ScaledFigures], float]] = {
    "GPU-hours": lambda v: v.gpu_hours,
    "within targets": lambda v: 100.0 * v.attainment,
    "TTFT p50, ms": lambda v: v.ttft_p50_ms,
}


def differences(answer: Answer) -> list[tuple[str, str, Figure]]:
    """(variant, metric, variant minus the first) over the replications, which share arrivals; empty for a single one."""
    if len(answer.replications) < 2:
        return []
    out = []
    for i, variant in enumerate(answer.variants[1:], start=1):
        for name, value in METRICS.items():
            pairs = [value(r[i]) - value(r[0]) for r in answer.replications]
            out.append((variant.name, name, student_interval(pairs)))
    return out


def answer_document(answer: Answer, *, slo: SloTargets) -> dict[str, Any]:
    """JSON-able content: sizing, assumptions, every variant with its series (48 windows of the curve)."""
    data: dict[str, Any] = plain(asdict(answer))
    del data["replications"]
    data["targets"] = plain(asdict(slo))
    data["differences"] = [
        {"variant": v, "metric": m, "difference": plain(asdict(d))} for v, m, d in differences(answer)
    ]
    return data


def _table(variants: tuple[ScaledFigures, ...]) -> str:
    rows = "".join(
        f"<tr><td>{escape(v.name)}</td><td>{v.gpu_hours:,.1f}</td><td>{v.gpu_hours / variants[0].gpu_hours - 1:+.0%}</td>"
        f"<td>{v.attainment:.1%}</td><td>{v.worst_window:.1%}</td><td>{v.ttft_p50_ms:,.0f}</td>"
        f"<td>{v.ttft_p99_ms:,.0f}</td><td>{v.tpot_p50_ms:.1f}</td><td>{v.started}</td></tr>"
        for v in variants
    )
    return (
        "<table><tr><th>fleet</th><th>GPU-hours</th><th>to the first</th><th>within targets</th>"
        f"<th>worst window</th><th>TTFT p50, ms</th><th>p99</th><th>TPOT p50, ms</th><th>starts</th></tr>{rows}</table>"
    )


def scaling_html(answer: Answer, *, slo: SloTargets, title: str, seed: int) -> str:
    """Tables and plots of groups and targets over time; byte-stable for equal answers."""
    limits = ", ".join(
        f"{name} <= {value:,.0f} ms"
        for name, value in (("TTFT", slo.ttft_ms), ("TPOT", slo.tpot_limit_ms))
        if value is not None
    )
    out = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Autoscaling</title>",
        f"<style>{STYLE}</style><h1>{escape(title)}</h1>",
        f"<p>{escape(answer.curve.label)}; cold start {answer.cold_start_s:,.0f} s; targets {escape(limits)}; seed {seed}.</p>",
        _table(answer.variants),
        "<div class='plots'>",
    ]
    name, unit = time_unit(answer.curve.end_s)
    times = [w.from_s / unit for w in answer.variants[0].windows]
    out.append(
        line_plot("Requests/s", times, [("load", [w.rps for w in answer.variants[0].windows])], "", name)
    )
    out += [
        line_plot(f"Groups, {v.name}", times, [(r.role, r.groups) for r in v.roles], "", name)
        for v in answer.variants
        if v.started or v.removed
    ]
    out += [
        line_plot(
            f"Within targets, {v.name}",
            times,
            [("share of requests", [100.0 * w.attainment if w.requests else 0.0 for w in v.windows])],
            "%",
            name,
        )
        for v in answer.variants
    ]
    return "\n".join([*out, "</div>"]) + "</html>\n"
