"""Walls around the workers: bubblewrap, or the process itself where that is enough."""
