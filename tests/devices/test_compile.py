"""The compiler's contract: objects, ids, refusals."""

import re
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from kernelsmith.devices.cpu.codegen_target import LEVELS, features_of
from kernelsmith.devices.cpu.compile import compile_ttir
from kernelsmith.devices.cpu.epoch import canonical
from kernelsmith.devices.cpu.lower_function import lower
from kernelsmith.devices.cpu.ttir_parse import parse
from kernelsmith.errors import CompileError
from tests.devices.ttir_texts import function, run

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(CORPUS.glob("*/*.ttir"))
IDS = [str(path.relative_to(CORPUS)) for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_every_text_of_the_corpus_compiles_to_a_closed_object(path: Path) -> None:
    done = compile_ttir(path.read_text())
    assert done.info.symbol == path.name.split(".")[0]
    llvm.initialize_native_target()
    symbols = re.findall(rb"mem(?:cpy|set|move)|fmaf?\b|expf?\b|sqrtf?\b|__\w+", done.code)
    assert not symbols, "the object calls a library"


def test_compiling_is_deterministic_and_levels_are_named() -> None:
    text = (CORPUS / "3.7.1" / "linear.ttir").read_text()
    first, again = compile_ttir(text), compile_ttir(text)
    assert (first.code, first.info) == (again.code, again.info)
    assert compile_ttir(text, cpu=LEVELS[0]).info.id != compile_ttir(text, cpu=LEVELS[1]).info.id
    with pytest.raises(CompileError, match="unknown CPU level"):
        compile_ttir(text, cpu="pentium")


def test_canonical_text_drops_locations_and_hints_alone() -> None:
    plain = (CORPUS / "3.7.1" / "control.ttir").read_text()
    located = (CORPUS / "3.7.1" / "control.located.ttir").read_text()
    assert "loc(" in located
    assert "loc(" not in canonical(located)
    assert "divisibility" in plain
    assert "divisibility" not in canonical(plain)
    assert canonical(canonical(plain)) == canonical(plain)
    assert canonical(plain) != canonical(plain.replace("dense<1>", "dense<2>"))


def test_values_and_locations_are_read() -> None:
    module = parse((CORPUS / "3.9.0" / "control.located.ttir").read_text())
    loops = [op for block in module.kernel.blocks for op in block.ops if op.name == "scf.for"]
    assert re.fullmatch(r"devices/corpus/kernels\.py:\d+", loops[0].line)
    assert [str(arg.ty) for arg in module.kernel.args] == ["!tt.ptr<f32>", "!tt.ptr<f32>", "i32"]


@pytest.mark.parametrize(
    ("line", "op"),
    [
        ('%r = tt.elementwise_inline_asm "nop" {x = 1} %i : tensor<16xi32> -> tensor<16xi32>',
         "tt.elementwise_inline_asm"),
        ('%r = tt.extern_elementwise %i {libname = "", symbol = "getpid"} : (tensor<16xi32>) -> '
         "tensor<16xi32>", "tt.extern_elementwise"),
        ('%r = "tt.reduce"(%i) <{axis = 0 : i32, reduction_ordering = "inner_tree"}> ({\n'
         "^bb0(%a: i32, %b: i32):\n%c = arith.addi %a, %b : i32\ntt.reduce.return %c : i32\n"
         "}) : (tensor<16xi32>) -> i32", "tt.reduce"),
        ('%r = "tt.scan"(%i) <{axis = 0 : i32, reverse = false}> ({\n^bb0(%a: i32, %b: i32):\n'
         '%c = tt.extern_elementwise %a, %b {symbol = "f"} : (i32, i32) -> i32 '
         'loc("kernel.py":12:8)\ntt.scan.return %c : i32\n'
         "}) : (tensor<16xi32>) -> tensor<16xi32>", "tt.extern_elementwise"),
        ("%r = llvm.inline_asm \"syscall\" : () -> i32", "llvm.inline_asm"),
    ],
)  # fmt: skip
def test_what_is_not_on_the_list_is_refused_by_op_and_line(line: str, op: str) -> None:
    lines = [
        "%i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>",
        f'{line} loc("kernel.py":12:8)',
        "tt.return",
    ]
    with pytest.raises(CompileError) as caught:
        compile_ttir(function("k", [], lines))
    assert caught.value.op == op
    assert caught.value.line == "kernel.py:12"
    assert op in str(caught.value)
    assert caught.value.hint


def test_a_type_that_is_not_supported_is_refused_with_its_line() -> None:
    line = '%c = arith.constant dense<0.0> : tensor<16xf6E2M3FN> loc("kernel.py":3:1)'
    with pytest.raises(CompileError, match="f6E2M3FN"):
        compile_ttir(function("k", [], [line, "tt.return"]))


def test_a_pointer_to_pointers_is_refused_with_what_to_write_instead() -> None:
    with pytest.raises(CompileError, match=r"pointer to !tt\.ptr<f32>") as caught:
        compile_ttir(function("k", ["%x: !tt.ptr<!tt.ptr<f32>>"], ["tt.return"]))
    assert "pointer_type" in caught.value.hint


def tower(steps: int) -> str:
    """x + reshape(transpose(x)), over and over: each step reads the one before at two places."""
    ptr, t, turned = "tensor<16x32x!tt.ptr<f32>>", "tensor<16x32xf32>", "tensor<32x16xf32>"
    i = "tensor<512xi32>"
    lines = [
        f"%i = tt.make_range {{end = 512 : i32, start = 0 : i32}} : {i}",
        f"%at = tt.reshape %i : {i} -> tensor<16x32xi32>",
        f"%xs = tt.splat %x : !tt.ptr<f32> -> {ptr}",
        f"%xp = tt.addptr %xs, %at : {ptr}, tensor<16x32xi32>",
        f"%v0 = tt.load %xp : {ptr}",
    ]
    for step in range(steps):
        lines += [
            f"%t{step} = tt.trans %v{step} {{order = array<i32: 1, 0>}} : {t} -> {turned}",
            f"%r{step} = tt.reshape %t{step} : {turned} -> {t}",
            f"%v{step + 1} = arith.addf %v{step}, %r{step} : {t}",
        ]
    lines += [
        f"%os = tt.splat %o : !tt.ptr<f32> -> {ptr}",
        f"%op = tt.addptr %os, %at : {ptr}, tensor<16x32xi32>",
        f"tt.store %op, %v{steps} : {ptr}",
        "tt.return",
    ]
    return function("k", ["%x: !tt.ptr<f32>", "%o: !tt.ptr<f32>"], lines)


def test_code_does_not_double_with_each_shape_op_on_the_way() -> None:
    texts = [parse(tower(steps)) for steps in (6, 12)]
    short, long = (lower(text, features_of("host"), "k").ir.count("\n") for text in texts)
    assert long < 4 * short
    x = np.random.default_rng(0).integers(-3, 4, (16, 32)).astype(np.float32)
    out, want = np.zeros_like(x), x
    for _ in range(12):
        want = want + want.T.reshape(16, 32)
    run(tower(12), x, out)
    assert (out == want).all()


def test_a_kernel_too_long_to_compile_is_refused_before_that_is_tried() -> None:
    t = "tensor<64xf32>"
    lines = [f"%v0 = arith.constant dense<1.0> : {t}"]
    lines += [f"%v{i + 1} = math.sin %v{i} : {t}" for i in range(900)]
    lines += [
        f"%p = tt.splat %x : !tt.ptr<f32> -> {t.replace('f32', '!tt.ptr<f32>')}",
        f"tt.store %p, %v900 : {t.replace('f32', '!tt.ptr<f32>')}",
        "tt.return",
    ]
    with pytest.raises(CompileError, match="longer than 60000 instructions") as caught:
        compile_ttir(function("k", ["%x: !tt.ptr<f32>"], lines))
    assert "static_range" in caught.value.hint


def test_a_form_that_was_not_foreseen_is_named_with_its_line() -> None:
    lines = [
        "%i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>",
        "%s = tt.splat %x : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>",
        "%p = tt.addptr %s, %i : tensor<16x!tt.ptr<i32>>, tensor<16xi32>",
        "%r = tt.trans %i {permutation = 0} : tensor<16xi32> -> tensor<16xi32>",
        'tt.store %p, %r : tensor<16x!tt.ptr<i32>> loc("kernel.py":7:1)',
        "tt.return",
    ]
    with pytest.raises(CompileError, match=r"tt\.store at kernel\.py:7") as caught:
        compile_ttir(function("k", ["%x: !tt.ptr<i32>"], lines))
    assert "gap in the device" in caught.value.hint
