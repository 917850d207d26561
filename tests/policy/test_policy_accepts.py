"""What candidates write is accepted: the shipped seeds and programs in the field's style."""

import ast
from pathlib import Path

import pytest

from kernelsmith.gate.policy import check
from kernelsmith.gate.policy_module import lang_functions

ROOT = Path(__file__).parents[2]
SEEDS = sorted((ROOT / "seed_kernels").glob("*.py"))

HEAD = "import torch\nimport triton\nimport triton.language as tl\n"

PERSISTENT = '''\
"""A persistent matrix product with buckets of M."""
import torch
import triton
import triton.language as tl
from kernelsmith.lang import tree_sum

TABLE = ((16, 64), (128, 128))
EPS = tl.constexpr(-1e-6)
WIDE: tl.constexpr = 128


@triton.jit
def _larger(a, b):
    """The larger of two."""
    return tl.where(a > b, a, b)


@triton.jit(do_not_specialize=["m_size"], noinline=False)
def _kernel(
    x_ptr, w_ptr, y_ptr, m_size, k_size, BLOCK: tl.constexpr, PRECISION: tl.constexpr = None
):
    tl.static_assert(BLOCK % 16 == 0, "a block of sixteens")
    acc = tl.zeros([BLOCK, BLOCK], dtype=tl.float32) - float("inf")
    step: tl.constexpr = BLOCK // 2
    for tile in tl.range(tl.program_id(0), m_size, tl.num_programs(0), num_stages=2):
        rows = tl.max_contiguous(tl.multiple_of(tile * BLOCK + tl.arange(0, BLOCK), 16), 16)
        a = tl.load(x_ptr + rows[:, None] * k_size, mask=rows[:, None] < m_size, other=0.0)
        b = tl.load(w_ptr + rows[None, :], eviction_policy="evict_last")
        acc = tl.dot(a, tl.trans(b), acc, input_precision=PRECISION)
        for k in tl.static_range(0, step, 2):
            acc = tl.fma(a, b, acc)
        if PRECISION == "ieee":
            acc += tl.reduce(acc, 1, _larger)[:, None]
        elif k_size > 3 and not (m_size == 4 or BLOCK < 3):
            acc = acc.to(tl.bfloat16).to(y_ptr.dtype.element_ty)
        left, right = tl.split(acc.reshape(BLOCK, step, 2))
        acc = tree_sum(left) if step > 8 else min(left, right)
        tl.store(y_ptr + rows, tl.sum(acc, axis=0), mask=rows < m_size)
    i = 0
    while i < 3:
        i += 1


def _tiles(m_size, block=16):
    return triton.cdiv(m_size, block)


def forward_infer(x, weight, bias, num_programs):
    """Docstring."""
    assert x.shape[1] == weight.shape[1], "inner sizes differ"
    *lead, k_size = x.shape
    rows = x.view(-1, k_size)
    m_size = rows.size(0)
    y = x.new_empty((*lead, k_size), dtype=torch.float32)
    z = torch.empty_like(x, dtype=x.dtype)
    block = 16
    for low, size in ((1, 16), (64, 32)):
        if m_size >= low:
            block = size
    grid = lambda META: (min(num_programs, triton.cdiv(m_size, META["BLOCK"])),)
    if m_size in (1, 2) or bias is None:
        _kernel[grid](rows, weight.t(), y, m_size, k_size, BLOCK=16, num_warps=2, num_stages=1)
    elif x.dtype == torch.bfloat16:
        _kernel[(_tiles(m_size, block=block), 1)](
            rows, weight[:, :k_size], y, m_size, k_size, BLOCK=block, PRECISION="ieee"
        )
    else:
        _kernel[lambda META: (triton.cdiv(m_size, META["BLOCK"]),)](
            rows, weight, z, m_size, k_size, BLOCK=triton.next_power_of_2(k_size)
        )
    return y, z
'''


@pytest.mark.parametrize("seed", SEEDS, ids=lambda p: p.stem)
def test_shipped_seeds(seed: Path) -> None:
    assert check(seed.read_text(), ("forward_train", "forward_infer", "backward")) == []


def test_a_program_with_most_of_the_language() -> None:
    assert check(PERSISTENT, ("forward_infer",)) == []


def test_an_entry_may_be_missing_for_the_trace_to_report() -> None:
    assert check(HEAD, ("forward_infer",)) == []


@pytest.mark.parametrize(
    "definition", ["forward_infer = 3", "@triton.jit\ndef forward_infer(x): pass"]
)
def test_an_entry_must_be_a_plain_function(definition: str) -> None:
    found = check(HEAD + definition + "\n", ("forward_infer",))
    assert any("plain function" in v.instead for v in found)


def test_lang_functions_are_those_of_the_module() -> None:
    tree = ast.parse((ROOT / "kernelsmith" / "lang.py").read_text())
    names = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    assert lang_functions().keys() == {n for n in names if not n.startswith("_")}
    assert "tree_sum" in lang_functions()


def test_violations_are_sorted_and_the_same_every_time() -> None:
    source = HEAD + "import os\n\n\ndef f(x):\n    b = x.device\n    return x.item()\n"
    found = check(source, ())
    assert found == sorted(found) == check(source, ())
    assert [v.line for v in found] == [4, 8, 9]
    assert str(found[0]).startswith("line 4: `import os` is not allowed; import torch")
