"""Runs migrations on the connection that ``lineage.database`` hands over, in its transaction."""

from alembic import context

from kernelsmith.lineage.models import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
context.run_migrations()
