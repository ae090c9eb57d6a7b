"""What Alembic runs: the connection is given by `app.memory.sql.schema`."""

from alembic import context

from app.memory.sql.tables import metadata

if hasattr(context, "config"):  # and not only imported, as every module can be
    context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()
