"""Schema versions: created and migrated on first use; a database newer than the program is refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, inspect, text

from planner.domain.errors import Issue
from planner.storage.errors import StoreError

if TYPE_CHECKING:
    from alembic.config import Config

    from planner.storage.database import Database

REVISIONS: Final = ("0001", "0002", "0003", "0004")  # oldest first; a test compares them with migrations/
HEAD: Final = REVISIONS[-1]
_ADVISORY_LOCK: Final = 7_741_318_022_001  # any fixed number: one schema change at a time on PostgreSQL


def migrations_folder() -> Path:
    """Folder of the Alembic scripts: inside the wheel, or at the top of a checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_data" / "migrations", package.parent / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise StoreError(
        Issue(
            code="store.migrations",
            what="the migrations folder is missing",
            why="it ships inside the package and is needed to create the database",
            fix="reinstall wideplan",
        )
    )


def current_revision(connection: Connection) -> str | None:
    """Revision the database is at; None when it is empty."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    row = connection.execute(text("SELECT version_num FROM alembic_version")).first()
    return str(row[0]) if row else None


def ensure_schema(database: Database) -> None:
    """Bring the database to this program's schema; StoreError when it is newer or not ours."""
    with database.read() as session:
        if current_revision(session.connection()) == HEAD:
            return
    with database.connect() as connection:
        if not database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:k)"), {"k": _ADVISORY_LOCK})
        revision = current_revision(connection)  # again, now that nobody else can change it
        if revision == HEAD:
            return
        if revision is not None and revision not in REVISIONS:
            raise newer(database.shown, revision)
        if revision is None and inspect(connection).get_table_names():
            raise foreign(database.shown)
        migrate(connection, HEAD)


def migrate(connection: Connection, revision: str) -> None:
    """Upgrade or downgrade to `revision` (``base`` = empty) inside the caller's transaction."""
    from alembic import command

    config = _config(connection)
    current = current_revision(connection)
    position = {r: i for i, r in enumerate(("base", *REVISIONS))}
    if position[revision] >= position[current or "base"]:
        command.upgrade(config, revision)
    else:
        command.downgrade(config, revision)


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def newer(shown: str, revision: str) -> StoreError:
    """The error for database `shown` whose `revision` this program does not know."""
    return StoreError(
        Issue(
            code="store.newer",
            what=f"database {shown} has schema {revision}",
            why=f"this program knows schemas up to {HEAD}; a newer wideplan has migrated the database",
            fix="upgrade wideplan, or use another database with WIDEPLAN_DATABASE_URL; nothing was changed",
        )
    )


def foreign(shown: str) -> StoreError:
    """The error for database `shown` that holds tables of something else."""
    return StoreError(
        Issue(
            code="store.foreign",
            what=f"database {shown} holds tables that are not wideplan's",
            why="it has tables but no schema version",
            fix="give wideplan a database of its own with WIDEPLAN_DATABASE_URL; nothing was changed",
        )
    )
