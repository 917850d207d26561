"""Lets tests import ``tests.loop.fakes`` and ``benchmarks/night`` however pytest was started."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for place in (ROOT, ROOT / "benchmarks" / "night"):
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))
