"""Schema: created on first use, up and down from every revision, equal to the tables, newer refused."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text
from sqlalchemy.engine import URL

from planner.domain.errors import ExitCode, InputError, MissingDataError
from planner.storage import database as database_module
from planner.storage import schema
from planner.storage.database import Database, database_url, parse_url
from planner.storage.errors import StoreError
from planner.storage.store import open_store
from planner.storage.tables import Base

CHAIN = ("base", *schema.REVISIONS)
TABLES_AT = {"base": 0, "0001": 5, "0002": 8, "0003": 10, "0004": 11}
REPOSITORY = Path(__file__).parents[2]


def tables(database: Database) -> set[str]:
    with database.connect() as connection:
        return set(inspect(connection).get_table_names()) - {"alembic_version"}


def test_revisions_named_in_the_program_are_those_in_the_folder() -> None:
    scripts = ScriptDirectory(str(schema.migrations_folder()))
    assert tuple(s.revision for s in reversed(list(scripts.walk_revisions()))) == schema.REVISIONS


def test_migrated_database_equals_the_tables(any_url: URL) -> None:
    with open_store(any_url) as store, store.database.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


@pytest.mark.parametrize("start", CHAIN)
@pytest.mark.parametrize("end", CHAIN)
def test_upgrade_and_downgrade_between_all_revisions(sqlite_url: URL, start: str, end: str) -> None:
    check_migration(sqlite_url, start, end)


@pytest.mark.parametrize(("start", "end"), list(pairwise(CHAIN)))
def test_each_step_up_and_down_on_postgresql(postgres_url: URL, start: str, end: str) -> None:
    check_migration(postgres_url, start, end)
    check_migration(postgres_url, end, start)


def check_migration(url: URL, start: str, end: str) -> None:
    database = Database(url)
    for revision in (start, end):
        with database.connect() as connection:
            schema.migrate(connection, revision)
        with database.connect() as connection:
            assert (schema.current_revision(connection) or "base") == revision
    reached = tables(database)
    assert len(reached) == TABLES_AT[end], reached
    database.close()


def test_data_of_an_older_schema_survives_the_upgrade(any_url: URL) -> None:
    database = Database(any_url)
    with database.connect() as connection:
        schema.migrate(connection, "0001")
        connection.execute(
            text(
                "INSERT INTO studies (name, problem_hash, state, document, created_at, updated_at) VALUES "
                "('old', 'abc', 'running', :d, '2026-01-01 00:00:00', '2026-01-01 00:00:00')"
            ),
            {
                "d": '{"created_at":null,"level":"simulated","name":"old","objectives":[],"parent":null,'
                '"problem_hash":"abc","sampler":"tpe","seed":1,"settings":{},"state":"running","updated_at":null}'
            },
        )
    database.close()
    with open_store(any_url) as store:
        assert store.studies.get("old").sampler == "tpe"


def test_newer_schema_is_refused_and_left_alone(any_url: URL) -> None:
    with open_store(any_url) as store, store.database.connect() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0099'"))
    with pytest.raises(StoreError) as caught, open_store(any_url):
        pass
    issue = caught.value.issues[0]
    assert issue.code == "store.newer"
    assert "0099" in issue.what
    assert "upgrade wideplan" in issue.fix
    assert caught.value.exit_code is ExitCode.MISSING_DATA
    database = Database(any_url)
    with database.connect() as connection:
        assert schema.current_revision(connection) == "0099"
    database.close()


def test_a_database_of_somebody_else_is_refused(sqlite_url: URL) -> None:
    database = Database(sqlite_url)
    with database.connect() as connection:
        connection.execute(text("CREATE TABLE theirs (id INTEGER)"))
    with pytest.raises(StoreError) as caught, open_store(sqlite_url):
        pass
    assert caught.value.issues[0].code == "store.foreign"
    assert tables(database) == {"theirs"}
    database.close()


def test_two_processes_create_the_database_at_once(any_url: URL) -> None:
    code = (
        "import sys; from planner.storage.database import parse_url; from planner.storage.store import open_store\n"
        "with open_store(parse_url(sys.argv[1])) as s: print(s.measurements.count())"
    )
    command = [sys.executable, "-c", code, any_url.render_as_string(hide_password=False)]
    running = [
        subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    results = [p.communicate(timeout=60) for p in running]
    assert [(p.returncode, out) for p, (out, _) in zip(running, results, strict=True)] == [(0, "0\n")] * 4, (
        results
    )


def test_default_database_is_in_the_xdg_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("WIDEPLAN_DATABASE_URL", raising=False)
    with open_store() as store:
        assert store.database.shown == str(tmp_path / "wideplan" / "wideplan.db")
        with store.database.connect() as connection:
            assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
    assert (tmp_path / "wideplan" / "wideplan.db").is_file()


@pytest.mark.parametrize("value", ["not a url", "mysql://u:secret@h/db", "://"])
def test_unusable_url_is_refused_without_repeating_it(value: str) -> None:
    with pytest.raises(InputError) as caught:
        database_url({"WIDEPLAN_DATABASE_URL": value})
    assert caught.value.issues[0].code == "store.url"
    assert "secret" not in str(caught.value)


def test_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "find_spec", lambda _name: None)
    with pytest.raises(MissingDataError) as caught:
        parse_url("postgresql://u@h/db")
    assert 'pip install "wideplan[postgres]"' in caught.value.issues[0].fix


def test_unreachable_server_is_an_error_without_the_password() -> None:
    url = parse_url("postgresql://u:secret@127.0.0.1:1/db")
    with pytest.raises(StoreError) as caught, open_store(url):
        pass
    assert caught.value.issues[0].code == "store.unreachable"
    assert "secret" not in str(caught.value)


def test_corrupt_file_is_an_error_and_kept(sqlite_url: URL) -> None:
    path = Path(str(sqlite_url.database))
    path.parent.mkdir()
    path.write_bytes(b"this is not a database, it is a text file of some length" * 20)
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught, open_store(sqlite_url):
        pass
    assert caught.value.issues[0].code == "store.corrupt"
    assert path.read_bytes() == before


def test_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with (
        pytest.raises(StoreError) as caught,
        open_store(URL.create("sqlite", database=str(blocker / "x" / "db"))),
    ):
        pass
    assert caught.value.issues[0].code == "store.unwritable"


def test_alembic_from_a_shell_uses_the_same_database(tmp_path: Path) -> None:
    code = (
        "from alembic import command; from alembic.config import Config\n"
        "from planner.storage.schema import migrations_folder\n"
        "c = Config(); c.set_main_option('script_location', str(migrations_folder())); command.upgrade(c, 'head')"
    )
    url = f"sqlite:///{tmp_path}/shell.db"
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY, check=True, env={**os.environ, "WIDEPLAN_DATABASE_URL": url},
    )  # fmt: skip
    database = Database(parse_url(url))
    with database.connect() as connection:
        assert schema.current_revision(connection) == schema.HEAD
    database.close()
