"""Dumps built by hand for tests: turns in memory and lines in files."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from kernelsmith.onpolicy.audit import Audit, audit
from kernelsmith.onpolicy.model import Header, HeldDump, LogProbs, Turn
from kernelsmith.onpolicy.reading import open_dump
from kernelsmith.onpolicy.storage import from_array

HEADER = {"schema": "kernelsmith.logprobs/1", "dtype": "float32"}


def logprobs(values: Any, dtype: str = "float32") -> LogProbs:
    """Log-probs of numbers in a numpy dtype."""
    return from_array(np.asarray(values, dtype=dtype))


def turn(values: Any, *, sequence: str = "s", dtype: str = "float32", **more: Any) -> Turn:
    """A turn with log-probs, and ids 0, 1, 2 … unless others are given."""
    held = logprobs(values, dtype)
    for name, kind in (("tokens", np.int64), ("mask", np.bool_)):
        if more.get(name) is not None:
            more[name] = np.asarray(more[name], dtype=kind)
    more.setdefault("tokens", np.arange(len(held)))
    return Turn(sequence=sequence, logprobs=held, **more)


def held(*turns: Turn, **header: Any) -> HeldDump:
    """A dump in memory."""
    return HeldDump(header=Header(**header), held=turns)


def beside(sampler: Any, trainer: Any, **more: Any) -> Audit:
    """The audit of one sequence's log-probs."""
    return audit(held(turn(sampler, **more)), held(turn(trainer, **more)))


def lines(path: Path, records: Iterable[dict[str, Any]], header: bool = True) -> Path:
    """A native dump, or plain JSON lines, in a file."""
    rows = [*([HEADER] if header else []), *records]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def record(values: Any, **more: Any) -> dict[str, Any]:
    """One line of a dump: float32 log-probs as the float64 they widen to, ids 0, 1, 2 …."""
    wide = np.asarray(values, dtype=np.float32).astype(float).tolist()
    return {"sequence": "s", "logprobs": wide, "tokens": list(range(len(wide))), **more}


def of_files(sampler: Path, trainer: Path) -> Audit:
    """The audit of two files."""
    return audit(open_dump(sampler, "sampler"), open_dump(trainer, "trainer"))


def kinds(found: Audit) -> set[str]:
    """The kinds of its faults."""
    return {fault.kind for fault in found.faults}


def draw(count: int, seed: int = 0) -> np.ndarray:
    """Log-probs as models have them, float32."""
    return -np.random.default_rng(seed).exponential(1.0, count).astype(np.float32)


def changed(values: np.ndarray, at: int, change: Callable[[np.float32], Any]) -> np.ndarray:
    """A copy with one value changed."""
    copy = values.copy()
    copy[at] = change(copy[at])
    return copy


def next_up(value: np.float32) -> np.float32:
    """One ulp towards zero."""
    return np.nextafter(value, np.float32(0.0))
