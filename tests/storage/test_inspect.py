"""A look at a database that changes nothing, on both kinds."""

from __future__ import annotations

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.engine import URL

from planner.storage.database import Database
from planner.storage.errors import StoreError
from planner.storage.inspect import inspect_database
from planner.storage.schema import HEAD, REVISIONS, migrate
from planner.storage.store import open_store


def test_absent_old_current_and_newer(any_url: URL) -> None:
    assert inspect_database(any_url).revision is None
    database = Database(any_url)
    with database.connect() as connection:
        migrate(connection, REVISIONS[0])
    old = inspect_database(any_url)
    assert (old.revision, old.current) == (REVISIONS[0], False)
    with database.connect() as connection:
        before = set(inspect(connection).get_table_names())
    with open_store(any_url):
        pass
    now = inspect_database(any_url)
    assert (now.revision, now.current, now.head) == (HEAD, True, HEAD)
    with database.connect() as connection:
        assert set(inspect(connection).get_table_names()) > before  # looking had migrated nothing
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(StoreError) as caught:
        inspect_database(any_url)
    assert caught.value.issues[0].code == "store.newer"


def test_the_password_is_not_shown(postgres_url: URL) -> None:
    shown = inspect_database(postgres_url.set(password="s3cret")).shown
    assert "s3cret" not in shown
    with pytest.raises(StoreError) as caught:
        inspect_database(postgres_url.set(database="not_there", password="s3cret"))
    assert "s3cret" not in str(caught.value)
