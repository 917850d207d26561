"""The engine of planted bugs: one spot, valid Python, no two alike, the same for the same seed."""

import ast
import difflib

import pytest

from kernelsmith import catalog
from kernelsmith.gate import policy
from kernelsmith.gate.probes import engine
from kernelsmith.gate.probes.spot import KINDS, functions, line_starts, replaced, span

TASKS = ("rms_norm", "linear", "swiglu", "logprob")

SMALL = """
import torch
import triton
import triton.language as tl

from kernelsmith.lang import tree_sum


@triton.jit
def _k(x_ptr, y_ptr, x_stride, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = (cols < n_cols) & (row < 9)
        x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)  # é
        acc += x * x
    tl.store(y_ptr + row, tl.div_rn(1.0, tl.sqrt_rn(tree_sum(acc) + eps)))


def forward(x, eps):
    n_rows = x.shape[0]
    y = x.new_empty((n_rows,), dtype=torch.float32)
    _k[(n_rows,)](x, y, x.stride(0), x.shape[1], eps, BLOCK=1024, num_warps=4)
    return (y,)
"""


def changed_lines(parent: str, mutant: str) -> tuple[list[str], list[str]]:
    """(lines that went, lines that came), which must lie together."""
    a, b = parent.splitlines(), mutant.splitlines()
    blocks = [
        x for x in difflib.SequenceMatcher(None, a, b, False).get_opcodes() if x[0] != "equal"
    ]
    begin, end = min(x[1] for x in blocks), max(x[2] for x in blocks)
    return a[begin:end], b[min(x[3] for x in blocks) : max(x[4] for x in blocks)]


@pytest.mark.parametrize("name", TASKS)
def test_each_operator_changes_exactly_one_spot_and_leaves_python(name: str) -> None:
    source = catalog.load_task(name, "cpu").seed_source
    data = source.encode()
    by_operator = {
        spot.operator: spot
        for function in functions(source)
        for operator in engine.OPERATORS
        for spot in operator(function)
    }
    assert len(by_operator) > 40
    for name, spot in by_operator.items():
        changed = replaced(source, spot).encode()
        begin, end = span(line_starts(data), spot.node)
        tail = len(data) - end
        assert changed[:begin] == data[:begin], name
        assert changed[len(changed) - tail :] == data[end:], name
        assert changed[begin : len(changed) - tail].decode() == spot.new
        ast.parse(changed)


def test_operators_find_what_they_are_for() -> None:
    found: dict[str, str] = {}
    for each in engine.planted(SMALL):
        found[each.operator] = found.get(each.operator, "") + each.source
    for operator, text in {
        "tl.sum for tree_sum": "tl.sum(acc, axis=-1) + eps",
        "lanes folded in halves": "tree_sum(tl.sum(tl.reshape(acc, (2, BLOCK // 2)), axis=0))",
        "blocks in descending order": "range(tl.cdiv(n_cols, BLOCK) * BLOCK - BLOCK, -1, -BLOCK)",
        "contracted": "acc = tl.fma(x, x, acc)",
        "sum held in bfloat16": "acc = (acc + (x * x)).to(tl.bfloat16).to(tl.float32)",
        "rsqrt for root and division": "tl.rsqrt(tree_sum(acc) + eps)",
        "epsilon left out": "tl.sqrt_rn(tree_sum(acc))",
        "one element too many": "cols <= n_cols",
        "no mask": "tl.load(x_ptr + row * x_stride + cols).to(tl.float32)  # é",
        "row one late": "(row + 1) * x_stride",
        "offsets of 32 bits": "row = tl.program_id(0)\n",
        "loop a turn short": "range(0, n_cols - BLOCK, BLOCK)",
        "first program twice": "tl.maximum(tl.program_id(0) - 1, 0)",
        "grid short by one": "_k[(max(n_rows - 1, 0),)]",
        "columns for the stride": "x, y, x.shape[1], x.shape[1]",
        "output of another dtype": "y = x.new_empty((n_rows,))\n",
        "BLOCK halved": "BLOCK=512",
        "another BLOCK unless rows divide by 16": "BLOCK=(1024 if n_rows % 16 == 0 else 512)",
        "small start": "acc = (tl.zeros((BLOCK,), dtype=tl.float32) + 1e-30)",
    }.items():
        assert text in found[operator], operator


def test_a_mutant_names_its_spot_and_differs_in_one_place_only() -> None:
    pool = engine.planted(SMALL)
    assert len({each.source for each in pool}) == len(pool) > 60
    assert {each.kind for each in pool} == set(KINDS)
    for each in pool:
        assert each.source != SMALL
        gone, come = changed_lines(SMALL, each.source)
        assert len(gone) == len(come) == 1, each.name
        assert SMALL.splitlines()[each.line - 1] == gone[0]
        assert each.name.startswith(f"line {each.line}: ")


@pytest.mark.parametrize("name", TASKS)
def test_a_draw_is_spread_over_kinds_within_the_language_and_fixed_by_its_seed(name: str) -> None:
    task = catalog.load_task(name, "cpu")
    pool = engine.planted(task.seed_source)
    first = engine.draw(pool, task.entries, "a", 4)
    assert first == engine.draw(pool, task.entries, "a", 4)
    assert first != engine.draw(pool, task.entries, "b", 4)
    assert len({each.source for each in first}) == len(first)
    kinds = {each.kind for each in pool}
    assert all(sum(each.kind == kind for each in first) == 4 for kind in kinds)
    assert not [each for each in first if policy.check(each.source, task.entries)]
    assert len({each.operator for each in first if each.kind == "mask"}) == 4


def test_more_than_there_is_gives_what_there_is() -> None:
    pool = engine.planted(SMALL)
    within = [each for each in pool if engine.within(each, ("forward",))]
    drawn = engine.draw(pool, ("forward",), "a", 10_000)
    assert sorted(each.source for each in drawn) == sorted(each.source for each in within)
