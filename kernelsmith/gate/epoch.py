"""The numerics epoch: what must be equal for bits to be equal."""

import hashlib
import json
from typing import Any

from kernelsmith.model import Task


def epoch(task: Task, device: dict[str, Any]) -> str:
    """A name of 16 hex digits for seed, device, compiler and flags together.

    Args:
        device: what ``Device.describe`` says; JSON-able.
    """
    facts = {
        "seed": hashlib.sha256(task.seed_source.encode()).hexdigest(),
        "device": device,
    }
    text = json.dumps(facts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
