"""Calibrate the performance model to stored or given measurements, one calibration per model, GPU and engine version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from planner.domain.calibration import Calibration, CalibrationScope
from planner.domain.errors import Issue, MissingDataError
from planner.domain.measurement import Measurement, MeasurementFlag
from planner.measurements.calibration import calibrate, observations
from planner.measurements.model_predictor import ModelPredictor
from planner.measurements.pricing import PointPricer
from planner.perf.calibration import load_factor_pack
from planner.storage.measured import StoredMeasurement

# runs whose numbers or widths are not what they seem; they are kept, but no model is fitted to them
UNFIT: Final = frozenset(
    {
        MeasurementFlag.SUSPECT_CONFIGURATION,
        MeasurementFlag.QUALITY_CHECK_FAILED,
        MeasurementFlag.CANCELLED,
        MeasurementFlag.SINGLE_PHASE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A measurement that was not used, and why."""

    hash: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedScope:
    """The calibration of one scope; None when no measurement of it could be used."""

    scope: CalibrationScope
    calibration: Calibration | None
    left_out: tuple[LeftOut, ...]


def scope_of(measurement: Measurement) -> CalibrationScope:
    """What a calibration from this measurement may be used for."""
    return CalibrationScope(
        model=measurement.model,
        gpu=measurement.gpu,
        engine=measurement.engine.value,
        engine_version=measurement.engine_version,
    )


def fit_scopes(
    stored: Sequence[StoredMeasurement], *, profiles: Path | None = None, created_at: datetime | None = None
) -> tuple[FittedScope, ...]:
    """Fit every scope among `stored`, in the order of first appearance.

    Raises MissingDataError ``calibration.no_measurements`` when there are none.
    """
    if not stored:
        raise MissingDataError(
            Issue(
                code="calibration.no_measurements",
                what="there are no measurements to calibrate to",
                why="nothing was imported, or nothing matches the filters",
                fix="planner measurements import FILE, then planner calibrate",
            )
        )
    pricer = PointPricer(profiles=profiles, factors=load_factor_pack())
    groups: dict[CalibrationScope, list[StoredMeasurement]] = {}
    for one in stored:
        groups.setdefault(scope_of(one.measurement), []).append(one)
    return tuple(_fit(scope, members, pricer, created_at) for scope, members in groups.items())


def _fit(
    scope: CalibrationScope,
    members: list[StoredMeasurement],
    pricer: PointPricer,
    created_at: datetime | None,
) -> FittedScope:
    predictor = ModelPredictor(pricer, members[0].measurement.engine)
    failures = predictor.failures([m.measurement for m in members])
    used: list[StoredMeasurement] = []
    left_out: list[LeftOut] = []
    for member, failure in zip(members, failures, strict=True):
        bad = [f.value for f in member.measurement.flags if f in UNFIT]
        if bad:
            left_out.append(LeftOut(hash=member.hash, reason=", ".join(bad)))
        elif failure is not None:
            left_out.append(LeftOut(hash=member.hash, reason=failure.reason))
        else:
            used.append(member)
    calibration = None
    if used:
        measured = [u.measurement for u in used]
        calibration = calibrate(
            predictor,
            measured,
            observations(measured),
            scope=scope,
            measurements=tuple(u.hash for u in used),
            created_at=created_at,
        )
    return FittedScope(scope=scope, calibration=calibration, left_out=tuple(left_out))
