"""Subjects of people at an OpenID provider, and an index with all that lists of items are made by."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Change the schema."""
    op.add_column("accounts", sa.Column("subject", sa.String(), nullable=True))
    op.create_index("ix_accounts_subject", "accounts", ["subject"], unique=True)
    op.drop_index("items_by_uses", "items")
    columns = ["is_withdrawn", "visibility", "latest", "owner", "name", "uses", "type", "id"]
    op.create_index("items_in_lists", "items", columns)
