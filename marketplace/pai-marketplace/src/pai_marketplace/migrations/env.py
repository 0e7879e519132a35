"""Alembic's environment: migrations run in the connection that `pai_marketplace.database` has opened."""

from alembic import context

from pai_marketplace.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
