"""Connections: where the database is, how it is opened, and one way to read and to write."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from platformdirs import user_data_path
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlmodel import Session

from planner.domain.errors import InputError, Issue, MissingDataError
from planner.storage.errors import StoreError, translate

URL_VARIABLE: Final = "WIDEPLAN_DATABASE_URL"
BUSY_TIMEOUT_S: Final = 30.0
_WRITES: Final = "wideplan_writes"

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The clock used unless another is injected."""
    return datetime.now(UTC)


def database_url(environment: Mapping[str, str] | None = None) -> URL:
    """URL of the database: ``WIDEPLAN_DATABASE_URL``, else SQLite in the XDG data directory.

    Raises InputError for a malformed or unsupported URL, MissingDataError when the PostgreSQL driver is absent.
    """
    text = (os.environ if environment is None else environment).get(URL_VARIABLE)
    if not text:
        return URL.create("sqlite", database=str(user_data_path("wideplan") / "wideplan.db"))
    return parse_url(text)


def parse_url(text: str) -> URL:
    """A checked database URL; see `database_url`."""
    try:
        url = make_url(text)
    except ArgumentError as e:
        raise InputError(_bad_url("it cannot be read as a URL")) from e
    backend = url.get_backend_name()
    if backend == "sqlite":
        return url.set(drivername="sqlite")
    if backend in {"postgresql", "postgres"}:
        if find_spec("psycopg") is None:
            raise MissingDataError(
                Issue(
                    code="store.driver",
                    what="the PostgreSQL driver psycopg is not installed",
                    why=f"{URL_VARIABLE} names a PostgreSQL database",
                    fix='pip install "wideplan[postgres]"',
                )
            )
        return url.set(drivername="postgresql+psycopg")
    raise InputError(_bad_url(f"'{backend}' is not supported"))


def _bad_url(why: str) -> Issue:
    # the value may hold a password and is not repeated
    return Issue(
        code="store.url",
        what=f"{URL_VARIABLE} is not usable",
        why=why,
        fix="use postgresql://user:password@host:5432/database or sqlite:////absolute/path.db",
        where=URL_VARIABLE,
    )


def _not_text(value: str) -> Issue:
    return Issue(
        code="store.text",
        what=ascii(value[:80]),
        why="it holds bytes that are no text in this locale",
        fix="type it again, or set a UTF-8 locale",
    )


class Database:
    """An open database. `read()` and `write()` give sessions; driver errors leave them as StoreError."""

    def __init__(self, url: URL, *, clock: Clock = utc_now) -> None:
        self.url = url
        self.clock = clock
        self.engine = _sqlite_engine(url) if self.is_sqlite else create_engine(url, pool_pre_ping=True)

    @property
    def is_sqlite(self) -> bool:
        """Whether this is a SQLite file."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def shown(self) -> str:
        """The URL, or the path of a SQLite file, without the password."""
        if self.is_sqlite:
            return self.url.database or ":memory:"
        return self.url.render_as_string(hide_password=True)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session for reading; nothing is committed."""
        with self._errors(), Session(self.engine) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session that commits on success and rolls back on any error.

        On SQLite the write lock is taken at the start, so a transaction that reads first cannot fail at its commit.
        """
        with self._errors(), Session(self.engine, expire_on_commit=False) as session:
            session.connection(execution_options={_WRITES: True})
            yield session
            session.commit()

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A writing connection in one transaction, for schema changes."""
        with (
            self._errors(),
            self.engine.connect().execution_options(**{_WRITES: True}) as connection,
            connection.begin(),
        ):
            yield connection

    def close(self) -> None:
        """Give all connections back."""
        self.engine.dispose()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as e:
            raise translate(e.orig if isinstance(e.orig, Exception) else e, self.shown) from e
        except SQLAlchemyError as e:
            raise translate(e, self.shown) from e
        except UnicodeEncodeError as e:
            raise InputError(_not_text(e.object)) from e


def _sqlite_engine(url: URL) -> Engine:
    path = url.database
    if path and path != ":memory:":
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise StoreError(
                Issue(
                    code="store.unwritable",
                    what=f"the folder {Path(path).parent} cannot be created",
                    why=e.strerror or str(e),
                    fix=f"set XDG_DATA_HOME or {URL_VARIABLE} to a writable place",
                )
            ) from e
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # transactions are begun below, not by the driver
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    # NORMAL in WAL: a killed process loses nothing, a power cut at most the last moments, never consistency
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
