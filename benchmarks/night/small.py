"""A task that takes a second to judge: a kernel that is slow on purpose, and candidates of it whose
verdicts no noise of a clock can change."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.model import Candidate, Task, new_candidate, seed_candidate
from kernelsmith.ports import Judged

NAME = "slow_scale"
FINAL_SESSIONS = 14
"""Enough for the rule even after several final timings were cut short."""
SEED = '''\
"""Rows times a weight, one element a turn."""

import torch
import triton
import triton.language as tl


@triton.jit
def _rows(x_ptr, w_ptr, y_ptr, x_stride, y_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_stride + cols, mask=cols < n_cols).to(tl.float32)
        w = tl.load(w_ptr + cols, mask=cols < n_cols).to(tl.float32)
        y = x * w
        tl.store(y_ptr + row * y_stride + cols, y.to(y_ptr.dtype.element_ty), mask=cols < n_cols)


def forward(x, weight):
    """Scales."""
    y = x.new_empty((x.shape[0], x.shape[1]))
    _rows[(x.shape[0],)](x, weight, y, x.stride(0), y.stride(0), x.shape[1], BLOCK=1)
    return (y,)
'''
TASK = """\
name = "slow_scale"
summary = "Rows times a weight, one element a turn"
seed = "slow_scale.py"
entries = ["forward"]
token_dim = "M"
reductions = []

[limits]
min_gain = 0.01
max_regress = 0.03

[[calls]]
name = "train"
variant = "plain"
entry = "forward"
path = "train"
args = [
  { name = "x", kind = "tensor", shape = ["M", "N"], dtype = "T", recipe = "token" },
  { name = "weight", kind = "tensor", shape = ["N"], dtype = "T", recipe = "vector" },
]
outputs = [{ name = "y", class = "row", shape = ["M", "N"], dtype = "T" }]

[[calls]]
name = "infer"
variant = "plain"
entry = "forward"
path = "infer"
args = [
  { name = "x", kind = "tensor", shape = ["M", "N"], dtype = "T", recipe = "token" },
  { name = "weight", kind = "tensor", shape = ["N"], dtype = "T", recipe = "vector" },
]
outputs = [{ name = "y", class = "row", shape = ["M", "N"], dtype = "T" }]

[devices.cpu]
num_programs = 2
token_range = [0, 64]
ranges = { N = [128] }

[[devices.cpu.cases]]
calls = ["train", "infer"]
dtypes = ["float32"]
dims = { M = [0, 1, 7], N = 128 }
regimes = ["normal"]
role = "few rows"

[[devices.cpu.cases]]
calls = ["infer"]
dtypes = ["float32"]
dims = { M = 64, N = 128 }
regimes = ["normal"]
weight = 1.0
role = "what is timed"
"""
TURN = "BLOCK=1)"
EDITS: tuple[tuple[str, str, str, str], ...] = (
    ("POLICY", "reads the clock", "import torch\n", "import torch\nimport time\n"),
    ("BITS_DIFFER", "another factor", "y = x * w\n", "y = x * w * 1.5\n"),
    ("ACCEPTED", "128 elements a turn", TURN, "BLOCK=128)"),
    ("TRACE", "an output too many", "return (y,)", "return (y, y)"),
    ("DUPLICATE", "128 elements a turn, in other words", TURN, "BLOCK=128)  # faster"),
    ("NOT_FASTER", "two elements a turn", TURN, "BLOCK=2)"),
    ("BITS_DIFFER", "without the weight", "y = x * w\n", "y = x\n"),
)
"""Status, what is changed, from, to: of the seed, in the order they are proposed."""


def write(folder: Path) -> None:
    """The task's two files, for ``--tasks``."""
    folder.mkdir(exist_ok=True)
    (folder / f"{NAME}.toml").write_text(TASK)
    (folder / f"{NAME}.py").write_text(SEED)


def proposal(number: int) -> tuple[str, str] | None:
    """What is proposed after so many, and what it is; None: there is no more."""
    if number >= len(EDITS):
        return None
    _, what, old, new = EDITS[number]
    return edited(SEED, old, new), what


def edited(text: str, old: str, new: str) -> str:
    """A seed with one place changed.

    Raises:
        ValueError: there is no such place, or more than one.
    """
    if text.count(old) != 1:
        raise ValueError(f"{old!r} stands {text.count(old)} times in the seed")
    return text.replace(old, new)


@dataclass(frozen=True, slots=True)
class Listed:
    """A :class:`kernelsmith.ports.Proposer` that is a function of the history's length alone."""

    nth: Callable[[int], tuple[str, str] | None]
    name: str = "search"

    def choose(self, histories: Mapping[str, Sequence[Judged]], wait_s: float) -> str | None:
        return next(iter(histories), None)

    def propose(self, task: Task, history: Sequence[Judged]) -> Candidate | None:
        found = self.nth(len(history))
        if found is None:
            return None
        source, note = found
        parents = (seed_candidate(task).id,)
        return new_candidate(source, task.name, author="search", parents=parents, note=note)

    def standing(self) -> str:
        return ""

    def close(self, histories: Mapping[str, Sequence[Judged]] | None = None) -> None:
        return None
