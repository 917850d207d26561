"""``noinline`` functions: several results, calls of calls, tensors, and no recursion."""

import numpy as np
import pytest

from kernelsmith.devices.cpu.compile import compile_ttir
from kernelsmith.errors import CompileError
from tests.devices.ttir_texts import levels, run


def module(*functions: str) -> str:
    return "module {\n" + "\n".join(functions) + "\n}\n"


SUM = """
  tt.func private @sum(%p: !tt.ptr<f32>, %n: i32) -> (f32, i32, !tt.ptr<f32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant 0.000000e+00 : f32
    %s = scf.for %j = %c0 to %n step %c1 iter_args(%acc = %zero) -> (f32)  : i32 {
      %q = tt.addptr %p, %j : !tt.ptr<f32>, i32
      %v = tt.load %q : !tt.ptr<f32>
      %t = arith.addf %acc, %v : f32
      scf.yield %t : f32
    }
    %m = arith.addi %n, %c1 : i32
    %r = tt.addptr %p, %n : !tt.ptr<f32>, i32
    tt.return %s, %m, %r : f32, i32, !tt.ptr<f32>
  }"""
TWICE = """
  tt.func private @twice(%p: !tt.ptr<f32>, %n: i32) -> f32 {
    %a:3 = tt.call @sum(%p, %n) : (!tt.ptr<f32>, i32) -> (f32, i32, !tt.ptr<f32>)
    %b:3 = tt.call @sum(%a#2, %a#1) : (!tt.ptr<f32>, i32) -> (f32, i32, !tt.ptr<f32>)
    %d = arith.subf %b#0, %a#0 : f32
    tt.return %d : f32
  }"""


def test_results_of_a_call_feed_the_next_and_calls_nest() -> None:
    kernel = """
  tt.func public @k(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32) attributes {noinline = false} {
    %a = tt.call @twice(%x, %n) : (!tt.ptr<f32>, i32) -> f32
    %c1 = arith.constant 1 : i32
    %m = arith.addi %n, %c1 : i32
    %b = tt.call @twice(%x, %m) : (!tt.ptr<f32>, i32) -> f32
    tt.store %o, %a : !tt.ptr<f32>
    %p = tt.addptr %o, %c1 : !tt.ptr<f32>, i32
    tt.store %p, %b : !tt.ptr<f32>
    tt.return
  }"""
    x, out = np.arange(32, dtype=np.float32), np.zeros(2, np.float32)
    for cpu in levels():
        run(module(kernel, TWICE, SUM), x, out, 3, cpu=cpu)
        assert out.tolist() == [18 - 3, 4 + 5 + 6 + 7 + 8 - 6]


def test_a_function_may_take_and_give_tensors_and_return_early() -> None:
    callee = """
  tt.func private @pick(%v: tensor<16xf32>, %n: i32) -> (tensor<16xf32>, i32) {
    %c2 = arith.constant 2 : i32
    %b = arith.cmpi sgt, %n, %c2 : i32
    cf.cond_br %b, ^bb1, ^bb2
  ^bb1:  // pred: ^bb0
    tt.return %v, %n : tensor<16xf32>, i32
  ^bb2:  // pred: ^bb0
    %d = arith.addf %v, %v : tensor<16xf32>
    tt.return %d, %c2 : tensor<16xf32>, i32
  }"""
    kernel = """
  tt.func public @k(%x: !tt.ptr<f32>, %n: i32, %m: !tt.ptr<i32>) attributes {noinline = false} {
    %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %s = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %p = tt.addptr %s, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    %v = tt.load %p : tensor<16x!tt.ptr<f32>>
    %r:2 = tt.call @pick(%v, %n) : (tensor<16xf32>, i32) -> (tensor<16xf32>, i32)
    tt.store %p, %r#0 : tensor<16x!tt.ptr<f32>>
    tt.store %m, %r#1 : !tt.ptr<i32>
    tt.return
  }"""
    for n, factor, count in ((1, 2, 2), (3, 1, 3)):
        x, m = np.arange(16, dtype=np.float32), np.zeros(1, np.int32)
        run(module(kernel, callee), x, n, m)
        assert (x == factor * np.arange(16)).all()
        assert m[0] == count


def test_recursion_is_refused_by_name_and_line() -> None:
    first, second = (
        f"  tt.func private @{a}(%n: i32) -> i32 {{\n"
        f'    %r = tt.call @{b}(%n) : (i32) -> i32 loc("kernel.py":4:1)\n'
        "    tt.return %r : i32\n  }"
        for a, b in (("ping", "pong"), ("pong", "ping"))
    )
    kernel = """
  tt.func public @k(%o: !tt.ptr<i32>, %n: i32) attributes {noinline = false} {
    %r = tt.call @ping(%n) : (i32) -> i32
    tt.store %o, %r : !tt.ptr<i32>
    tt.return
  }"""
    with pytest.raises(CompileError, match="ping calls itself") as caught:
        compile_ttir(module(kernel, first, second))
    assert caught.value.op == "tt.call"
    assert caught.value.line == "kernel.py:4"
    assert "loop" in str(caught.value.hint)
