"""Answers for measured rows: physics, calibration where the engine and GPU were measured, and an 80 % interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from planner.domain.provenance import Estimate, Provenance
from planner.measurements.factor_fit import METRICS
from planner.measurements.points import Metric, Point, PointsFile, RefusedPoint
from planner.measurements.pricing import Failure, PointPricer, RawPrediction
from planner.measurements.territory import place_of
from planner.perf.calibration import FactorPack, load_bands, load_factor_pack, pack_folder
from planner.perf.intervals import Metric as IntervalMetric
from planner.perf.intervals import prior_interval
from planner.perf.learned import LENGTHS, Learned, Places, load_learned, places_of
from planner.perf.operators.base import FloatArray

_INTERVAL: Final = {
    Metric.TTFT: IntervalMetric.TTFT,
    Metric.TPOT: IntervalMetric.TPOT,
    Metric.OUTPUT: IntervalMetric.OUTPUT_RATE,
}
# dimensions that are named when a row lies outside what was measured on its engine and GPU family
_DIMENSIONS: Final = {
    "load_per_gpu": "load per GPU",
    "isl": "prompt length",
    "osl": "output length",
    "tp": "TP width",
    "dp": "DP width",
    "ep": "EP width",
    "prefill_gpus": "prefill:decode ratio",
}
_TOLERANCE: Final = 0.2  # in natural logarithms, beyond the measured range


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
    folder = pack_folder() if calibrated else None
    factors = load_factor_pack(folder) if folder is not None else None
    pricer = PointPricer(profiles=profiles, factors=factors)
    points = file.points
    raw = pricer.price(points)
    learned = load_learned(folder / "learned.npz") if folder is not None and factors is not None else None
    finish = _Finisher(pricer, factors, learned)
    answers = iter(finish.run(points, raw))
    return tuple(next(answers) if isinstance(row, Point) else row for row in file.rows)


class _Finisher:
    """Adds the learned residual, intervals and provenance to raw prices."""

    def __init__(self, pricer: PointPricer, factors: FactorPack | None, learned: Learned | None) -> None:
        self.pricer = pricer
        self.factors = factors
        self.learned = learned
        self.bands = load_bands(pack_folder()) if learned is not None else {}

    def run(self, points: Sequence[Point], raw: Sequence[RawPrediction | Failure]) -> list[Answer]:
        """One answer per point."""
        rows = [
            (i, p, a)
            for i, (p, a) in enumerate(zip(points, raw, strict=True))
            if isinstance(a, RawPrediction)
        ]
        found: dict[int, Answer] = {
            i: RefusedPoint(
                line=p.line, id=p.id, code=a.code, reason=a.reason, measured=p.measured, flags=p.flags
            )
            for i, (p, a) in enumerate(zip(points, raw, strict=True))
            if isinstance(a, Failure)
        }
        if rows and self.learned is not None:
            places = places_of([place_of(p, a, self.pricer.prepare(p.config).subject) for _, p, a in rows])
            means, closeness = self.learned.at(places)
            for n, (i, p, a) in enumerate(rows):
                outside = self._outside(self.learned, places.take(np.array([n])))
                found[i] = self._calibrated(p, a, means[n], float(closeness[n]), outside)
        else:
            for i, p, a in rows:
                found[i] = self._plain(p, a)
        return [found[i] for i in range(len(points))]

    def _plain(self, point: Point, answer: RawPrediction) -> PointPrediction:
        outside = bool(answer.extrapolates)
        return PointPrediction(
            point=point,
            values={
                m: prior_interval(answer.value(m), _INTERVAL[m], answer.provenance, extrapolates=outside)
                for m in Metric
            },
            provenance=answer.provenance,
            calibration="none",
            extrapolates=answer.extrapolates,
        )

    def _calibrated(
        self,
        point: Point,
        answer: RawPrediction,
        mean: FloatArray,
        closeness: float,
        outside: tuple[str, ...],
    ) -> PointPrediction:
        values: dict[Metric, Estimate] = {}
        for m, metric in enumerate(METRICS):
            value = answer.value(metric) * math.exp(float(mean[m]))
            phase = "disagg" if point.config.prefill is not None else "agg"
            grid, widths = self.bands[f"{metric.value}/{phase}"]
            half = float(np.interp(closeness, grid, widths))
            values[metric] = Estimate(value, value * math.exp(-half), value * math.exp(half))
        assert self.factors is not None  # noqa: S101 (the pack is loaded as a whole)
        rows = self.factors.measured_on.get(f"{point.config.dialect}/{point.config.gpu}", 0)
        cell = self.pricer.cell(point.config)
        origin = cell.transferred_from if cell is not None else ""
        calibrated = rows > 0 and not origin
        note = (
            f"calibrated (n={rows})" if calibrated else f"transferred from {origin or 'the same GPU family'}"
        )
        return PointPrediction(
            point=point,
            values=values,
            provenance=Provenance.CALIBRATED if calibrated else answer.provenance,
            calibration=note,
            extrapolates=outside,
        )

    def _outside(self, learned: Learned, place: Places) -> tuple[str, ...]:
        """Dimensions in which a row lies outside the rows measured on the same engine and GPU family."""
        known = learned.places
        family = known.labels["family"] == place.labels["family"][0]
        if not family.any():
            return ("engine on this GPU family",)
        found = (
            [] if (known.labels["checkpoint"][family] == place.labels["checkpoint"][0]).any() else ["model"]
        )
        names = list(LENGTHS)
        for name, label in _DIMENSIONS.items():
            column = known.numbers[family, names.index(name)]
            value = place.numbers[0, names.index(name)]
            if not column.min() - _TOLERANCE <= value <= column.max() + _TOLERANCE:
                found.append(label)
        return tuple(found)
