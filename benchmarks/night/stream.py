"""An endless stream of candidates of one small task: what is accepted, what checks reject, what
hangs, what repeats itself, what kills its worker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import small
from killing import DEADLY

from kernelsmith.model import Candidate, Task, new_candidate, seed_candidate
from kernelsmith.ports import Judged

NAME = "slow_turns"
TURNS = 400
FASTER = 0.92
"""Of its turns the next faster proposal makes so many."""
SEED = f'''\
"""Rows times a weight, stored again and again."""

import torch
import triton
import triton.language as tl


@triton.jit
def _rows(x_ptr, w_ptr, y_ptr, x_stride, y_stride, n_cols, turns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_stride + cols, mask=cols < n_cols).to(tl.float32)
        w = tl.load(w_ptr + cols, mask=cols < n_cols).to(tl.float32)
        y = x * w
        out = y_ptr + row * y_stride + cols
        tl.store(out, y.to(y_ptr.dtype.element_ty), mask=cols < n_cols)
        for turn in range(turns):
            seen = tl.load(out, mask=cols < n_cols).to(tl.float32)
            tl.store(out, tl.maximum(seen, y).to(y_ptr.dtype.element_ty), mask=cols < n_cols)


def forward(x, weight):
    """Scales."""
    y = x.new_empty((x.shape[0], x.shape[1]))
    _rows[(x.shape[0],)](
        x, weight, y, x.stride(0), y.stride(0), x.shape[1], {TURNS}, BLOCK=128
    )
    return (y,)
'''
WORK = "y = x * w\n"
OUT = "    y = x.new_empty((x.shape[0], x.shape[1]))\n"
ENDLESS = """y = x * w
        again = w + {number}.0
        while tl.max(again, axis=0) * 0.0 == 0.0:
            again = again * 1.0 + 0.0
        y = y + again * 0.0
"""
UNROLLED = """y = x * w
        for more in tl.static_range({turns}):
            y = y + x * (w + more)
            y = y - x * (w + more)
        y = y + {number}.0
"""
KINDS = (
    "another factor",
    "faster",
    "reads the clock",
    "as slow as the seed",
    "kills its worker",
    "faster",
    "a kernel that never ends",
    "an output too many",
    "one element too far",
    "faster",
    "host code that never ends",
    "said before",
    "without the weight",
    "faster",
    "a text that takes for ever to compile",
    "as slow as the seed",
)
"""What is proposed, in turn."""


def write(folder: Path) -> None:
    """The task's two files, for ``--tasks``."""
    folder.mkdir(exist_ok=True)
    (folder / f"{NAME}.toml").write_text(
        small.TASK.replace(small.NAME, NAME).replace("one element a turn", "again and again")
    )
    (folder / f"{NAME}.py").write_text(SEED)


def source(number: int) -> str:
    """The candidate of this number; each is another program, but for those said before."""
    kind, round_number = KINDS[number % len(KINDS)], number // len(KINDS)
    text = SEED
    if kind == "faster":
        before = round_number * KINDS.count("faster") + KINDS[: number % len(KINDS)].count("faster")
        return _edit(text, f"{TURNS},", f"{max(2, int(TURNS * FASTER ** (before + 1)))},")
    if kind == "said before":
        return source(number - KINDS.index("said before"))
    unique = f"y = x * w * {number + 2}.0\n"
    match kind:
        case "another factor":
            return _edit(text, WORK, unique)
        case "reads the clock":
            return _edit(text, "import torch\n", f"import torch\nimport time as time{number}\n")
        case "as slow as the seed":
            return _edit(text, f"{TURNS},", f"{TURNS + number},")
        case "kills its worker":
            return _edit(text, WORK, unique).replace("_rows", f"{DEADLY}{number}")
        case "a kernel that never ends":
            return _edit(text, WORK, ENDLESS.format(number=number))
        case "an output too many":
            return _edit(_edit(text, "return (y,)", "return (y, y)"), WORK, unique)
        case "one element too far":
            longer = _edit(text, "BLOCK=128", "BLOCK=256").replace("< n_cols", "<= n_cols")
            return _edit(longer, f"{TURNS},", f"{TURNS + number},")
        case "host code that never ends":
            loop = f"    turns = {number}\n    for turn in range(10000000000):\n"
            return _edit(text, OUT, f"{loop}        turns = turn\n{OUT}")
        case "without the weight":
            return _edit(text, WORK, f"y = x + {number}.0\n")
    return _edit(text, WORK, UNROLLED.format(turns=3000, number=number))


def _edit(text: str, old: str, new: str) -> str:
    if text.count(old) != 1:
        raise ValueError(f"{old!r} stands {text.count(old)} times in the seed")
    return text.replace(old, new)


@dataclass(frozen=True, slots=True)
class Stream:
    """A :class:`kernelsmith.ports.Proposer`: the stream, by the history alone."""

    name: str = "search"

    def choose(self, histories: Mapping[str, Sequence[Judged]], wait_s: float) -> str | None:
        return next(iter(histories), None)

    def propose(self, task: Task, history: Sequence[Judged]) -> Candidate | None:
        number = len(history)
        parents = (seed_candidate(task).id,)
        note = KINDS[number % len(KINDS)]
        return new_candidate(source(number), task.name, author="search", parents=parents, note=note)

    def standing(self) -> str:
        return ""

    def close(self, histories: Mapping[str, Sequence[Judged]] | None = None) -> None:
        return None
