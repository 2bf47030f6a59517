"""`planner validate`: compare predictions with measured points."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.output import emit_json, print_table, stdout

if TYPE_CHECKING:
    from planner.measurements.validation import Group, Validation


def validate(
    file: Annotated[Path, typer.Argument(help="CSV of measured points (docs/measurements.md).")],
    html: Annotated[
        Path | None, typer.Option("--html", help="Write parity plots to this file (needs plotly).")
    ] = None,
    calibration: Annotated[
        bool, typer.Option("--calibration/--no-calibration", help="Use the shipped calibration pack.")
    ] = True,
    profiles: Annotated[Path | None, typer.Option("--profiles", help="Overlay folder of profiles.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Compare predictions with measured points: errors, bias, interval coverage, order within sweeps.

    Rows whose source doubts them (CONFIG SUSPECT, QC-FAIL) are answered but not scored.
    """
    from planner.measurements.points import read_points
    from planner.measurements.predictions import predict_points
    from planner.measurements.validation import validate as score

    if html is not None:
        from planner.catalog.plans import check_writable

        check_writable(html, flag="--html")
    answers = predict_points(read_points(file), profiles=profiles, calibrated=calibration)
    result = score(answers)
    if html is not None:
        from console.figures.parity import write_parity_page

        write_parity_page(answers, html)
    if json:
        emit_json("validation", document(result, file))
    else:
        _print(result, file)
    if html is not None:
        typer.echo(f"parity plots: {html}", err=True)


def document(result: Validation, file: Path) -> dict[str, object]:
    """The JSON payload."""
    return {
        "file": file.name,
        "rows": result.rows,
        "answered": result.answered,
        "complete": result.complete,
        "scored": result.scored,
        "refused": result.refused,
        "interval_level": 0.8,
        "order": {
            m.value: {"sweeps": o.sweeps, "median_tau": _number(o.median), "mean_tau": _number(o.mean)}
            for m, o in result.order.items()
        },
        "groups": [_group(g) for g in result.groups],
    }


def _group(group: Group) -> dict[str, object]:
    return {
        "kind": group.kind,
        "label": group.label,
        "rows": group.rows,
        "metrics": {
            m.value: {
                "n": s.n,
                "median_pct": round(s.median_pct, 2),
                "mean_pct": round(s.mean_pct, 2),
                "p90_pct": round(s.p90_pct, 2),
                "bias_pct": round(s.bias_pct, 2),
                "covered": round(s.covered, 4),
                "half_width_pct": round(s.half_width_pct, 2),
            }
            for m, s in group.scores.items()
        },
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)


def _print(result: Validation, file: Path) -> None:
    from planner.measurements.points import Metric

    out = stdout()
    share = result.answered / max(result.complete, 1)
    out.print(
        f"{file.name}: {result.rows} rows; {result.answered} answered, {share:.1%} of the {result.complete} whose "
        f"configuration is complete; {result.scored} scored"
    )
    if result.refused:
        out.print("refused: " + ", ".join(f"{code} {n}" for code, n in result.refused.items()))
    names = {Metric.TTFT: "TTFT", Metric.TPOT: "TPOT", Metric.OUTPUT: "output"}
    rows = []
    for group in result.groups:
        cells = [f"{group.kind}: {group.label}" if group.kind != "all" else "all", str(group.rows)]
        for metric in names:
            s = group.scores.get(metric)
            cells.append(
                f"{s.median_pct:.0f}/{s.p90_pct:.0f} {s.bias_pct:+.0f} {s.covered:.0%}"
                if s is not None
                else ""
            )
        rows.append(cells)
    print_table(
        ["", "rows", *names.values()],
        rows,
        title="median/p90 absolute error %, bias %, measured inside the 80 % interval",
        right=[1, 2, 3, 4],
    )
    for metric, order in result.order.items():
        if order.sweeps:
            out.print(
                f"order within {order.sweeps} sweeps, {names[metric]}: Kendall tau median {order.median:.2f}, "
                f"mean {order.mean:.2f}"
            )
