"""Problems, plans, evaluations, exports and the audit trail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from string import hexdigits

from sqlalchemy import desc
from sqlmodel import Session, col, select

from planner.domain.deployment import DeploymentPlan
from planner.domain.errors import InputError, Issue, MissingDataError, did_you_mean
from planner.domain.evaluation import Evaluation
from planner.domain.problem import PlanningProblem
from planner.domain.study import AuditEntry, ExportRecord, Scalar, StudyLevel
from planner.storage.canonical import content_hash
from planner.storage.codec import CONVERTER, decode, domain_hash, encode
from planner.storage.database import Database
from planner.storage.tables import AuditRow, EvaluationRow, ExportRow, PlanRow, ProblemRow


def evaluation_spec_hash(
    plan: DeploymentPlan,
    *,
    level: StudyLevel,
    model_version: str,
    settings: Mapping[str, Scalar] | None = None,
) -> str:
    """Identity of an evaluation: plan, level, performance-model version and settings (seed, horizon, …).

    The plan's name is left out: two names for one deployment are one evaluation.
    """
    return content_hash(
        {
            "plan": CONVERTER.unstructure(replace(plan, name="")),
            "level": level.value,
            "model_version": model_version,
            "settings": dict(settings or {}),
        }
    )


class ProblemRepository:
    """Planning problems, once per content."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def save(self, problem: PlanningProblem) -> str:
        """Store `problem` unless it is there; returns its content hash."""
        digest = domain_hash(problem)
        with self._db.write() as session:
            if session.exec(select(ProblemRow.id).where(ProblemRow.hash == digest)).first() is None:
                session.add(
                    ProblemRow(
                        hash=digest, name=problem.name, document=encode(problem), created_at=self._db.clock()
                    )
                )
        return digest

    def get(self, digest: str) -> PlanningProblem:
        """The problem with this content hash; MissingDataError ``problem.unknown``."""
        with self._db.read() as session:
            document = session.exec(select(ProblemRow.document).where(ProblemRow.hash == digest)).first()
        if document is None:
            raise MissingDataError(
                Issue(
                    code="problem.unknown",
                    what=f"no stored problem with hash {digest[:12]}",
                    why="studies refer to problems by content",
                    fix="run the search again from its recipe",
                )
            )
        return decode(document, PlanningProblem)


class PlanRepository:
    """Deployment plans by name or by hash prefix."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def save(self, plan: DeploymentPlan, *, problem_hash: str | None = None) -> str:
        """Store `plan` unless it is there; returns its content hash."""
        with self._db.write() as session:
            return save_plan(session, plan, database=self._db, problem_hash=problem_hash)

    def get(self, reference: str) -> DeploymentPlan:
        """The newest plan called `reference`, or the one whose hash starts with it (8 digits at least).

        Raises MissingDataError ``plan.unknown`` with near names, InputError ``plan.ambiguous``.
        """
        with self._db.read() as session:
            statement = select(PlanRow).where(PlanRow.name == reference).order_by(desc(col(PlanRow.id)))
            row = session.exec(statement).first()
            if row is None and len(reference) >= 8 and set(reference) <= set(hexdigits):
                rows = session.exec(
                    select(PlanRow).where(col(PlanRow.hash).startswith(reference, autoescape=True))
                ).all()
                if len(rows) > 1:
                    raise InputError(_ambiguous(reference, len(rows)))
                row = rows[0] if rows else None
            names = [] if row else list(session.exec(select(PlanRow.name).distinct()).all())
        if row is None:
            raise MissingDataError(
                Issue(
                    code="plan.unknown",
                    what=f"no saved plan '{reference}'",
                    why="plans are found by name or by the first digits of their hash",
                    fix=did_you_mean(reference, names) if names else "save one with planner recommend --save",
                )
            )
        return decode(row.document, DeploymentPlan)

    def list(self, *, model: str | None = None) -> tuple[tuple[str, DeploymentPlan], ...]:
        """Hash and plan, newest first, optionally of one model."""
        statement = select(PlanRow.hash, PlanRow.document).order_by(desc(col(PlanRow.id)))
        if model is not None:
            statement = statement.where(PlanRow.model == model)
        with self._db.read() as session:
            rows = session.exec(statement).all()
        return tuple((digest, decode(document, DeploymentPlan)) for digest, document in rows)


class EvaluationRepository:
    """Evaluations by specification: asking again is free."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def save(
        self, spec_hash: str, plan: DeploymentPlan, evaluation: Evaluation, *, level: StudyLevel
    ) -> None:
        """Store an evaluation with its plan; a second one of the same specification is ignored."""
        with self._db.write() as session:
            digest = save_plan(session, plan, database=self._db)
            known = session.exec(select(EvaluationRow.id).where(EvaluationRow.spec_hash == spec_hash)).first()
            if known is not None:
                return
            plan_id = session.exec(select(PlanRow.id).where(PlanRow.hash == digest)).one()
            session.add(
                EvaluationRow(
                    spec_hash=spec_hash,
                    plan_id=plan_id or 0,
                    level=level.value,
                    model_version=evaluation.model_version,
                    document=encode(evaluation),
                    created_at=self._db.clock(),
                )
            )

    def find(self, spec_hash: str) -> Evaluation | None:
        """The stored evaluation of that specification, if there is one."""
        with self._db.read() as session:
            statement = select(EvaluationRow.document).where(EvaluationRow.spec_hash == spec_hash)
            document = session.exec(statement).first()
        return None if document is None else decode(document, Evaluation)


class ExportRepository:
    """What was written for which plan."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, record: ExportRecord) -> None:
        """Remember one export."""
        with self._db.write() as session:
            session.add(
                ExportRow(
                    plan_hash=record.plan_hash,
                    target=record.target,
                    directory=record.directory,
                    files=encode(dict(record.files)),
                    created_at=record.created_at or self._db.clock(),
                )
            )

    def list(self, *, plan_hash: str | None = None) -> tuple[ExportRecord, ...]:
        """Exports, newest first, optionally of one plan."""
        statement = select(ExportRow).order_by(desc(col(ExportRow.id)))
        if plan_hash is not None:
            statement = statement.where(ExportRow.plan_hash == plan_hash)
        with self._db.read() as session:
            rows = session.exec(statement).all()
        return tuple(
            ExportRecord(
                plan_hash=r.plan_hash,
                target=r.target,
                directory=r.directory,
                files=decode(r.files, dict[str, str]),
                created_at=r.created_at,
            )
            for r in rows
        )


class AuditRepository:
    """Actions that changed something; rows are only added."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, entry: AuditEntry) -> None:
        """Write one entry."""
        with self._db.write() as session:
            session.add(
                AuditRow(
                    at=entry.at or self._db.clock(),
                    actor=entry.actor,
                    action=entry.action,
                    subject=entry.subject,
                    detail=encode(dict(entry.detail)),
                )
            )

    def list(self, *, limit: int = 100) -> tuple[AuditEntry, ...]:
        """The newest `limit` entries, newest first."""
        with self._db.read() as session:
            rows = session.exec(select(AuditRow).order_by(desc(col(AuditRow.id))).limit(limit)).all()
        return tuple(
            AuditEntry(
                actor=r.actor,
                action=r.action,
                subject=r.subject,
                detail=decode(r.detail, dict[str, Scalar]),
                at=r.at,
            )
            for r in rows
        )


def save_plan(
    session: Session, plan: DeploymentPlan, *, database: Database, problem_hash: str | None = None
) -> str:
    """Insert `plan` in the caller's transaction unless it is there; returns its content hash."""
    digest = domain_hash(plan)
    if session.exec(select(PlanRow.id).where(PlanRow.hash == digest)).first() is not None:
        return digest
    problem_id = None
    if problem_hash is not None:
        problem_id = session.exec(select(ProblemRow.id).where(ProblemRow.hash == problem_hash)).first()
    session.add(
        PlanRow(
            hash=digest,
            name=plan.name,
            model=plan.model,
            problem_id=problem_id,
            document=encode(plan),
            created_at=database.clock(),
        )
    )
    session.flush()
    return digest


def _ambiguous(reference: str, count: int) -> Issue:
    return Issue(
        code="plan.ambiguous",
        what=f"'{reference}' is the start of {count} plan hashes",
        why="a reference must name one plan",
        fix="give more digits or the plan's name",
    )
