"""An endless stream of candidates of one small task: what is accepted, what checks reject, what
hangs, what repeats itself, what kills its worker."""

from pathlib import Path

import small
from killing import DEADLY
from small import edited

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


def proposal(number: int) -> tuple[str, str]:
    """What is proposed after so many, and what it is."""
    return source(number), KINDS[number % len(KINDS)]


def source(number: int) -> str:
    """The candidate of this number; each is another program, but for those said before."""
    kind, round_number = KINDS[number % len(KINDS)], number // len(KINDS)
    text = SEED
    if kind == "faster":
        before = round_number * KINDS.count("faster") + KINDS[: number % len(KINDS)].count("faster")
        return edited(text, f"{TURNS},", f"{max(2, int(TURNS * FASTER ** (before + 1)))},")
    if kind == "said before":
        return source(number - KINDS.index("said before"))
    unique = f"y = x * w * {number + 2}.0\n"
    match kind:
        case "another factor":
            return edited(text, WORK, unique)
        case "reads the clock":
            return edited(text, "import torch\n", f"import torch\nimport time as time{number}\n")
        case "as slow as the seed":
            return edited(text, f"{TURNS},", f"{TURNS + number},")
        case "kills its worker":
            return edited(text, WORK, unique).replace("_rows", f"{DEADLY}{number}")
        case "a kernel that never ends":
            return edited(text, WORK, ENDLESS.format(number=number))
        case "an output too many":
            return edited(edited(text, "return (y,)", "return (y, y)"), WORK, unique)
        case "one element too far":
            longer = edited(text, "BLOCK=128", "BLOCK=256").replace("< n_cols", "<= n_cols")
            return edited(longer, f"{TURNS},", f"{TURNS + number},")
        case "host code that never ends":
            loop = f"    turns = {number}\n    for turn in range(10000000000):\n"
            return edited(text, OUT, f"{loop}        turns = turn\n{OUT}")
        case "without the weight":
            return edited(text, WORK, f"y = x + {number}.0\n")
    return edited(text, WORK, UNROLLED.format(turns=3000, number=number))
