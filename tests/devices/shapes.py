"""Random programs of shape ops, gathers, scans and reductions over tensors of any rank, each step
done by numpy too."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tests.devices.collective_texts import Place, Shape, arithmetic, kernel, simple, tensor
from tests.devices.test_reduce import reduced
from tests.devices.test_scan import scanned, values
from tests.devices.ttir_texts import Array

MAX_ELEMENTS = 1 << 11
ELEMS = ("i32", "i32", "i8", "bf16", "f32", "i64", "i1")


@dataclass
class Program:
    """Lines so far, and what each name holds."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    held: dict[str, tuple[str, Array]] = field(default_factory=dict)
    count: int = 0

    def add(self, elem: str, array: Array, text: str, name: str = "") -> str:
        """Adds ``name = text``."""
        if not name:
            self.count += 1
            name = f"%s{self.count}"
        if text:
            self.lines.append(f"{name} = {text}")
        self.held[name] = (elem, array)
        return name

    def pick(self, fits: Callable[[str, Array], bool] = lambda e, a: True) -> str:
        names = [n for n, (e, a) in self.held.items() if fits(e, a)]
        return self.rng.choice(names[-12:]) if names else ""


def kind(elem: str, array: Array) -> str:
    return tensor(elem, array.shape)


def split_dims(rng: random.Random, size: int) -> Shape:
    """A random shape of a size, with ones in it."""
    left, dims = size.bit_length() - 1, []
    while left:
        take = rng.randint(1, left)
        dims.append(1 << take)
        left -= take
    for _ in range(rng.choice((0, 0, 1, 2))):
        dims.insert(rng.randint(0, len(dims)), 1)
    return tuple(dims) or (1,)


def _trans(p: Program) -> None:
    name = p.pick()
    elem, a = p.held[name]
    order = list(range(a.ndim))
    p.rng.shuffle(order)
    out = a.transpose(order)
    text = ", ".join(map(str, order))
    p.add(
        elem,
        out,
        f"tt.trans {name} {{order = array<i32: {text}>}} : {kind(elem, a)} -> {kind(elem, out)}",
    )


def _reshape(p: Program) -> None:
    name = p.pick()
    elem, a = p.held[name]
    out = np.ascontiguousarray(a).reshape(split_dims(p.rng, a.size))
    word = p.rng.choice(("", " allow_reorder", " allow_reorder efficient_layout"))
    p.add(elem, out, f"tt.reshape {name}{word} : {kind(elem, a)} -> {kind(elem, out)}")


def _expand(p: Program) -> None:
    name = p.pick(lambda e, a: a.ndim < 6)
    if not name:
        return
    elem, a = p.held[name]
    axis = p.rng.randint(0, a.ndim)
    out = np.expand_dims(a, axis)
    text = f"{{axis = {axis} : i32}} : {kind(elem, a)} -> {kind(elem, out)}"
    p.add(elem, out, f"tt.expand_dims {name} {text}")


def _broadcast(p: Program) -> None:
    name = p.pick(lambda e, a: 1 in a.shape and a.size < MAX_ELEMENTS)
    if not name:
        return
    elem, a = p.held[name]
    shape = list(a.shape)
    axis = p.rng.choice([i for i, d in enumerate(shape) if d == 1])
    shape[axis] = p.rng.choice((2, 4))
    out = np.broadcast_to(a, shape)
    p.add(elem, out, f"tt.broadcast {name} : {kind(elem, a)} -> {kind(elem, out)}")


def _split(p: Program) -> None:
    name = p.pick(lambda e, a: a.shape[-1] == 2 and a.ndim > 1)
    if not name:
        return
    elem, a = p.held[name]
    outs = [a[..., side] for side in (0, 1)]
    p.count += 1
    base = f"%s{p.count}"
    p.lines.append(f"{base}:2 = tt.split {name} : {kind(elem, a)} -> {kind(elem, outs[0])}")
    for side in (0, 1):
        p.add(elem, outs[side], "", f"{base}#{side}")


def _pair(p: Program) -> tuple[str, str, str, Array, Array]:
    """Two names of one type."""
    one = p.pick(lambda e, a: a.size < MAX_ELEMENTS) or p.pick()
    elem, a = p.held[one]
    other = p.pick(lambda e, b: e == elem and b.shape == a.shape)
    return one, other, elem, a, p.held[other][1]


def _join(p: Program) -> None:
    one, other, elem, a, b = _pair(p)
    out = np.stack([a, b], -1)
    p.add(elem, out, f"tt.join {one}, {other} : {kind(elem, a)} -> {kind(elem, out)}")


def _cat(p: Program) -> None:
    one, other, elem, a, b = _pair(p)
    out = np.concatenate([a, b], 0)
    p.add(elem, out, f"tt.cat {one}, {other} : {kind(elem, a)} -> {kind(elem, out)}")


def _arithmetic(p: Program) -> None:
    one, other, elem, a, b = _pair(p)
    if elem == "i1":
        p.add(elem, a ^ b, f"arith.xori {one}, {other} : {kind(elem, a)}")
    elif p.rng.random() < 0.3 and not elem.startswith(("b", "f")):
        p.add("i1", a < b, f"arith.cmpi slt, {one}, {other} : {kind(elem, a)}")
    else:
        word = "f" if elem in ("bf16", "f32") else "i"
        text = f"arith.add{word} {one}, {other} : {kind(elem, a)}"
        p.add(elem, arithmetic("add", elem, a, b), text)


def _where(p: Program) -> None:
    one, other, elem, a, b = _pair(p)
    cond = p.pick(lambda e, c: e == "i1" and c.shape == a.shape)
    if cond:
        chosen = np.where(p.held[cond][1], a, b)
        kinds = f"{kind('i1', a)}, {kind(elem, a)}"
        p.add(elem, chosen, f"arith.select {cond}, {one}, {other} : {kinds}")


def _fold(p: Program) -> None:
    """A reduction or a scan."""
    name = p.pick(lambda e, a: a.ndim > 1 and e != "i1")
    if not name:
        return
    elem, a = p.held[name]
    axis = p.rng.randrange(a.ndim)
    op = p.rng.choice(("add", "max"))
    function = simple(op, elem)
    if p.rng.random() < 0.5:
        out = reduced(function, [a], axis)[0]
        name_, attrs = "tt.reduce", f"axis = {axis} : i32"
    else:
        reverse = p.rng.random() < 0.5
        out = scanned(function, [a], axis, reverse)[0]
        name_, attrs = "tt.scan", f"axis = {axis} : i32, reverse = {str(reverse).lower()}"
    types = f"({kind(elem, a)}) -> {kind(elem, out)}"
    p.count += 1
    result = f"%s{p.count}"
    lines = function.text(name_, [name], attrs, types)
    p.lines += [lines[0].replace("%y", result), *lines[1:]]
    p.add(elem, out, "", result)


def _gather(p: Program) -> None:
    name = p.pick()
    elem, a = p.held[name]
    axis = p.rng.randrange(a.ndim)
    shape = list(a.shape)

    def fits(e: str, b: Array) -> bool:
        rest = [d for i, d in enumerate(b.shape) if i != axis]
        return (
            e in ("i32", "i8", "i64")
            and b.ndim == a.ndim
            and rest == [d for i, d in enumerate(shape) if i != axis]
        )

    places = p.pick(fits)
    if not places:
        return
    held, index = p.held[places]
    out = np.take_along_axis(a, index.astype(np.int64) % a.shape[axis], axis)
    kinds = f"({kind(elem, a)}, {kind(held, index)}) -> {kind(elem, out)}"
    p.add(elem, out, f"tt.gather {name}[{places}] {{axis = {axis} : i32}} : {kinds}")


def _range(p: Program) -> None:
    size = 1 << p.rng.randint(0, 6)
    start = p.rng.choice((0, 0, 1, 7, 100))
    out = np.arange(start, start + size, dtype=np.int32)
    text = f"{{end = {start + size} : i32, start = {start} : i32}} : {kind('i32', out)}"
    p.add("i32", out, f"tt.make_range {text}")


def _histogram(p: Program) -> None:
    name = p.pick(lambda e, a: e in ("i32", "i8", "i64") and a.ndim == 1)
    if not name:
        return
    elem, a = p.held[name]
    mask = p.pick(lambda e, m: e == "i1" and m.shape == a.shape) if p.rng.random() < 0.7 else ""
    bins = 1 << p.rng.randint(0, 7)
    counted = a[p.held[mask][1]] if mask else a
    inside = counted[(counted >= 0) & (counted < bins)]
    out = np.bincount(inside, minlength=bins).astype(np.int32)
    given = f"{name}, {mask}" if mask else name
    p.add("i32", out, f"tt.histogram {given} : {kind(elem, a)} -> {kind('i32', out)}")


MAKERS = (
    _trans, _trans, _reshape, _reshape, _expand, _broadcast, _split, _split, _join, _cat,
    _arithmetic, _arithmetic, _where, _fold, _fold, _gather, _gather, _range, _histogram,
)  # fmt: skip


def program(rng: random.Random, steps: int) -> tuple[str, list[Array], list[Place], list[Array]]:
    """A kernel, its inputs, its outputs' places and what they must be."""
    p = Program(rng)
    ins: list[tuple[str, Shape]] = []
    inputs: list[Array] = []
    for i in range(rng.randint(1, 3)):
        elem = rng.choice(ELEMS[:-1])
        shape = split_dims(rng, 1 << rng.randint(0, 8))
        inputs.append(values(elem, shape, rng.randrange(1000)))
        ins.append((elem, shape))
        p.add(elem, inputs[-1], "", f"%x{i}")
    with np.errstate(all="ignore"):
        for _ in range(steps):
            rng.choice(MAKERS)(p)
    names = [*rng.sample(list(p.held), min(len(p.held), 3)), list(p.held)[-1]]
    outs: list[Place] = []
    wants = []
    for name in dict.fromkeys(names):
        elem, array = p.held[name]
        outs.append((name, elem, array.shape))
        want = array.astype(np.uint8) if elem == "i1" else array
        wants.append(np.ascontiguousarray(want))
    text = kernel(ins, p.lines, outs)
    assert all(math.prod(shape) <= 4 * MAX_ELEMENTS for _, _, shape in outs)
    return text, inputs, outs, wants
