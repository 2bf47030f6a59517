"""Errors of the store, and the translation of database errors into them."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from sqlalchemy.exc import SQLAlchemyError

from planner.domain.errors import ExitCode, Issue, PlannerError

DRIVER_ERRORS: Final = (SQLAlchemyError,)  # what databases opened by other libraries raise


class StoreError(PlannerError):
    """The database is missing, unreadable, locked or of another version."""

    exit_code: ClassVar[ExitCode] = ExitCode.MISSING_DATA


class StoreFullError(StoreError):
    """No room is left; everything committed before stays readable."""

    exit_code: ClassVar[ExitCode] = ExitCode.STOPPED_EARLY


# text in the driver's message -> what to say; the drivers have no error numbers in common
_KNOWN: Final[tuple[tuple[tuple[str, ...], Issue], ...]] = (
    (
        ("database or disk is full", "no space left", "could not extend file", "disk i/o error"),
        Issue(
            code="store.full",
            what="",
            why="the disk or the quota is full; everything finished before this is saved",
            fix="free some space, then run the same command again to continue",
        ),
    ),
    (
        ("database is locked", "lock timeout", "deadlock detected"),
        Issue(
            code="store.locked",
            what="",
            why="another process held the database for longer than the wait limit",
            fix="wait for the other process, or give this one its own database with WIDEPLAN_DATABASE_URL",
        ),
    ),
    (
        ("file is not a database", "malformed", "disk image"),
        Issue(
            code="store.corrupt",
            what="",
            why="the file is not a readable SQLite database",
            fix="move the file aside (it is not changed); a new one is created on the next command",
        ),
    ),
    (
        ("readonly database", "unable to open database", "permission denied", "read-only"),
        Issue(
            code="store.unwritable",
            what="",
            why="the file or its folder cannot be opened for writing",
            fix="check its permissions, or point WIDEPLAN_DATABASE_URL or XDG_DATA_HOME to a writable place",
        ),
    ),
    (
        ("connection refused", "could not connect", "connection failed", "server closed", "terminating"),
        Issue(
            code="store.unreachable",
            what="",
            why="the database server does not answer",
            fix="check the host, the port and the server, or unset WIDEPLAN_DATABASE_URL to use the local database",
        ),
    ),
    (
        ("authentication failed", "no password supplied", "does not exist"),
        Issue(
            code="store.refused",
            what="",
            why="the database server refused the user, the password or the database name",
            fix="check user, password and database name in WIDEPLAN_DATABASE_URL",
        ),
    ),
)
_UNKNOWN: Final = Issue(
    code="store.failed",
    what="",
    why="the database reported an error that is not known here",
    fix="run the command again; if it stays, move the database aside and report the message",
)


def translate(error: Exception, shown_url: str) -> StoreError:
    """A StoreError for a database driver's error; `shown_url` has no password."""
    text = str(error)
    lowered = text.lower()
    issue = next((i for needles, i in _KNOWN if any(n in lowered for n in needles)), _UNKNOWN)
    first_line = text.splitlines()[0] if text else type(error).__name__
    cls = StoreFullError if issue.code == "store.full" else StoreError
    return cls(replace(issue, what=f"database {shown_url}: {first_line}"))
