"""A look at the database that changes nothing: is it there, readable, writable, and of which schema."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy.engine import URL

from planner.domain.errors import Issue
from planner.storage.database import URL_VARIABLE, Database, database_url
from planner.storage.errors import StoreError, translate
from planner.storage.schema import HEAD, REVISIONS, current_revision, foreign, newer

_WAIT_S: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseState:
    """Where the database is and its schema; `revision` None = not there yet, or empty."""

    shown: str
    revision: str | None
    head: str = HEAD
    size_bytes: int = 0  # of a SQLite file

    @property
    def current(self) -> bool:
        """Whether it has this program's schema."""
        return self.revision == self.head


def inspect_database(url: URL | None = None) -> DatabaseState:
    """Look at `url` (default: `database_url()`); a missing SQLite file is not created, nothing is migrated.

    Raises StoreError ``store.newer``, ``store.foreign``, ``store.corrupt``, ``store.unwritable``, ``store.locked``,
    ``store.unreachable``, ``store.refused``; InputError and MissingDataError as `database_url`.
    """
    target = url if url is not None else database_url()
    if target.get_backend_name() == "sqlite":
        return _sqlite(target)
    database = Database(target.update_query_dict({"connect_timeout": str(_WAIT_S)}))
    try:
        with database.read() as session:
            revision = current_revision(session.connection())
    finally:
        database.close()
    if revision is not None and revision not in REVISIONS:
        raise newer(target.render_as_string(hide_password=True), revision)
    return DatabaseState(shown=target.render_as_string(hide_password=True), revision=revision)


def _sqlite(url: URL) -> DatabaseState:
    path = Path(url.database or ":memory:")
    if not path.is_file():
        _require_creatable(path)
        return DatabaseState(shown=str(path), revision=None)
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise translate(PermissionError("permission denied"), str(path))
    try:
        with closing(sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")  # the write lock, given back unused
            tables = {
                name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            }
            row = (
                connection.execute("SELECT version_num FROM alembic_version").fetchone()
                if "alembic_version" in tables
                else None
            )
            connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise translate(error, str(path)) from None
    revision = None if row is None else str(row[0])
    if revision is not None and revision not in REVISIONS:
        raise newer(str(path), revision)
    if revision is None and tables:
        raise foreign(str(path))
    return DatabaseState(shown=str(path), revision=revision, size_bytes=path.stat().st_size)


def _require_creatable(path: Path) -> None:
    """Raise StoreError ``store.unwritable`` unless the nearest folder that exists may be written."""
    folder = next((p for p in path.parents if p.exists()), Path("/"))
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK) and not path.exists():
        return
    raise StoreError(
        Issue(
            code="store.unwritable",
            what=f"{path} cannot be created",
            why=f"{folder} is not a folder that may be written" if not path.exists() else "it is not a file",
            fix=f"set XDG_DATA_HOME or {URL_VARIABLE} to a writable place",
        )
    )
