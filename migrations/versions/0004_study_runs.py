"""Which processes work on a study, so that one whose process died is not shown as running.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "study_runs",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("study_id", sa.Integer, nullable=False),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("seen_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_study_runs"),
        sa.UniqueConstraint("study_id", "owner", name="uq_study_runs_study_id_owner"),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name="fk_study_runs_study_id_studies", ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    op.drop_table("study_runs")
