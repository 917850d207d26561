"""All that runs inside the wall: front end, launcher, timing sessions. Started by ``python -m``."""
