"""Studies and trials. A point is claimed before it is evaluated, so two processes never do the same work.

Claims carry a lease: the claim of a process that died can be taken over once its lease has run out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import desc, func, update
from sqlalchemy import insert as sa_insert
from sqlalchemy import select as sa_select
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, delete, select

from planner.domain.errors import InputError, Issue, MissingDataError, did_you_mean
from planner.domain.study import (
    Scalar,
    Study,
    StudyState,
    StudySummary,
    Trial,
    TrialOutcome,
    TrialState,
)
from planner.storage import runs
from planner.storage.codec import decode, encode
from planner.storage.database import Database
from planner.storage.tables import StudyRow, StudyRunRow, TrialRow
from planner.storage.trial_documents import no_collection, outcome_of, trial_of, trials_of
from planner.storage.trial_figures import TrialFigures, last_finished, read_figures

LEASE: Final = timedelta(minutes=10)
_ATTEMPTS: Final = 20  # collisions on a trial number are resolved by asking again


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedTrial:
    """A point evaluated elsewhere, to be recorded in one go."""

    spec_hash: str
    parameters: Mapping[str, Scalar]
    outcome: TrialOutcome


class StudyRepository:
    """Searches and their trials."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def create(self, study: Study) -> Study:
        """Store a new study; InputError ``study.exists`` when the name is taken."""
        now = self._db.clock()
        stored = replace(study, created_at=study.created_at or now, updated_at=now)
        with self._db.write() as session:
            if session.exec(select(StudyRow.id).where(StudyRow.name == study.name)).first() is not None:
                raise InputError(
                    Issue(
                        code="study.exists",
                        what=f"a study '{study.name}' is already there",
                        why="names identify studies",
                        fix=f"continue it with planner studies resume {study.name}, or choose another name",
                    )
                )
            session.add(
                StudyRow(
                    name=study.name,
                    problem_hash=study.problem_hash,
                    state=study.state.value,
                    document=encode(stored),
                    created_at=stored.created_at or now,
                    updated_at=now,
                )
            )
        return stored

    def get(self, name: str) -> Study:
        """The study called `name`; MissingDataError ``study.unknown`` with near names."""
        with self._db.read() as session:
            row = _row(session, name)
            return _study(row, runs.states(session, [row], self._db.clock())[row.id or 0])

    def list(self) -> tuple[StudySummary, ...]:
        """All studies with their trial counts, newest first."""
        with self._db.read() as session:
            rows = session.exec(select(StudyRow).order_by(desc(col(StudyRow.id)))).all()
            counts: dict[int, Counter[TrialState]] = {}
            counted = sa_select(col(TrialRow.study_id), col(TrialRow.state), func.count()).group_by(
                col(TrialRow.study_id), col(TrialRow.state)
            )
            for study_id, state, n in session.connection().execute(counted):
                counts.setdefault(study_id, Counter())[TrialState(state)] = n
            states = runs.states(session, rows, self._db.clock())
            return tuple(
                StudySummary(study=_study(r, states[r.id or 0]), trials=dict(counts.get(r.id or 0, {})))
                for r in rows
            )

    def set_state(self, name: str, state: StudyState) -> None:
        """Mark a study as running, interrupted or finished. Whoever runs it stops when it is marked as interrupted."""
        with self._db.write() as session:
            self._mark(session, _row(session, name), state)

    def enter(self, name: str, *, owner: str) -> None:
        """`owner` runs the study from now on; points that a process claimed and died over are free again."""
        with self._db.write() as session:
            row = _row(session, name)
            self._mark(session, row, StudyState.RUNNING)
            runs.enter(session, row.id or 0, owner, self._db.clock())
            for claim in _open_claims(session, row.id or 0):
                if runs.is_gone(claim.owner):
                    session.delete(claim)

    def beat(self, name: str, *, owner: str) -> bool:
        """`owner` still runs the study; False when it was asked to stop, or the study is gone."""
        with self._db.write() as session:
            row = session.exec(select(StudyRow).where(StudyRow.name == name)).first()
            if row is None or row.state == StudyState.INTERRUPTED.value:
                return False
            session.exec(
                update(StudyRunRow)
                .where(col(StudyRunRow.study_id) == row.id, col(StudyRunRow.owner) == owner)
                .values(seen_at=self._db.clock())
            )
            return True

    def leave(self, name: str, *, owner: str, state: StudyState) -> None:
        """`owner` ran the study and leaves it in `state`; while others go on, it stays running."""
        with self._db.write() as session:
            row = session.exec(select(StudyRow).where(StudyRow.name == name)).first()
            if row is None:
                return  # deleted meanwhile
            others = runs.leave(session, row.id or 0, owner, self._db.clock())
            if others == 0 or row.state != StudyState.RUNNING.value:
                self._mark(session, row, state)

    def _mark(self, session: Session, row: StudyRow, state: StudyState) -> None:
        now = self._db.clock()
        row.state, row.updated_at = state.value, now
        session.add(row)
        runs.forget_gone(session, row.id or 0, now)

    def delete(self, name: str) -> int:
        """Remove a study with its trials; returns how many trials went."""
        with self._db.write() as session:
            row = _row(session, name)
            n = session.exec(select(func.count()).where(col(TrialRow.study_id) == row.id)).one()
            session.exec(delete(StudyRow).where(col(StudyRow.id) == row.id))
        return int(n)

    # --- trials ---

    def claim(
        self,
        study: str,
        spec_hash: str,
        *,
        parameters: Mapping[str, Scalar],
        owner: str,
        lease: timedelta = LEASE,
    ) -> Trial | None:
        """Reserve one point for `owner`; None when it is finished or another process holds it.

        A claim whose lease ran out, or whose process is gone, is taken over under its old number.
        """
        for _ in range(_ATTEMPTS):
            now = self._db.clock()
            try:
                with self._db.write() as session:
                    study_id = _study_id(session, study)
                    taken = _find(session, study_id, spec_hash)
                    if taken is not None:
                        return _take_over(
                            session, taken, study=study, owner=owner, now=now, until=now + lease
                        )
                    _insert(
                        session,
                        study_id,
                        {
                            "spec_hash": spec_hash,
                            "state": TrialState.RUNNING.value,
                            "owner": owner,
                            "parameters": encode(dict(parameters)),
                            "lease_until": now + lease,
                            "created_at": now,
                        },
                    )
                    row = _find(session, study_id, spec_hash)
                    return None if row is None else trial_of(row, study)
            except _Collision:
                continue  # another process took the number or the point in the meantime
        raise InputError(_busy(study))

    def finish(self, study: str, number: int, outcome: TrialOutcome) -> Trial:
        """Record the outcome of a claimed trial; durable when this returns. A second outcome is ignored.

        Raises MissingDataError ``trial.unknown``.
        """
        now = self._db.clock()
        with self._db.write() as session:
            study_id = _study_id(session, study)
            row = session.exec(
                select(TrialRow).where(TrialRow.study_id == study_id, TrialRow.number == number)
            ).first()
            if row is None:
                raise MissingDataError(
                    Issue(
                        code="trial.unknown",
                        what=f"study '{study}' has no trial {number}",
                        why="only claimed trials can be finished",
                        fix=f"see planner studies show {study}",
                    )
                )
            if row.outcome is None:
                _finish(row, outcome, now)
                session.add(row)
            return trial_of(row, study)

    def record(self, study: str, trials: Sequence[FinishedTrial], *, owner: str) -> int:
        """Store finished points in one transaction; returns how many were new.

        A point that is finished is skipped, and so is one that another process holds. The claim of `owner` itself, or one
        whose lease ran out, gets the outcome.
        """
        for _ in range(_ATTEMPTS):
            now = self._db.clock()
            try:
                with self._db.write() as session:
                    study_id = _study_id(session, study)
                    known = set(
                        session.exec(select(TrialRow.spec_hash).where(TrialRow.study_id == study_id)).all()
                    )
                    wanted = {t.spec_hash: t for t in trials}
                    filled = 0
                    for row in _open_claims(session, study_id):
                        trial = wanted.get(row.spec_hash)
                        if trial is not None and (row.owner == owner or _is_free(row, now)):
                            _finish(row, trial.outcome, now)
                            session.add(row)
                            filled += 1
                    fresh = [t for digest, t in wanted.items() if digest not in known]
                    session.flush()
                    _insert_many(session, study_id, [_finished_values(t, owner, now) for t in fresh])
                    return len(fresh) + filled
            except _Collision:
                continue
        raise InputError(_busy(study))

    def trials(
        self, study: str, *, state: TrialState | None = None, numbers: Sequence[int] | None = None
    ) -> tuple[Trial, ...]:
        """All trials of a study in the order of their numbers, optionally of one state or with the given numbers."""
        with self._db.read() as session:
            statement = (
                sa_select(
                    col(TrialRow.number),
                    col(TrialRow.spec_hash),
                    col(TrialRow.state),
                    col(TrialRow.parameters),
                    col(TrialRow.outcome),
                    col(TrialRow.created_at),
                    col(TrialRow.finished_at),
                )
                .where(col(TrialRow.study_id) == _study_id(session, study))
                .order_by(col(TrialRow.number))
            )
            if numbers is not None:
                statement = statement.where(col(TrialRow.number).in_(numbers))
            if state is not None:
                statement = statement.where(col(TrialRow.state) == state.value)
            with no_collection():
                return trials_of(study, session.connection().execute(statement).all())

    def figures(self, study: str, attributes: Sequence[str], *, after: int = -1) -> tuple[TrialFigures, ...]:
        """Numeric attributes of all trials with numbers above `after`, in order; quicker than the trials themselves."""
        with self._db.read() as session, no_collection():
            return read_figures(session, _study_id(session, study), attributes, after=after)

    def last_finished(self, study: str) -> datetime | None:
        """When a trial of the study last finished."""
        with self._db.read() as session:
            return last_finished(session, _study_id(session, study))

    def find_outcome(self, spec_hash: str) -> TrialOutcome | None:
        """The newest complete outcome of that specification in any study, if there is one: evaluating it again is free."""
        with self._db.read() as session:
            document = session.exec(
                select(TrialRow.outcome)
                .where(TrialRow.spec_hash == spec_hash, TrialRow.state == TrialState.COMPLETE.value)
                .order_by(desc(col(TrialRow.id)))
            ).first()
        return None if document is None else outcome_of(TrialState.COMPLETE.value, json.loads(document))

    def count(self, study: str, *, finished: bool = False) -> int:
        """Trials of a study, with those that are only claimed unless `finished`."""
        with self._db.read() as session:
            counted = select(func.count()).where(col(TrialRow.study_id) == _study_id(session, study))
            if finished:
                counted = counted.where(col(TrialRow.state) != TrialState.RUNNING.value)
            return int(session.exec(counted).one())

    def known_specs(self, study: str) -> frozenset[str]:
        """Specification hashes that are finished or claimed."""
        with self._db.read() as session:
            statement = select(TrialRow.spec_hash).where(TrialRow.study_id == _study_id(session, study))
            return frozenset(session.exec(statement).all())

    def release(self, study: str, *, owner: str) -> int:
        """Give up the unfinished claims of `owner` (on a clean stop); returns how many."""
        with self._db.write() as session:
            statement = delete(TrialRow).where(
                col(TrialRow.study_id) == _study_id(session, study),
                col(TrialRow.owner) == owner,
                col(TrialRow.state) == TrialState.RUNNING.value,
            )
            result = session.exec(statement)
            return int(result.rowcount)


class _Collision(Exception):  # noqa: N818 - control flow inside this module, never seen outside
    """Another process inserted the same number or specification first."""


def _finish(row: TrialRow, outcome: TrialOutcome, now: datetime) -> None:
    row.state = outcome.state.value
    row.outcome = encode(outcome)
    row.lease_until = None
    row.finished_at = now


def _open_claims(session: Session, study_id: int) -> Sequence[TrialRow]:
    """Claims without an outcome."""
    statement = select(TrialRow).where(
        TrialRow.study_id == study_id, TrialRow.state == TrialState.RUNNING.value
    )
    return session.exec(statement).all()


def _is_free(claim: TrialRow, now: datetime) -> bool:
    """Whether another process may have the claimed point: its lease ran out, or its process is gone."""
    return (claim.lease_until is not None and claim.lease_until < now) or runs.is_gone(claim.owner)


def _finished_values(trial: FinishedTrial, owner: str, now: datetime) -> dict[str, object]:
    return {
        "spec_hash": trial.spec_hash,
        "state": trial.outcome.state.value,
        "owner": owner,
        "parameters": encode(dict(trial.parameters)),
        "outcome": encode(trial.outcome),
        "created_at": now,
        "finished_at": now,
    }


def _next_number(session: Session, study_id: int) -> int:
    highest = select(func.coalesce(func.max(TrialRow.number), -1)).where(col(TrialRow.study_id) == study_id)
    return int(session.exec(highest).one()) + 1


def _insert(session: Session, study_id: int, values: Mapping[str, object]) -> None:
    _insert_many(session, study_id, [values])


def _insert_many(session: Session, study_id: int, rows: Iterable[Mapping[str, object]]) -> None:
    first = _next_number(session, study_id)
    complete = [{"study_id": study_id, "number": first + i, **r} for i, r in enumerate(rows)]
    if not complete:
        return
    try:
        session.connection().execute(sa_insert(TrialRow), complete)
    except IntegrityError as e:
        session.rollback()
        raise _Collision from e


def _find(session: Session, study_id: int, spec_hash: str) -> TrialRow | None:
    return session.exec(
        select(TrialRow).where(TrialRow.study_id == study_id, TrialRow.spec_hash == spec_hash)
    ).first()


def _take_over(
    session: Session, row: TrialRow, *, study: str, owner: str, now: datetime, until: datetime
) -> Trial | None:
    if row.state != TrialState.RUNNING.value or not _is_free(row, now):
        return None
    # compared with the lease that was read, so that of two processes only one takes the point over
    statement = (
        update(TrialRow)
        .where(
            col(TrialRow.id) == row.id,
            col(TrialRow.state) == TrialState.RUNNING.value,
            col(TrialRow.lease_until) == row.lease_until,
        )
        .values(owner=owner, lease_until=until)
    )
    return trial_of(row, study) if session.exec(statement).rowcount == 1 else None


def _row(session: Session, name: str) -> StudyRow:
    row = session.exec(select(StudyRow).where(StudyRow.name == name)).first()
    if row is None:
        names = session.exec(select(StudyRow.name)).all()
        raise MissingDataError(
            Issue(
                code="study.unknown",
                what=f"no study '{name}'",
                why="studies are found by name",
                fix=did_you_mean(name, names) if names else "start one with planner search",
            )
        )
    return row


def _study_id(session: Session, name: str) -> int:
    study_id = session.exec(select(StudyRow.id).where(StudyRow.name == name)).first()
    if study_id is None:
        return int(_row(session, name).id or 0)  # raises with near names
    return study_id


def _study(row: StudyRow, state: StudyState) -> Study:
    study = decode(row.document, Study)
    return replace(study, state=state, created_at=row.created_at, updated_at=row.updated_at)


def _busy(study: str) -> Issue:
    return Issue(
        code="study.busy",
        what=f"no trial number could be reserved in study '{study}'",
        why=f"other processes took it {_ATTEMPTS} times in a row",
        fix="use fewer processes on one study, or try again",
    )
