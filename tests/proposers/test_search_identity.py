"""Duplicates are found before any work: what does not reach the compiler does not count."""

import hashlib

import pytest

from kernelsmith.model import candidate_id
from kernelsmith.proposers.search import normalised_hash

SOURCE = '''\
"""A module."""
import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    """Copies."""
    cols = tl.arange(0, BLOCK)
    value = tl.load(x_ptr + cols)  # a comment
    tl.store(y_ptr + cols, value)


@triton.jit
def _unused(x):
    return x


def forward_infer(x):
    y = torch.empty_like(x)
    _kernel[(1,)](x, y, BLOCK=64)
    return (y,)
'''

SAME = [
    ("a comment", "another comment"),
    ('"""Copies."""', '"""Copies a row."""'),
    ("cols", "offsets"),
    ("_kernel", "_copy"),
    ("return x", "return x + 1"),
    ("(x, y, BLOCK=64)", "(\n        x,\n        y,\n        BLOCK=64,\n    )"),
    ("y = torch", "result = torch"),
]
DIFFERENT = [
    ("BLOCK=64", "BLOCK=128"),
    ("tl.load(x_ptr + cols)", "tl.load(y_ptr + cols)"),
    ("forward_infer", "forward_train"),
    ("return (y,)", "return (x,)"),
    ("(1,)", "(2,)"),
]


@pytest.mark.parametrize(("old", "new"), SAME)
def test_what_does_not_count(old: str, new: str) -> None:
    changed = SOURCE.replace(old, new)
    if old == "y = torch":
        changed = changed.replace("(x, y, BLOCK", "(x, result, BLOCK").replace("(y,)", "(result,)")
    assert changed != SOURCE
    assert normalised_hash(changed) == normalised_hash(SOURCE)
    assert candidate_id(changed) != candidate_id(SOURCE)


@pytest.mark.parametrize(("old", "new"), DIFFERENT)
def test_what_counts(old: str, new: str) -> None:
    assert normalised_hash(SOURCE.replace(old, new)) != normalised_hash(SOURCE)


def test_order_of_definitions_does_not_count() -> None:
    head, kernel, unused, entry = SOURCE.split("\n\n\n")
    moved = "\n\n\n".join([head, entry.rstrip(), unused, kernel]) + "\n"
    assert normalised_hash(moved) == normalised_hash(SOURCE)


@pytest.mark.parametrize("name", ["local0", "local1", "function0"])
def test_a_name_like_those_that_are_given_is_not_taken_for_one(name: str) -> None:
    one = f"def f(x, {name}):\n    a = x + 1\n    return _g(a) + a\n\n\ndef _g(x):\n    return x\n"
    other = one.replace("_g(a) + a", f"_g(a) + {name}")
    third = one.replace("_g(a) + a", f"{name}(a) + a")
    assert len({normalised_hash(each) for each in (one, other, third)}) == 3


def test_swapped_locals_are_not_the_same() -> None:
    one = "def f(x):\n    a = x\n    b = x + 1\n    return a, b\n"
    other = "def f(x):\n    a = x\n    b = x + 1\n    return b, a\n"
    assert normalised_hash(one) != normalised_hash(other)


@pytest.mark.parametrize("source", ["def f(:", "x = \x00", "\udc80"])
def test_sources_that_do_not_parse_are_hashed_as_text(source: str) -> None:
    assert normalised_hash(source) == normalised_hash(source)
    assert normalised_hash(source) != normalised_hash(source + " ")
    assert len(candidate_id(source)) == 16


@pytest.mark.parametrize("deep", ["-" * 3000 + "1", "1" + " + 1" * 3000, "a" + ".b" * 3000])
def test_a_source_nested_too_deeply_to_walk_is_hashed_as_text(deep: str) -> None:
    assert normalised_hash(f"x = {deep}\n") == hashlib.sha256(f"x = {deep}\n".encode()).hexdigest()
    assert normalised_hash(f"x = {deep}\n") != normalised_hash(f"x = {deep}  # more\n")
