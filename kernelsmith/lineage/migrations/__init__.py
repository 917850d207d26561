"""Alembic migrations of the lineage, shipped in the package."""
