"""Problems, plans, evaluations, studies and trials.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "problems",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_problems"),
        sa.UniqueConstraint("hash", name="uq_problems_hash"),
    )
    op.create_index("ix_problems_name", "problems", ["name"])
    op.create_table(
        "plans",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("model", sa.String, nullable=False),
        sa.Column("problem_id", sa.Integer, nullable=True),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_plans"),
        sa.UniqueConstraint("hash", name="uq_plans_hash"),
        sa.ForeignKeyConstraint(["problem_id"], ["problems.id"], name="fk_plans_problem_id_problems"),
    )
    op.create_index("ix_plans_name", "plans", ["name"])
    op.create_index("ix_plans_model", "plans", ["model"])
    op.create_index("ix_plans_problem_id", "plans", ["problem_id"])
    op.create_table(
        "evaluations",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("spec_hash", sa.String(64), nullable=False),
        sa.Column("plan_id", sa.Integer, nullable=False),
        sa.Column("level", sa.String, nullable=False),
        sa.Column("model_version", sa.String, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_evaluations"),
        sa.UniqueConstraint("spec_hash", name="uq_evaluations_spec_hash"),
        sa.ForeignKeyConstraint(["plan_id"], ["plans.id"], name="fk_evaluations_plan_id_plans"),
    )
    op.create_index("ix_evaluations_plan_id", "evaluations", ["plan_id"])
    op.create_table(
        "studies",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("problem_hash", sa.String(64), nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_studies"),
        sa.UniqueConstraint("name", name="uq_studies_name"),
    )
    op.create_index("ix_studies_problem_hash", "studies", ["problem_hash"])
    op.create_table(
        "trials",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("study_id", sa.Integer, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("spec_hash", sa.String(64), nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("parameters", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=True),
        sa.Column("lease_until", TIME, nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("finished_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_trials"),
        sa.UniqueConstraint("study_id", "number", name="uq_trials_study_id_number"),
        sa.UniqueConstraint("study_id", "spec_hash", name="uq_trials_study_id_spec_hash"),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name="fk_trials_study_id_studies", ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    for table in ("trials", "studies", "evaluations", "plans", "problems"):
        op.drop_table(table)
