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
