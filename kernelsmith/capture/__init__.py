"""The capture proxy: every exchange with a model server, byte for byte, on record."""
