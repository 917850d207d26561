"""Revisions, numbered; ``models.HEAD_REVISION`` names the last."""
