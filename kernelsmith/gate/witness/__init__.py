"""The second witness: what the IR of seed and candidate says, read without running any of it."""
