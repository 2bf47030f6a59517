"""Which processes work on a study, and whether they still do.

A process of this machine is asked for by its id and start time; one elsewhere counts as gone when it has not been seen for
`UNSEEN`. Nobody has to clean up after a process that was killed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Final

from sqlmodel import Session, col, delete, select

from planner.domain.study import StudyState
from planner.storage.tables import StudyRow, StudyRunRow

UNSEEN: Final = timedelta(minutes=2)
STARTING: Final = timedelta(minutes=2)  # a study may be marked as running before its process is up
_FIELDS: Final = 3  # of an owner: machine, process, start of the process


@cache
def this_process() -> str:
    """Owner name of this process: machine, process id and when the process started, which no later process shares."""
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid()) or 0}"


def is_gone(owner: str) -> bool:
    """Whether `owner` was a process of this machine and has ended; False for what cannot be known here."""
    parts = owner.rsplit(":", _FIELDS - 1)
    if len(parts) != _FIELDS or parts[0] != socket.gethostname() or not (parts[1] + parts[2]).isdecimal():
        return False
    pid, started = int(parts[1]), int(parts[2])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it is there, and somebody else's
    except OverflowError:
        return True
    return started > 0 and _started(pid) not in {started, None}


def _started(pid: int) -> int | None:
    """Start of a process in clock ticks since boot; None where the system does not say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(stat.rsplit(")", 1)[1].split()[19])  # field 22; the second field may hold spaces


def enter(session: Session, study_id: int, owner: str, now: datetime) -> None:
    """`owner` works on the study from now on; processes that are gone are forgotten."""
    forget_gone(session, study_id, now)
    session.exec(
        delete(StudyRunRow).where(col(StudyRunRow.study_id) == study_id, col(StudyRunRow.owner) == owner)
    )
    session.add(StudyRunRow(study_id=study_id, owner=owner, started_at=now, seen_at=now))


def leave(session: Session, study_id: int, owner: str, now: datetime) -> int:
    """`owner` is done; returns how many other processes still work on the study."""
    session.exec(
        delete(StudyRunRow).where(col(StudyRunRow.study_id) == study_id, col(StudyRunRow.owner) == owner)
    )
    forget_gone(session, study_id, now)
    return len(session.exec(select(StudyRunRow.id).where(StudyRunRow.study_id == study_id)).all())


def forget_gone(session: Session, study_id: int, now: datetime) -> None:
    """Delete the rows of processes that are gone."""
    for row in session.exec(select(StudyRunRow).where(StudyRunRow.study_id == study_id)).all():
        if not _alive(row, now):
            session.delete(row)
    session.flush()


def states(session: Session, rows: Iterable[StudyRow], now: datetime) -> Mapping[int, StudyState]:
    """State of each study, by id: one that is marked as running, but by nobody who is alive, is interrupted."""
    rows = list(rows)
    running = [r.id for r in rows if r.state == StudyState.RUNNING.value and r.id is not None]
    runs: dict[int, list[StudyRunRow]] = {}
    if running:
        for run in session.exec(select(StudyRunRow).where(col(StudyRunRow.study_id).in_(running))).all():
            runs.setdefault(run.study_id, []).append(run)
    found: dict[int, StudyState] = {}
    for row in rows:
        key = row.id or 0
        found[key] = StudyState(row.state)
        if found[key] is not StudyState.RUNNING:
            continue
        mine = runs.get(key, [])
        alive = any(_alive(r, now) for r in mine)
        starting = not mine and now - row.updated_at <= STARTING
        if not alive and not starting:
            found[key] = StudyState.INTERRUPTED
    return found


def _alive(run: StudyRunRow, now: datetime) -> bool:
    if is_gone(run.owner):
        return False
    here = run.owner.split(":", 1)[0] == socket.gethostname()
    return here or now - run.seen_at <= UNSEEN
