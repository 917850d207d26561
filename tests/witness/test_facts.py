"""What two kernels' IR says of their arithmetic, and which differences no candidate may have."""

from typing import Any

import pytest
import triton
import triton.language as tl

from kernelsmith.gate.witness.facts import Facts, broken, differences, together
from kernelsmith.gate.witness.reading import read
from kernelsmith.lang import tree_sum
from tests.witness.texts import text_of

N = tl.constexpr(64)


@triton.jit
def _row(x_ptr, y_ptr, T: tl.constexpr):
    acc = tl.zeros((N,), dtype=T)
    for i in range(4):
        acc += tl.load(x_ptr + i * N + tl.arange(0, N)).to(T)
    tl.store(y_ptr, tree_sum(acc).to(tl.float32))


@triton.jit
def _reduced(x_ptr, y_ptr, T: tl.constexpr):
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, N)).to(T), axis=0).to(tl.float32))


@triton.jit
def _scanned(x_ptr, y_ptr, T: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at, tl.cumsum(tl.load(x_ptr + at).to(T), axis=0).to(tl.float32))


@triton.jit
def _dot(x_ptr, y_ptr, T: tl.constexpr, PRECISION: tl.constexpr):
    at = tl.arange(0, 16)
    tile = at[:, None] * 16 + at[None, :]
    x = tl.load(x_ptr + tile)
    tl.store(y_ptr + tile, tl.dot(x, x, input_precision=PRECISION, out_dtype=T).to(tl.float32))


@triton.jit
def _fused(x_ptr, y_ptr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, tl.fma(x, x, x))


@triton.jit
def _apart(x_ptr, y_ptr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, (x * x + x).to(tl.bfloat16).to(tl.float32))


@triton.jit
def _exp(x_ptr, y_ptr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at, tl.exp(tl.load(x_ptr + at)))


@triton.jit
def _quotient(x_ptr, y_ptr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, tl.sqrt(1.0 / x) + tl.rsqrt(x))


def facts(kernel: Any, types: str = "", **constants: Any) -> Facts:
    said = read(text_of(kernel, types, **constants), None)
    assert said.fault == ""
    return said.facts


@pytest.mark.parametrize(
    ("kernel", "kinds"),
    [
        (_row, {("loop", "f32"), ("pairs", "f32")}),
        (_reduced, {("reduction", "f32")}),
        (_scanned, {("scan", "f32")}),
    ],
)
def test_every_sum_has_its_accumulator_on_record(kernel: Any, kinds: set[tuple[str, str]]) -> None:
    assert facts(kernel, T=tl.float32).accumulators == kinds


@pytest.mark.parametrize(
    ("kernel", "narrow", "elem"),
    [
        (_row, tl.bfloat16, "bf16"),
        (_row, tl.float16, "f16"),
        (_reduced, tl.bfloat16, "bf16"),
        (_reduced, tl.float16, "f16"),
        (_scanned, tl.float16, "f16"),  # Triton scans bfloat16 in float32 of its own accord
    ],
)
def test_a_narrower_accumulator_is_refused(kernel: Any, narrow: Any, elem: str) -> None:
    seed = facts(_row, T=tl.float32)
    said = broken(facts(kernel, T=narrow), seed, "cpu")
    assert said.startswith(f"sums in {elem} (")
    assert said.endswith("narrower than any sum of the seed")
    assert broken(facts(kernel, T=tl.float64), seed, "cpu") == ""
    assert broken(facts(kernel, T=narrow), facts(kernel, T=narrow), "cpu") == ""


def test_sixteen_bits_are_not_one_type() -> None:
    half, brain = facts(_row, T=tl.float16), facts(_row, T=tl.bfloat16)
    assert "bf16" in broken(brain, half, "cpu")
    assert broken(half, brain, "cpu") == ""


def test_a_dot_keeps_the_seeds_precision() -> None:
    seed = facts(_dot, T=tl.float32, PRECISION="ieee")
    for precision in ("tf32", "tf32x3"):
        said = broken(facts(_dot, T=tl.float32, PRECISION=precision), seed, "cpu")
        assert said == f"has a dot of {precision} where the seed's are ieee"
        assert "a dot of tf32" in broken(
            facts(_dot, T=tl.float32, PRECISION="tf32"), facts(_row, T=tl.float32), "cpu"
        )
    half = facts(_dot, "*fp16 *fp32", T=tl.float16, PRECISION="ieee")
    assert "sums in f16 (dot)" in broken(half, seed, "cpu")
    # Of products of 16-bit floats nothing is lost whatever the precision says.
    assert facts(_dot, "*fp16 *fp32", T=tl.float32, PRECISION="tf32").dots == frozenset()


def test_functions_whose_last_bits_are_the_devices_must_be_the_seeds() -> None:
    plain, exp, quotient = facts(_apart), facts(_exp), facts(_quotient)
    assert broken(exp, plain, "cpu").startswith("uses math.exp, whose last bits are the device's")
    assert broken(exp, exp, "cpu") == ""
    assert broken(quotient, plain, "cpu") == ""  # rounded correctly there
    assert broken(quotient, plain, "cuda").startswith("uses arith.divf")


def test_a_librarys_symbol_must_be_the_seeds() -> None:
    text = text_of(_exp).replace("math.exp", "tt.extern_elementwise", 1)
    lines = [
        line.partition(" : ")[0]
        + ' {libname = "", libpath = "", pure = true, symbol = "__nv_expf"} : '
        + "(tensor<64xf32>) -> tensor<64xf32>"
        if "tt.extern_elementwise" in line
        else line
        for line in text.splitlines()
    ]
    called = read("\n".join(lines), None)
    assert called.fault == ""
    assert called.facts.extern == {"__nv_expf"}
    assert broken(called.facts, facts(_exp), "cpu").startswith("calls __nv_expf of a library")


def test_contraction_and_roundings_are_told_not_refused() -> None:
    fused, apart = facts(_fused), facts(_apart)
    assert broken(fused, apart, "cpu") == ""
    told = differences(fused, apart)
    assert "products rounded with a sum (fma): 0 → 1" in told
    assert "products rounded before a sum: 1 → 0" in told
    assert "roundings f32 to bf16: 1 → 0" in told
    assert "ops: + math.fma" in told
    assert differences(fused, fused) == []


def test_accumulators_are_told_beside_each_other() -> None:
    wide, row = facts(_reduced, T=tl.float64), facts(_row, T=tl.float32)
    assert "accumulators: loop f32, pairs f32 → reduction f64" in differences(wide, row)


@triton.jit
def _rows(x_ptr, y_ptr, stride, WIDE: tl.constexpr):
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    at = tl.program_id(1) * N + tl.arange(0, N)
    tl.store(y_ptr + at, tl.load(x_ptr + row * stride + at))


def test_an_offset_that_wraps_in_32_bits_is_told() -> None:
    wide = facts(_rows, "*fp32 *fp32 i32", WIDE=True)
    narrow = facts(_rows, "*fp32 *fp32 i32", WIDE=False)
    assert "address products: i64 → i32" in differences(narrow, wide)


def test_kernels_are_put_together_by_their_most_or_their_sum() -> None:
    one = facts(_fused)
    words = "products rounded with a sum (fma)"
    assert together([one, one], most=True).counts[words] == 1
    assert together([one, one], most=False).counts[words] == 2
