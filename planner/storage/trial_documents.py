"""Rows of trials as domain values, quickly: a list of 50,000 is shown while its user waits."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Row

from planner.domain.study import Trial, TrialOutcome, TrialState
from planner.storage.tables import TrialRow

_STATES: Final = {s.value: s for s in TrialState}


def trial_of(row: TrialRow, study: str) -> Trial:
    """The trial of one row."""
    return Trial(
        study=study,
        number=row.number,
        spec_hash=row.spec_hash,
        parameters=json.loads(row.parameters),
        outcome=outcome_of(row.state, None if row.outcome is None else json.loads(row.outcome)),
        created_at=row.created_at,
        finished_at=row.finished_at,
    )


@contextmanager
def no_collection() -> Iterator[None]:
    """No garbage collection meanwhile: none of the many objects of a large result is garbage, and looking for it takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def trials_of(study: str, rows: Sequence[Row[*tuple[Any, ...]]]) -> tuple[Trial, ...]:
    """Trials of rows (number, specification, state, parameters, outcome, created, finished); all documents in one parse."""
    parameters = _parse_all([r[3] for r in rows])
    outcomes = _parse_all([r[4] or "null" for r in rows])
    return tuple(
        Trial(
            study=study,
            number=r[0],
            spec_hash=r[1],
            parameters=p,
            outcome=outcome_of(r[2], o),
            created_at=r[5],
            finished_at=r[6],
        )
        for r, p, o in zip(rows, parameters, outcomes, strict=True)
    )


def _parse_all(documents: Sequence[str]) -> list[Any]:
    parsed: list[Any] = json.loads(f"[{','.join(documents)}]")
    return parsed


def outcome_of(state: str, fields: dict[str, Any] | None) -> TrialOutcome:
    """The outcome of a parsed document, by hand: a generic decoder is ten times slower."""
    if fields is None:
        return TrialOutcome(state=_STATES[state])
    return TrialOutcome(
        state=_STATES[state],
        values=tuple(fields["values"]),
        constraints=fields["constraints"],
        attributes=fields["attributes"],
        plan_hash=fields["plan_hash"],
        evaluation_hash=fields["evaluation_hash"],
        error=fields["error"],
    )
