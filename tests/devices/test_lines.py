"""Random programs over rows: loads with several uses, reductions, stores between, `%` indices,
carried rows and a function that is called twice; fast code must do what plain code does."""

import random

import numpy as np
import pytest

from kernelsmith.devices.cpu.compile import compile_ttir
from kernelsmith.devices.cpu.kernel import LoadedKernel, load
from tests.devices.test_generated import plain
from tests.devices.ttir_texts import levels, pack

PTR, N = "!tt.ptr<f32>", 256
T, P, INTS = (f"tensor<{N}x{elem}>" for elem in ("f32", PTR, "i32"))
PARAMS = ("ptr", "ptr", "i32", "i32", "i32")


def program(seed: int) -> str:
    """A kernel ``k(x, y, start, n, wrap)``; y may overlap x."""
    rng, lines, values = random.Random(seed), list(HEAD), ["%zero"]

    def name() -> str:
        return f"%t{len(lines)}"

    def pick() -> str:
        return rng.choice(values[-4:])

    def pointer() -> str:
        p = name()
        where = rng.choice(["%at", "%at", "%wrapped"])
        lines.append(f"{p} = tt.addptr %{rng.choice('xxy')}s, {where} : {P}, {INTS}")
        return p

    def step(depth: int) -> None:
        kind = rng.choice(["load", "load", "reduce", "formula", "formula", "store", "loop", "call"])
        if kind == "load":
            p, v = pointer(), name()
            mask = rng.choice(["", ", %m", ", %m, %low", f", %m, {pick()}"])
            lines.append(f"{v} = tt.load {p}{mask} : {P}")
        elif kind == "reduce":
            r, v = name(), f"%u{len(lines)}"
            op = rng.choice(["addf", "maxnumf"])
            lines.append(f'{r} = "tt.reduce"({pick()}) <{{axis = 0 : i32}}> ({{')
            lines.extend(
                [
                    f"^bb0(%ra{v[1:]}: f32, %rb{v[1:]}: f32):",
                    f"%rc{v[1:]} = arith.{op} %ra{v[1:]}, %rb{v[1:]} : f32",
                    f"tt.reduce.return %rc{v[1:]} : f32",
                    f"}}) : ({T}) -> f32",
                ]
            )
            lines.append(f"{v} = tt.splat {r} : f32 -> {T}")
        elif kind == "formula":
            v = name()
            op = rng.choice(["arith.addf", "arith.subf", "arith.mulf", "arith.maxnumf", "math.exp"])
            others = "" if op == "math.exp" else f", {pick()}"
            lines.append(f"{v} = {op} {pick()}{others} : {T}")
        elif kind == "store":
            p = pointer()
            lines.append(f"tt.store {p}, {pick()}{rng.choice(['', ', %m'])} : {P}")
            return
        elif kind == "call":
            p, v = pointer(), name()
            lines.append(f"{v} = tt.call @twice({p}, {pick()}) : ({P}, {T}) -> {T}")
        elif depth:
            return
        else:
            v, a, b, mark = name(), pick(), pick(), len(lines)
            lines.append(
                f"{v}:2 = scf.for %i{mark} = %c0 to %c3 step %c1 iter_args(%a{mark} = {a}, "
                f"%b{mark} = {b}) -> ({T}, {T})  : i32 {{"
            )
            outside = list(values)
            values.extend([f"%a{mark}", f"%b{mark}"])
            for _ in range(rng.randint(1, 3)):
                step(1)
            x, y = name(), f"%w{len(lines)}"
            lines.append(f"{x} = arith.addf %a{mark}, {pick()} : {T}")
            lines.append(f"{y} = arith.maxnumf %b{mark}, {pick()} : {T}")
            lines.append(f"scf.yield {x}, {y} : {T}, {T}")
            lines.append("}")
            values[:] = [*outside, f"{v}#1"]
            v = f"{v}#0"
        values.append(v)

    for _ in range(rng.randint(6, 16)):
        step(0)
    lines.append(f"%last = tt.addptr %ys, %at : {P}, {INTS}")
    lines += [f"tt.store %last, {pick()}, %m : {P}", "tt.return"]
    args = f"%x: {PTR}, %y: {PTR}, %start: i32, %n: i32, %wrap: i32"
    body = "\n".join(lines)
    return (
        f"module {{\n  tt.func public @k({args}) attributes {{noinline = false}} {{\n{body}\n  }}\n"
        f"  tt.func private @twice(%p: {P}, %v: {T}) -> {T} attributes {{noinline = true}} {{\n"
        f"%l = tt.load %p : {P}\n%old = tt.load %p : {P}\n%s = arith.addf %l, %v : {T}\n"
        f"tt.store %p, %s : {P}\ntt.store %p, %old : {P}\n"
        f"%e = arith.subf %l, %s : {T}\ntt.return %e : {T}\n  }}\n}}\n"
    )


HEAD = (
    f"%r = tt.make_range {{end = {N} : i32, start = 0 : i32}} : {INTS}",
    f"%ss = tt.splat %start : i32 -> {INTS}",
    f"%at = arith.addi %ss, %r : {INTS}",
    f"%ns = tt.splat %n : i32 -> {INTS}",
    f"%m = arith.cmpi slt, %at, %ns : {INTS}",
    f"%ws = tt.splat %wrap : i32 -> {INTS}",
    f"%wrapped = arith.remsi %at, %ws : {INTS}",
    f"%xs = tt.splat %x : {PTR} -> {P}",
    f"%ys = tt.splat %y : {PTR} -> {P}",
    f"%zero = arith.constant dense<2.500000e-01> : {T}",
    f"%low = arith.constant dense<0xFF800000> : {T}",
    "%c0 = arith.constant 0 : i32",
    "%c1 = arith.constant 1 : i32",
    "%c3 = arith.constant 3 : i32",
)


def after(kernel: LoadedKernel, seed: int) -> list[bytes]:
    """The memory after runs with whole, partial and empty masks, apart and overlapping."""
    out = []
    for start, n, wrap, shift in (
        (0, 256, 256, 3000),
        (0, 100, 4000, 3000),
        (5, 3, 70, 3000),
        (16, 200, 16, 40),
        (0, 250, 200, 1),
    ):
        memory = np.random.default_rng(seed).standard_normal(6000).astype(np.float32)
        args = pack(PARAMS, (memory, memory[shift:], start, n, wrap))
        kernel.run(args, (1, 1, 1))
        out.append(memory.tobytes())
    return out


@pytest.mark.parametrize("seed", range(12))
def test_rows_in_fast_code_are_those_of_plain_code(seed: int) -> None:
    text = program(seed)
    want = after(plain(text), seed)
    for cpu in levels()[-2:]:
        done = compile_ttir(text, cpu=cpu)
        assert after(load(done.info, done.code), seed) == want
