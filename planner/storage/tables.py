"""Tables of the store. Rows never leave `planner.storage`: repositories turn them into domain values.

Documents are canonical JSON text, so that a content hash can be checked against what is stored.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Column, DateTime, LargeBinary, MetaData, Text, UniqueConstraint
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator
from sqlmodel import Field, SQLModel

# constraint names are part of the schema: migrations must be able to name them on every database
NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class UtcDateTime(TypeDecorator[datetime]):
    """Aware UTC datetimes on every database; SQLite stores no zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To UTC; naive values are a programming error."""
        if value is None:
            return None
        if value.tzinfo is None:
            msg = "datetimes in the store are aware"
            raise ValueError(msg)
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Aware UTC."""
        del dialect
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(SQLModel):
    """Common metadata of all tables."""

    metadata = MetaData(naming_convention=NAMING)


def _text(*, nullable: bool = False) -> Column[str]:
    return Column(Text, nullable=nullable)


def _time(*, nullable: bool = False, index: bool = False) -> Column[datetime]:
    return Column(UtcDateTime, nullable=nullable, index=index)


class ProblemRow(Base, table=True):
    """A planning problem, once per content."""

    __tablename__ = "problems"
    id: int | None = Field(default=None, primary_key=True)
    hash: str = Field(max_length=64, unique=True)
    name: str = Field(index=True)
    document: str = Field(sa_column=_text())
    created_at: datetime = Field(sa_column=_time())


class PlanRow(Base, table=True):
    """A deployment plan, once per content; the newest of a name is the one meant by the name."""

    __tablename__ = "plans"
    id: int | None = Field(default=None, primary_key=True)
    hash: str = Field(max_length=64, unique=True)
    name: str = Field(index=True)
    model: str = Field(index=True)
    problem_id: int | None = Field(default=None, foreign_key="problems.id", index=True)
    document: str = Field(sa_column=_text())
    created_at: datetime = Field(sa_column=_time())


class EvaluationRow(Base, table=True):
    """An evaluation, once per specification (plan, level, model version, seed, …): the result cache."""

    __tablename__ = "evaluations"
    id: int | None = Field(default=None, primary_key=True)
    spec_hash: str = Field(max_length=64, unique=True)
    plan_id: int = Field(foreign_key="plans.id", index=True)
    level: str
    model_version: str
    document: str = Field(sa_column=_text())
    created_at: datetime = Field(sa_column=_time())


class StudyRow(Base, table=True):
    """A search."""

    __tablename__ = "studies"
    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True)
    problem_hash: str = Field(max_length=64, index=True)
    state: str
    document: str = Field(sa_column=_text())
    created_at: datetime = Field(sa_column=_time())
    updated_at: datetime = Field(sa_column=_time())


class TrialRow(Base, table=True):
    """One point of a study; the two unique constraints keep parallel processes from doing work twice."""

    __tablename__ = "trials"
    __table_args__ = (UniqueConstraint("study_id", "number"), UniqueConstraint("study_id", "spec_hash"))
    id: int | None = Field(default=None, primary_key=True)
    study_id: int = Field(foreign_key="studies.id", ondelete="CASCADE")
    number: int
    spec_hash: str = Field(max_length=64)
    state: str
    owner: str
    parameters: str = Field(sa_column=_text())
    outcome: str | None = Field(default=None, sa_column=_text(nullable=True))
    lease_until: datetime | None = Field(default=None, sa_column=_time(nullable=True))
    created_at: datetime = Field(sa_column=_time())
    finished_at: datetime | None = Field(default=None, sa_column=_time(nullable=True))


class StudyRunRow(Base, table=True):
    """A process that works on a study; gone with the process, or with the first look after it."""

    __tablename__ = "study_runs"
    __table_args__ = (UniqueConstraint("study_id", "owner"),)
    id: int | None = Field(default=None, primary_key=True)
    study_id: int = Field(foreign_key="studies.id", ondelete="CASCADE")
    owner: str
    started_at: datetime = Field(sa_column=_time())
    seen_at: datetime = Field(sa_column=_time())


class RawFileRow(Base, table=True):
    """A benchmark file as it was imported, zlib-compressed."""

    __tablename__ = "raw_files"
    hash: str = Field(max_length=64, primary_key=True)
    name: str
    format: str
    size_bytes: int
    compressed: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    created_at: datetime = Field(sa_column=_time())


class MeasurementRow(Base, table=True):
    """A measured operating point, once per configuration and result."""

    __tablename__ = "measurements"
    id: int | None = Field(default=None, primary_key=True)
    hash: str = Field(max_length=64, unique=True)
    model: str = Field(index=True)
    gpu: str
    engine: str
    engine_version: str
    raw_hash: str = Field(foreign_key="raw_files.hash", index=True)
    document: str = Field(sa_column=_text())
    created_at: datetime = Field(sa_column=_time())


class CalibrationRow(Base, table=True):
    """A fitted calibration; the newest of a scope is used."""

    __tablename__ = "calibrations"
    id: int | None = Field(default=None, primary_key=True)
    hash: str = Field(max_length=64, unique=True)
    scope_hash: str = Field(max_length=64, index=True)
    document: str = Field(sa_column=_text())
    created_at: datetime = Field(sa_column=_time())


class ExportRow(Base, table=True):
    """Manifests written for a plan."""

    __tablename__ = "exports"
    id: int | None = Field(default=None, primary_key=True)
    plan_hash: str = Field(max_length=64, index=True)
    target: str
    directory: str
    files: str = Field(sa_column=_text())
    created_at: datetime = Field(sa_column=_time())


class AuditRow(Base, table=True):
    """An action that changed something; rows are only ever added."""

    __tablename__ = "audit"
    id: int | None = Field(default=None, primary_key=True)
    at: datetime = Field(sa_column=_time(index=True))
    actor: str
    action: str
    subject: str
    detail: str = Field(sa_column=_text())
