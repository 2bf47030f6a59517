"""Stores on SQLite and on a real PostgreSQL server that the tests start themselves."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL

from planner.storage.database import parse_url
from planner.storage.store import Store, open_store

START = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)


@dataclass
class StepClock:
    """A clock the test sets; every reading is one second later."""

    now: datetime = field(default=START)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def _postgres_bin() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    if found:
        return found[0].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _as_server_user(folder: Path) -> list[str]:
    """PostgreSQL refuses to run as root; use the package's own user when the tests are root."""
    if os.geteuid() != 0:
        return []
    shutil.chown(folder, "postgres", "postgres")
    return [shutil.which("runuser") or "runuser", "-u", "postgres", "--"]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL prefix of a running server, without a database name."""
    binaries = _postgres_bin()
    if binaries is None:
        pytest.skip("PostgreSQL binaries (initdb) are not installed")
    if os.geteuid() == 0 and not _has_user("postgres"):
        pytest.skip("PostgreSQL does not run as root, and there is no user 'postgres' to run it as")
    # not under tmp_path: the full name of a socket is limited to about 100 bytes
    folder = Path(tempfile.mkdtemp(prefix="wpg"))
    prefix = _as_server_user(folder)
    data = folder / "data"
    try:
        subprocess.run(
            [*prefix, str(binaries / "initdb"), "-D", str(data), "-U", "wideplan", "-A", "trust", "--no-sync"],
            check=True, capture_output=True, cwd=folder,
        )  # fmt: skip
        options = (
            f"-k {folder} -c listen_addresses= -c fsync=off -c shared_buffers=16MB -c max_connections=20"
        )
        control = [*prefix, str(binaries / "pg_ctl"), "-D", str(data)]
        subprocess.run(
            [*control, "-l", str(folder / "log"), "-o", options, "-w", "start"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder,
        )  # fmt: skip
        try:
            yield f"postgresql://wideplan@/{{database}}?host={folder}"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=True, capture_output=True, cwd=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: str, request: pytest.FixtureRequest) -> Iterator[URL]:
    """A fresh, empty database on the server."""
    name = f"t{abs(hash(request.node.nodeid)):x}"
    admin = create_engine(
        parse_url(postgres_server.format(database="postgres")), isolation_level="AUTOCOMMIT"
    )
    with admin.connect() as connection:
        connection.execute(text(f'CREATE DATABASE "{name}"'))
    yield parse_url(postgres_server.format(database=name))
    with admin.connect() as connection:
        connection.execute(text(f'DROP DATABASE "{name}" WITH (FORCE)'))
    admin.dispose()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> URL:
    """A SQLite file that does not exist yet, in a folder that does not exist yet."""
    return URL.create("sqlite", database=str(tmp_path / "data" / "wideplan.db"))


@pytest.fixture(params=["sqlite", "postgresql"])
def any_url(request: pytest.FixtureRequest) -> URL:
    """Both databases in turn."""
    url: URL = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture
def clock() -> StepClock:
    return StepClock()


@pytest.fixture
def store(any_url: URL, clock: StepClock) -> Iterator[Store]:
    with ExitStack() as stack:
        yield stack.enter_context(open_store(any_url, clock=clock))


@pytest.fixture
def sqlite_store(sqlite_url: URL, clock: StepClock) -> Iterator[Store]:
    with open_store(sqlite_url, clock=clock) as opened:
        yield opened
