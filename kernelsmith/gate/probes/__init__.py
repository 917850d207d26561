"""What the gate must reject before it is believed: cheats and mutants made from a task's seed."""
