"""Early returns and branches: blocks in any printed order, tensors and scalars passed along."""

import numpy as np
import pytest

from kernelsmith.devices.cpu.compile import compile_ttir
from kernelsmith.errors import CompileError
from tests.devices.ttir_texts import function, run

HEAD = [
    "%i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>",
    "%s = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>",
    "%p = tt.addptr %s, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>",
    "%v = tt.load %p : tensor<16x!tt.ptr<f32>>",
    "%one = arith.constant 1 : i32",
    "%two = arith.constant 2 : i32",
]


def outcome(lines: list[str], n: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    x = np.arange(16, dtype=np.float32)
    run(function("k", ["%x: !tt.ptr<f32>", "%n: i32"], [*HEAD, *lines]), x, n)
    return x


def test_a_block_may_be_printed_before_one_that_leads_to_it() -> None:
    lines = [
        "%a = arith.cmpi sgt, %n, %two : i32",
        "cf.cond_br %a, ^bb1(%v : tensor<16xf32>), ^bb2",
        "^bb1(%w: tensor<16xf32>):  // 2 preds: ^bb0, ^bb2",
        "%d = arith.addf %w, %w : tensor<16xf32>",
        "tt.store %p, %d : tensor<16x!tt.ptr<f32>>",
        "tt.return",
        "^bb2:  // pred: ^bb0",
        "%m = arith.mulf %v, %v : tensor<16xf32>",
        "%b = arith.cmpi eq, %n, %one : i32",
        "cf.cond_br %b, ^bb1(%m : tensor<16xf32>), ^bb3",
        "^bb3:  // pred: ^bb2",
        "tt.store %p, %m : tensor<16x!tt.ptr<f32>>",
        "tt.return",
    ]
    x = np.arange(16, dtype=np.float32)
    for n, want in ((3, x + x), (1, x * x + x * x), (0, x * x)):
        assert (outcome(lines, n) == want).all()


def test_one_branch_may_lead_to_one_block_with_other_values_each_way() -> None:
    lines = [
        "%a = arith.cmpi sgt, %n, %two : i32",
        "%m = arith.mulf %v, %v : tensor<16xf32>",
        "cf.cond_br %a, ^bb1(%n, %v : i32, tensor<16xf32>), ^bb1(%two, %m : i32, tensor<16xf32>)",
        "^bb1(%k: i32, %w: tensor<16xf32>):  // 2 preds: ^bb0, ^bb0",
        "%f = arith.sitofp %k : i32 to f32",
        "%fs = tt.splat %f : f32 -> tensor<16xf32>",
        "%d = arith.addf %w, %fs : tensor<16xf32>",
        "tt.store %p, %d : tensor<16x!tt.ptr<f32>>",
        "tt.return",
    ]
    x = np.arange(16, dtype=np.float32)
    for n, want in ((7, x + 7), (1, x * x + 2)):
        assert (outcome(lines, n) == want).all()


def test_a_loop_of_branches_is_refused() -> None:
    lines = [
        "cf.br ^bb1",
        "^bb1:  // 2 preds: ^bb0, ^bb1",
        "%a = arith.cmpi sgt, %n, %two : i32",
        "cf.cond_br %a, ^bb1, ^bb2",
        "^bb2:  // pred: ^bb1",
        "tt.return",
    ]
    with pytest.raises(CompileError, match="loop of branches") as caught:
        compile_ttir(function("k", ["%x: !tt.ptr<f32>", "%n: i32"], [*HEAD, *lines]))
    assert caught.value.hint


def test_what_a_function_loads_is_what_was_there_when_it_was_called() -> None:
    lines = [
        "%t = arith.constant 0 : i32",
        "%u = scf.for %k = %t to %two step %one iter_args(%c = %v) -> (tensor<16xf32>)  : i32 {",
        "%r = tt.call @both(%p, %c) : (tensor<16x!tt.ptr<f32>>, tensor<16xf32>) -> tensor<16xf32>",
        "tt.store %p, %c : tensor<16x!tt.ptr<f32>>",
        "tt.call @void(%p) : (tensor<16x!tt.ptr<f32>>) -> ()",
        "scf.yield %r : tensor<16xf32>",
        "}",
        "%w = tt.load %p : tensor<16x!tt.ptr<f32>>",
        "%d = arith.addf %w, %u : tensor<16xf32>",
        "tt.store %p, %d : tensor<16x!tt.ptr<f32>>",
        "tt.return",
    ]
    callees = """
  tt.func private @both(%q: tensor<16x!tt.ptr<f32>>, %a: tensor<16xf32>) -> tensor<16xf32> {
    %l = tt.load %q : tensor<16x!tt.ptr<f32>>
    tt.return %l : tensor<16xf32>
  }
  tt.func private @void(%q: tensor<16x!tt.ptr<f32>>) {
    %l = tt.load %q : tensor<16x!tt.ptr<f32>>
    %n = arith.negf %l : tensor<16xf32>
    tt.store %q, %n : tensor<16x!tt.ptr<f32>>
    %unused = math.exp %n : tensor<16xf32>
    tt.return
  }
}
"""
    text = function("k", ["%x: !tt.ptr<f32>"], [*HEAD, *lines]).removesuffix("}\n") + callees
    x = np.arange(16, dtype=np.float32)
    memory = carried = x.copy()
    for _ in range(2):
        memory, carried = -carried, memory
    run(text, x)
    assert (x == memory + carried).all()


def test_what_waits_in_a_loop_does_not_outlive_it() -> None:
    """A load behind a formula that two products share, in a loop before a store."""
    t, pointers = "tensor<16x16xf32>", "tensor<16x16x!tt.ptr<f32>>"
    zeros = "dense<0.000000e+00>"
    lines = [
        "%e = tt.expand_dims %i {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>",
        "%f = tt.expand_dims %i {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>",
        "%c = arith.constant dense<16> : tensor<16x1xi32>",
        "%g = arith.muli %e, %c : tensor<16x1xi32>",
        "%gb = tt.broadcast %g : tensor<16x1xi32> -> tensor<16x16xi32>",
        "%fb = tt.broadcast %f : tensor<1x16xi32> -> tensor<16x16xi32>",
        "%o = arith.addi %gb, %fb : tensor<16x16xi32>",
        f"%b = tt.splat %x : !tt.ptr<f32> -> {pointers}",
        f"%z = arith.constant {zeros} : {t}",
        "%t = arith.constant 0 : i32",
        f"%u:2 = scf.for %k = %t to %two step %one iter_args(%m = %z, %n = %z) -> ({t}, {t})  "
        ": i32 {",
        "%kk = arith.muli %k, %two : i32",
        "%ks = tt.splat %kk : i32 -> tensor<16x16xi32>",
        "%ok = arith.addi %o, %ks : tensor<16x16xi32>",
        f"%q = tt.addptr %b, %ok : {pointers}, tensor<16x16xi32>",
        f"%l = tt.load %q : {pointers}",
        f"%h = math.exp2 %l : {t}",
        f"%y = tt.dot %h, %h, %m : {t} * {t} -> {t}",
        f"%w = tt.dot %h, %z, %n : {t} * {t} -> {t}",
        f"scf.yield %y, %w : {t}, {t}",
        "}",
        f"%s = arith.addf %u#0, %u#1 : {t}",
        f"%p0 = tt.addptr %b, %o : {pointers}, tensor<16x16xi32>",
        f"tt.store %p0, %s : {pointers}",
        "tt.return",
    ]
    x = np.zeros(512, np.float32)
    run(function("k", ["%x: !tt.ptr<f32>"], [*HEAD, *lines]), x)
    assert (x[:256] == 32).all()
