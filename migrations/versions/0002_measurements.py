"""Measurements with their raw files, and calibrations.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "raw_files",
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("format", sa.String, nullable=False),
        sa.Column("size_bytes", sa.Integer, nullable=False),
        sa.Column("compressed", sa.LargeBinary, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_raw_files"),
    )
    op.create_table(
        "measurements",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("model", sa.String, nullable=False),
        sa.Column("gpu", sa.String, nullable=False),
        sa.Column("engine", sa.String, nullable=False),
        sa.Column("engine_version", sa.String, nullable=False),
        sa.Column("raw_hash", sa.String(64), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_measurements"),
        sa.UniqueConstraint("hash", name="uq_measurements_hash"),
        sa.ForeignKeyConstraint(["raw_hash"], ["raw_files.hash"], name="fk_measurements_raw_hash_raw_files"),
    )
    op.create_index("ix_measurements_model", "measurements", ["model"])
    op.create_index("ix_measurements_raw_hash", "measurements", ["raw_hash"])
    op.create_table(
        "calibrations",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("scope_hash", sa.String(64), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_calibrations"),
        sa.UniqueConstraint("hash", name="uq_calibrations_hash"),
    )
    op.create_index("ix_calibrations_scope_hash", "calibrations", ["scope_hash"])


def downgrade() -> None:
    for table in ("calibrations", "measurements", "raw_files"):
        op.drop_table(table)
