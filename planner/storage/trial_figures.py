"""Figures of all trials of a study without their documents: a page about 50,000 of them needs three numbers of each.

The database takes the numbers out of the JSON, which is several times faster than parsing it here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, cast, func
from sqlalchemy import select as sa_select
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Session, col

from planner.domain.study import TrialState
from planner.storage.tables import TrialRow

_STATES: Final = {s.value: s for s in TrialState}


@dataclass(frozen=True, slots=True)
class TrialFigures:
    """A trial as numbers. `values`: the attributes asked for, None where there is none. `missed`: names of violated constraints."""

    number: int
    state: TrialState
    values: tuple[float | None, ...]
    missed: tuple[str, ...]
    error: str | None

    @property
    def feasible(self) -> bool:
        """Whether the trial is complete and every constraint is met."""
        return self.state is TrialState.COMPLETE and not self.missed


def read_figures(
    session: Session, study_id: int, attributes: Sequence[str], *, after: int
) -> tuple[TrialFigures, ...]:
    """Trials with numbers above `after`, in order, each with the numeric attributes called `attributes`."""
    sqlite = session.get_bind().dialect.name == "sqlite"
    paths = [("error",), ("constraints",), *(("attributes", a) for a in attributes)]
    columns = [_taken(path, sqlite=sqlite) for path in paths]
    statement = (
        sa_select(col(TrialRow.number), col(TrialRow.state), *columns)
        .where(col(TrialRow.study_id) == study_id, col(TrialRow.number) > after)
        .order_by(col(TrialRow.number))
    )
    return tuple(
        TrialFigures(
            number,
            _STATES[state],
            tuple(None if v is None else float(v) for v in values),
            _missed(constraints),
            error,
        )
        for number, state, error, constraints, *values in session.connection().execute(statement)
    )


def last_finished(session: Session, study_id: int) -> datetime | None:
    """When a trial of the study last finished."""
    newest = sa_select(func.max(col(TrialRow.finished_at))).where(col(TrialRow.study_id) == study_id)
    found: datetime | None = session.connection().execute(newest).scalar_one()
    return found


def _taken(path: tuple[str, ...], *, sqlite: bool) -> ColumnElement[Any]:
    """The value at a path of the outcome, as text, number or NULL."""
    if sqlite:
        found: ColumnElement[Any] = func.json_extract(
            col(TrialRow.outcome), "$." + ".".join(f'"{p}"' for p in path)
        )
        return found
    document: ColumnElement[Any] = cast(col(TrialRow.outcome), JSONB)[path].astext
    return document


def _missed(constraints: str | None) -> tuple[str, ...]:
    """Names of positive constraints."""
    if constraints is None:
        return ()
    return tuple(name for name, value in json.loads(constraints).items() if value > 0.0)
