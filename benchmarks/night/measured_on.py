"""What a figure of the night was measured on."""

import os
import platform
from typing import Any

from kernelsmith.wiring import versions


def machine(load_1m_before: float) -> dict[str, Any]:
    """The machine and what is installed on it. ``load_1m_before``: its load before the
    measurement."""
    return {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_1m_before": round(load_1m_before, 2),
        "versions": versions(),
    }
