"""The lineage: what was proposed, judged and measured, in one SQLite file.

Nothing outside this package imports sqlalchemy; this module itself imports nothing heavy.
"""
