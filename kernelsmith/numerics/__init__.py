"""Pure functions: bits, input recipes, statistics."""
