"""Random programs over rows: loads with several uses, reductions, stores between, `%` indices,
carried rows and a function that is called twice; fast code must do what plain code does."""

import random
from dataclasses import dataclass

import numpy as np
import pytest

from kernelsmith.devices.cpu.compile import compile_ttir
from kernelsmith.devices.cpu.kernel import LoadedKernel, load
from tests.devices.test_generated import plain
from tests.devices.ttir_texts import levels, pack

PTR, N = "!tt.ptr<f32>", 256
T, P, INTS = (f"tensor<{N}x{elem}>" for elem in ("f32", PTR, "i32"))
PARAMS = ("ptr", "ptr", "i32", "i32", "i32")


@dataclass(slots=True)
class Draft:
    """A program that grows: lines of its body, and the tensors that they have defined."""

    rng: random.Random
    lines: list[str]
    values: list[str]

    def name(self) -> str:
        return f"%t{len(self.lines)}"

    def pick(self) -> str:
        return self.rng.choice(self.values[-4:])

    def pointer(self) -> str:
        p, base = self.name(), self.rng.choice("xxy")
        where = self.rng.choice(["%at", "%at", "%wrapped"])
        self.lines.append(f"{p} = tt.addptr %{base}s, {where} : {P}, {INTS}")
        return p


def program(seed: int) -> str:
    """A kernel ``k(x, y, start, n, wrap)``; y may overlap x."""
    d = Draft(random.Random(seed), list(HEAD), ["%zero"])
    steps = [_load, _load, _reduce, _formula, _formula, _store, _loop, _call]
    for _ in range(d.rng.randint(6, 16)):
        d.rng.choice(steps)(d)
    d.lines.append(f"%last = tt.addptr %ys, %at : {P}, {INTS}")
    d.lines += [f"tt.store %last, {d.pick()}, %m : {P}", "tt.return"]
    args = f"%x: {PTR}, %y: {PTR}, %start: i32, %n: i32, %wrap: i32"
    body = "\n".join(d.lines)
    return (
        f"module {{\n  tt.func public @k({args}) attributes {{noinline = false}} {{\n{body}\n  }}\n"
        f"  tt.func private @twice(%p: {P}, %v: {T}) -> {T} attributes {{noinline = true}} {{\n"
        f"%l = tt.load %p : {P}\n%old = tt.load %p : {P}\n%s = arith.addf %l, %v : {T}\n"
        f"tt.store %p, %s : {P}\ntt.store %p, %old : {P}\n"
        f"%e = arith.subf %l, %s : {T}\ntt.return %e : {T}\n  }}\n}}\n"
    )


def _load(d: Draft) -> None:
    p, v = d.pointer(), d.name()
    mask = d.rng.choice(["", ", %m", ", %m, %low", f", %m, {d.pick()}"])
    d.lines.append(f"{v} = tt.load {p}{mask} : {P}")
    d.values.append(v)


def _reduce(d: Draft) -> None:
    r, at, op = d.name(), len(d.lines), d.rng.choice(["addf", "maxnumf"])
    d.lines += [
        f'{r} = "tt.reduce"({d.pick()}) <{{axis = 0 : i32}}> ({{',
        f"^bb0(%ra{at}: f32, %rb{at}: f32):",
        f"%rc{at} = arith.{op} %ra{at}, %rb{at} : f32",
        f"tt.reduce.return %rc{at} : f32",
        f"}}) : ({T}) -> f32",
        f"%u{at} = tt.splat {r} : f32 -> {T}",
    ]
    d.values.append(f"%u{at}")


def _formula(d: Draft) -> None:
    v = d.name()
    op = d.rng.choice(["arith.addf", "arith.subf", "arith.mulf", "arith.maxnumf", "math.exp"])
    others = "" if op == "math.exp" else f", {d.pick()}"
    d.lines.append(f"{v} = {op} {d.pick()}{others} : {T}")
    d.values.append(v)


def _store(d: Draft) -> None:
    p = d.pointer()
    d.lines.append(f"tt.store {p}, {d.pick()}{d.rng.choice(['', ', %m'])} : {P}")


def _call(d: Draft) -> None:
    p, v = d.pointer(), d.name()
    d.lines.append(f"{v} = tt.call @twice({p}, {d.pick()}) : ({P}, {T}) -> {T}")
    d.values.append(v)


def _loop(d: Draft) -> None:
    """A loop that carries two rows."""
    at, outside = len(d.lines), list(d.values)
    d.lines.append(
        f"%t{at}:2 = scf.for %i{at} = %c0 to %c3 step %c1 iter_args(%a{at} = {d.pick()}, "
        f"%b{at} = {d.pick()}) -> ({T}, {T})  : i32 {{"
    )
    d.values += [f"%a{at}", f"%b{at}"]
    for _ in range(d.rng.randint(1, 3)):
        d.rng.choice([_load, _reduce, _formula, _store, _call])(d)
    d.lines += [
        f"%x{at} = arith.addf %a{at}, {d.pick()} : {T}",
        f"%y{at} = arith.maxnumf %b{at}, {d.pick()} : {T}",
        f"scf.yield %x{at}, %y{at} : {T}, {T}",
        "}",
    ]
    d.values[:] = [*outside, f"%t{at}#1", f"%t{at}#0"]


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
