"""`planner estimate --points`: price every row of a measured-points CSV."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli.output import emit_json, print_table, stdout

if TYPE_CHECKING:
    from planner.measurements.predictions import Answer

SHOWN_REASONS = 8
SHOWN_ROWS = 20


def estimate_points(path: Path, *, profiles: Path | None, json: bool, calibration: bool = True) -> None:
    """Price all rows of `path` and print them: every row as JSON, or a summary with the first rows."""
    from planner.measurements.points import read_points
    from planner.measurements.predictions import predict_points

    answers = predict_points(read_points(path), profiles=profiles, calibrated=calibration)
    if json:
        emit_json("points", document(answers, path))
        return
    _print(answers, path)


def document(answers: tuple[Answer, ...], path: Path) -> dict[str, object]:
    """The JSON payload: totals and one entry per row in file order."""
    rows = [row_of(a) for a in answers]
    return {
        "file": path.name,
        "rows": len(rows),
        "answered": sum(1 for r in rows if r["status"] == "answered"),
        "interval_level": 0.8,
        "points": rows,
    }


def row_of(answer: Answer) -> dict[str, object]:
    """One row: status, predictions with 80 % intervals, provenance, where it extrapolates."""
    from planner.measurements.predictions import PointPrediction

    if not isinstance(answer, PointPrediction):
        return {
            "line": answer.line,
            "id": answer.id,
            "status": "refused",
            "code": answer.code,
            "reason": answer.reason,
        }
    predicted: dict[str, object] = {
        metric.value: {
            "value": _rounded(e.value),
            "low": _rounded(e.low),
            "high": _rounded(e.high),
        }
        for metric, e in answer.values.items()
    }
    point = answer.point
    return {
        "line": point.line,
        "id": point.id,
        "status": "answered",
        **predicted,
        "output_denominator_gpus": point.output_denominator_gpus,
        "provenance": answer.provenance.value,
        "calibration": answer.calibration,
        "interpolates": not answer.extrapolates,
        "extrapolates": list(answer.extrapolates),
        "scored": point.scored,
        "flags": list(point.flags),
    }


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _print(answers: tuple[Answer, ...], path: Path) -> None:
    from planner.measurements.points import Metric
    from planner.measurements.predictions import PointPrediction

    priced = [a for a in answers if isinstance(a, PointPrediction)]
    inside = sum(1 for a in priced if not a.extrapolates)
    out = stdout()
    out.print(f"{path.name}: {len(answers)} rows, {len(priced)} answered, {inside} of them interpolate")
    reasons = Counter(a.code for a in answers if not isinstance(a, PointPrediction))
    if reasons:
        print_table(
            ["refused because", "rows"],
            [[code, str(n)] for code, n in reasons.most_common(SHOWN_REASONS)],
            right=[1],
        )
    rows = [
        [
            a.id[:38],
            a.point.config.gpu,
            *(f"{a.values[m].value:,.4g} ({a.values[m].low:,.3g}-{a.values[m].high:,.3g})" for m in Metric),
        ]
        for a in priced[:SHOWN_ROWS]
    ]
    print_table(["row", "GPU", "TTFT ms", "TPOT ms", "output tok/s/GPU"], rows, right=[2, 3, 4])
    if len(priced) > SHOWN_ROWS:
        out.print(f"{len(priced) - SHOWN_ROWS} more rows: planner estimate --points {path} --json")
    out.print(f"Compare with what was measured: planner validate {path}")
