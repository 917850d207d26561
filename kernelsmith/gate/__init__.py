"""The gate: what decides whether a rewrite kept every bit and is faster."""
