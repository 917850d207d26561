"""What a run tells to the outside: a structured log, metrics, a summary at its end."""
