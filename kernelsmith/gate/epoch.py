"""The numerics epoch: what must be equal for bits to be equal."""

import hashlib
import json
from importlib import metadata
from pathlib import Path
from typing import Any

from kernelsmith.errors import MissingError
from kernelsmith.model import Task

LANG = Path(__file__).parent.parent / "lang.py"


def epoch(task: Task, device: dict[str, Any]) -> str:
    """A name of 16 hex digits for seed, vetted functions, Triton, device, compiler and flags.

    Triton belongs to it on every device: it decides the text that a device compiles.

    Args:
        device: what ``Device.describe`` says; JSON-able.

    Raises:
        MissingError: Triton is not installed.
    """
    try:
        triton = metadata.version("triton")
    except metadata.PackageNotFoundError:
        raise MissingError("triton is not installed", hint="pip install triton") from None
    return epoch_of(task.seed_source, LANG.read_bytes(), triton, device)


def epoch_of(seed_source: str, lang: bytes, triton: str, device: dict[str, Any]) -> str:
    """The name that these facts give, wherever they were written down."""
    facts = {
        "seed": hashlib.sha256(seed_source.encode()).hexdigest(),
        "lang": hashlib.sha256(lang).hexdigest(),
        "triton": triton,
        "device": device,
    }
    text = json.dumps(facts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
