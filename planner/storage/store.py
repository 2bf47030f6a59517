"""The store: one object with a repository per kind of record, opened, created and migrated in one call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import URL

from planner.storage.database import Clock, Database, database_url, utc_now
from planner.storage.measured import CalibrationRepository, MeasurementRepository
from planner.storage.plans import (
    AuditRepository,
    EvaluationRepository,
    ExportRepository,
    PlanRepository,
    ProblemRepository,
)
from planner.storage.schema import ensure_schema
from planner.storage.studies import StudyRepository


class Store:
    """Repositories over one open database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.problems = ProblemRepository(database)
        self.plans = PlanRepository(database)
        self.evaluations = EvaluationRepository(database)
        self.studies = StudyRepository(database)
        self.measurements = MeasurementRepository(database)
        self.calibrations = CalibrationRepository(database)
        self.exports = ExportRepository(database)
        self.audit = AuditRepository(database)

    def close(self) -> None:
        """Close all connections."""
        self.database.close()


@contextmanager
def open_store(url: URL | None = None, *, clock: Clock = utc_now) -> Iterator[Store]:
    """Open the store at `url` (default: `database_url()`), creating and migrating it as needed.

    Raises StoreError: ``store.newer``, ``store.foreign``, ``store.corrupt``, ``store.unwritable``,
    ``store.unreachable``, ``store.full``.
    """
    database = Database(url if url is not None else database_url(), clock=clock)
    try:
        ensure_schema(database)
        yield Store(database)
    finally:
        database.close()
