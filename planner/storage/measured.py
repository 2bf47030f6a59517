"""Measurements with their raw files, and calibrations."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from string import hexdigits
from typing import Final

from sqlalchemy import desc, func, insert
from sqlmodel import Session, col, delete, select

from planner.domain.calibration import Calibration, CalibrationScope
from planner.domain.errors import InputError, Issue, MissingDataError
from planner.domain.measurement import BenchmarkFormat, Measurement
from planner.storage.canonical import bytes_hash, content_hash
from planner.storage.codec import CONVERTER, decode, domain_hash, encode
from planner.storage.database import Database
from planner.storage.tables import CalibrationRow, MeasurementRow, RawFileRow

_CHUNK: Final = 500  # SQLite takes a limited number of parameters per statement


# fields that measurements did not have at first: at their defaults they do not count, or old results would be new again
_ADDED: Final = (("workload", "prefix_shared", False),)


def measurement_hash(measurement: Measurement) -> str:
    """Identity of a measurement: configuration, load and result, whatever file or note it came with."""
    document = CONVERTER.unstructure(measurement)
    # the origin says how we know, not what was measured; the date tells repeated runs with equal rounding apart
    measured_at = document.pop("origin")["measured_at"]
    document.pop("flags")
    for part, name, default in _ADDED:
        if document[part].get(name) == default:
            del document[part][name]
    return content_hash({**document, "measured_at": measured_at})


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFile:
    """A benchmark file as it was read."""

    name: str
    format: BenchmarkFormat
    content: bytes
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha256", bytes_hash(self.content))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMeasurement:
    """A measurement and its content hash."""

    hash: str
    measurement: Measurement


class MeasurementRepository:
    """Measured operating points, once per content."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, raw: RawFile, measurements: Sequence[Measurement]) -> tuple[bool, ...]:
        """Store the measurements of one raw file in one transaction; True per measurement that was new.

        The raw file is kept only when at least one measurement of it is.
        """
        now = self._db.clock()
        digests = [measurement_hash(m) for m in measurements]
        with self._db.write() as session:
            seen = _known(session, digests)
            added: list[bool] = []
            rows: list[dict[str, object]] = []
            for digest, m in zip(digests, measurements, strict=True):
                added.append(digest not in seen)
                if digest in seen:
                    continue
                seen.add(digest)
                rows.append(
                    {
                        "hash": digest,
                        "model": m.model,
                        "gpu": m.gpu,
                        "engine": m.engine.value,
                        "engine_version": m.engine_version,
                        "raw_hash": raw.sha256,
                        "document": encode(m),
                        "created_at": now,
                    }
                )
            if rows:
                self._keep_raw(session, raw)
                session.connection().execute(insert(MeasurementRow), rows)
        return tuple(added)

    def _keep_raw(self, session: Session, raw: RawFile) -> None:
        if session.get(RawFileRow, raw.sha256) is not None:
            return
        session.add(
            RawFileRow(
                hash=raw.sha256,
                name=raw.name,
                format=raw.format.value,
                size_bytes=len(raw.content),
                compressed=zlib.compress(raw.content, 6),
                created_at=self._db.clock(),
            )
        )
        session.flush()

    def list(
        self,
        *,
        model: str | None = None,
        gpu: str | None = None,
        engine_version: str | None = None,
    ) -> tuple[StoredMeasurement, ...]:
        """Stored measurements in the order of their import, optionally of one model, GPU or engine version."""
        statement = select(MeasurementRow.hash, MeasurementRow.document).order_by(col(MeasurementRow.id))
        if model is not None:
            statement = statement.where(MeasurementRow.model == model)
        if gpu is not None:
            statement = statement.where(MeasurementRow.gpu == gpu)
        if engine_version is not None:
            statement = statement.where(MeasurementRow.engine_version == engine_version)
        with self._db.read() as session:
            rows = session.exec(statement).all()
        return tuple(StoredMeasurement(hash=h, measurement=decode(d, Measurement)) for h, d in rows)

    def get(self, prefix: str) -> StoredMeasurement:
        """The measurement whose hash starts with `prefix`.

        Raises MissingDataError ``measurement.unknown``, InputError ``measurement.ambiguous``.
        """
        wanted = prefix.strip().lower()
        if not wanted or not set(wanted) <= set(hexdigits):
            raise _not_one(prefix, 0)
        with self._db.read() as session:
            statement = select(MeasurementRow).where(col(MeasurementRow.hash).startswith(wanted))
            rows = session.exec(statement.limit(2)).all()
        if len(rows) != 1:
            raise _not_one(prefix, len(rows))
        return StoredMeasurement(hash=rows[0].hash, measurement=decode(rows[0].document, Measurement))

    def raw(self, sha256: str) -> RawFile:
        """The raw file with this hash; MissingDataError ``raw_file.unknown``."""
        with self._db.read() as session:
            row = session.get(RawFileRow, sha256)
        if row is None:
            raise MissingDataError(
                Issue(
                    code="raw_file.unknown",
                    what=f"no raw file with hash {sha256[:12]}",
                    why="raw files are kept as long as one of their measurements is",
                    fix="import the file again",
                )
            )
        content = zlib.decompress(row.compressed)
        return RawFile(name=row.name, format=BenchmarkFormat(row.format), content=content)

    def delete(self, digests: Sequence[str]) -> int:
        """Delete measurements by full hash, and raw files nothing refers to any more; returns how many."""
        with self._db.write() as session:
            result = session.exec(delete(MeasurementRow).where(col(MeasurementRow.hash).in_(digests)))
            used = select(MeasurementRow.raw_hash)
            session.exec(delete(RawFileRow).where(col(RawFileRow.hash).not_in(used)))
            return int(result.rowcount)

    def count(self) -> int:
        """How many are stored."""
        with self._db.read() as session:
            return int(session.exec(select(func.count()).select_from(MeasurementRow)).one())


class CalibrationRepository:
    """Fitted calibrations; the newest of a scope is the one in use."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def save(self, calibration: Calibration) -> str:
        """Store a calibration; returns its content hash. The same fit twice is stored once."""
        stamped = calibration if calibration.created_at else replace(calibration, created_at=self._db.clock())
        digest = domain_hash(replace(stamped, created_at=None))
        with self._db.write() as session:
            # a re-fit that equals an older one becomes the newest again
            session.exec(delete(CalibrationRow).where(col(CalibrationRow.hash) == digest))
            session.add(
                CalibrationRow(
                    hash=digest,
                    scope_hash=domain_hash(stamped.scope),
                    document=encode(stamped),
                    created_at=stamped.created_at or self._db.clock(),
                )
            )
        return digest

    def latest(self, scope: CalibrationScope) -> Calibration | None:
        """The calibration in use for `scope`, if there is one."""
        with self._db.read() as session:
            document = session.exec(
                select(CalibrationRow.document)
                .where(CalibrationRow.scope_hash == domain_hash(scope))
                .order_by(desc(col(CalibrationRow.id)))
            ).first()
        return None if document is None else decode(document, Calibration)

    def list(self) -> tuple[Calibration, ...]:
        """All calibrations, newest first."""
        with self._db.read() as session:
            rows = session.exec(select(CalibrationRow.document).order_by(desc(col(CalibrationRow.id)))).all()
        return tuple(decode(d, Calibration) for d in rows)

    def delete(self, scope: CalibrationScope) -> int:
        """Forget the calibrations of a scope; returns how many."""
        with self._db.write() as session:
            statement = delete(CalibrationRow).where(col(CalibrationRow.scope_hash) == domain_hash(scope))
            return int(session.exec(statement).rowcount)


def _known(session: Session, digests: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for start in range(0, len(digests), _CHUNK):
        chunk = digests[start : start + _CHUNK]
        found.update(
            session.exec(select(MeasurementRow.hash).where(col(MeasurementRow.hash).in_(chunk))).all()
        )
    return found


def _not_one(prefix: str, found: int) -> MissingDataError | InputError:
    if found == 0:
        return MissingDataError(
            Issue(
                code="measurement.unknown",
                what=f"no stored measurement starts with '{prefix}'",
                why="measurements are named by the first digits of their hash",
                fix="see planner measurements list",
            )
        )
    return InputError(
        Issue(
            code="measurement.ambiguous",
            what=f"more than one measurement starts with '{prefix}'",
            why="a reference must name one measurement",
            fix="give more digits",
        )
    )
