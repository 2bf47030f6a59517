"""Alembic environment: runs inside the transaction the program passes in, or on WIDEPLAN_DATABASE_URL from a shell."""

from alembic import context
from sqlalchemy import Connection

from planner.storage.database import Database, database_url
from planner.storage.tables import Base


def run(connection: Connection) -> None:
    """Run the requested migrations on an open transaction."""
    # batch: SQLite rebuilds a table where other databases alter it
    context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
    context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    with Database(database_url()).connect() as own:
        run(own)
