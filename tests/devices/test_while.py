"""``scf.while`` over scalars and tensors: zero trips, values that change places, nesting."""

import numpy as np

from tests.devices.ttir_texts import Array, function, levels, run, same_bits

TENSOR = "tensor<32xf32>"


def loop(before: list[str], after: list[str], carried: str, types: str, outs: str) -> list[str]:
    """%r = while: the lines of the two regions around the given signatures."""
    return [f"%r:{outs.count(',') + 1} = scf.while ({carried}) : ({types}) -> ({outs}) {{",
            *before, "} do {", *after, "}"]  # fmt: skip


def kernel(lines: list[str], results: list[str]) -> str:
    head = [
        "%i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>",
        "%xs = tt.splat %x : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>",
        "%xp = tt.addptr %xs, %i : tensor<32x!tt.ptr<f32>>, tensor<32xi32>",
        "%v = tt.load %xp : tensor<32x!tt.ptr<f32>>",
        f"%one = arith.constant dense<1.000000e+00> : {TENSOR}",
        "%c0 = arith.constant 0 : i32",
        "%c1 = arith.constant 1 : i32",
    ]  # fmt: skip
    tail = []
    for number, result in enumerate(results):
        tail += [
            f"%o{number} = tt.splat %y{number} : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>",
            f"%p{number} = tt.addptr %o{number}, %i : tensor<32x!tt.ptr<f32>>, tensor<32xi32>",
            f"tt.store %p{number}, {result} : tensor<32x!tt.ptr<f32>>",
        ]
    args = ["%x: !tt.ptr<f32>", "%n: i32", *(f"%y{i}: !tt.ptr<f32>" for i in range(len(results)))]
    return function("k", args, [*head, *lines, *tail, "tt.return"])


def outputs(text: str, x: Array, n: int, count: int) -> list[Array]:
    per_level = []
    for cpu in levels():
        outs = [np.full(32, -1, np.float32) for _ in range(count)]
        run(text, x, n, *outs, cpu=cpu)
        per_level.append(outs)
    for outs in per_level:
        for one, first in zip(outs, per_level[0], strict=True):
            same_bits(one, first, "levels")
    return per_level[0]


SWAP = kernel(
    loop(
        ["%go = arith.cmpi slt, %j, %n : i32",
         f"scf.condition(%go) %j, %b, %a : i32, {TENSOR}, {TENSOR}"],
        [f"^bb0(%k: i32, %s: {TENSOR}, %t: {TENSOR}):",
         f"%u = arith.addf %t, %one : {TENSOR}",
         "%next = arith.addi %k, %c1 : i32",
         f"scf.yield %next, %s, %u : i32, {TENSOR}, {TENSOR}"],
        "%j = %c0, %a = %v, %b = %one", f"i32, {TENSOR}, {TENSOR}", f"i32, {TENSOR}, {TENSOR}",
    ),
    ["%r#1", "%r#2"],
)  # fmt: skip


def test_tensors_that_change_places_are_each_read_before_either_is_written() -> None:
    x = np.arange(32, dtype=np.float32)
    for n in range(5):
        a, b = x.copy(), np.ones(32, np.float32)
        for _ in range(n):
            a, b = b, a + 1
        got = outputs(SWAP, x, n, 2)
        assert (got[0] == b).all(), n
        assert (got[1] == a).all(), n


COMPUTED = kernel(
    loop(
        [f"%w = arith.mulf %a, %a : {TENSOR}",
         '%top = "tt.reduce"(%w) <{axis = 0 : i32}> ({',
         "^bb0(%p: f32, %q: f32):", "%m = arith.maxnumf %p, %q : f32",
         "tt.reduce.return %m : f32", f"}}) : ({TENSOR}) -> f32",
         "%limit = arith.sitofp %n : i32 to f32",
         "%go = arith.cmpf olt, %top, %limit : f32",
         f"scf.condition(%go) %w, %top : {TENSOR}, f32"],
        [f"^bb0(%s: {TENSOR}, %h: f32):",
         f"%hs = tt.splat %h : f32 -> {TENSOR}",
         f"%u = arith.addf %s, %hs : {TENSOR}",
         f"scf.yield %u : {TENSOR}"],
        "%a = %v", TENSOR, f"{TENSOR}, f32",
    ),
    ["%r#0"],
)  # fmt: skip


def test_what_the_condition_computes_is_seen_by_the_body_and_after_the_loop() -> None:
    x = (np.arange(32) / 32).astype(np.float32)
    for n in (0, 1, 3, 1000):
        a = x.copy()
        while True:
            w = a * a
            if not w.max() < n:
                break
            a = w + w.max()
        assert (outputs(COMPUTED, x, n, 1)[0] == w).all(), n


NESTED = kernel(
    loop(
        ["%go = arith.cmpi slt, %j, %n : i32", f"scf.condition(%go) %j, %a : i32, {TENSOR}"],
        [f"^bb0(%k: i32, %s: {TENSOR}):",
         f"%in:2 = scf.while (%l = %c0, %z = %s) : (i32, {TENSOR}) -> (i32, {TENSOR}) {{",
         "%on = arith.cmpi slt, %l, %k : i32", f"scf.condition(%on) %l, %z : i32, {TENSOR}",
         "} do {", f"^bb0(%l2: i32, %z2: {TENSOR}):",
         f"%z3 = arith.addf %z2, %z2 : {TENSOR}", "%l3 = arith.addi %l2, %c1 : i32",
         f"scf.yield %l3, %z3 : i32, {TENSOR}", "}",
         f"%e = scf.for %f = %c0 to %k step %c1 iter_args(%g = %in#1) -> ({TENSOR})  : i32 {{",
         f"%g2 = arith.addf %g, %one : {TENSOR}", f"scf.yield %g2 : {TENSOR}", "}",
         "%next = arith.addi %k, %c1 : i32",
         f"scf.yield %next, %e : i32, {TENSOR}"],
        "%j = %c0, %a = %v", f"i32, {TENSOR}", f"i32, {TENSOR}",
    ),
    ["%r#1"],
)  # fmt: skip


def test_loops_inside_of_loops_carry_their_own_tensors() -> None:
    x = np.arange(32, dtype=np.float32)
    for n in range(5):
        a = x.copy()
        for k in range(n):
            a = a * 2**k + k
        assert (outputs(NESTED, x, n, 1)[0] == a).all(), n
