"""Random scalar functions as regions: arithmetic, selects, branches, loops, calls, early exits."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.devices.collective_texts import Region, arithmetic, op_text
from tests.devices.ttir_texts import Array, bf16_float

Scope = dict[str, Array]
Step = Callable[[Scope], None]
FLOATS = ("f16", "bf16", "f32", "f64")
MOVES = ("op", "op", "select", "if", "for", "while", "call")


@dataclass
class Writer:
    """Lines so far and the steps that numpy takes; ``names`` in scope by element type."""

    rng: random.Random
    prefix: str = ""
    lines: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    names: dict[str, list[str]] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    count: int = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%{self.prefix}v{self.count}"

    def pick(self, elem: str) -> str:
        return self.rng.choice(self.names[elem])

    def child(self) -> "Writer":
        """A writer for a nested region: sees what is in scope, adds nothing to it."""
        names = {elem: list(names) for elem, names in self.names.items()}
        return Writer(self.rng, f"{self.prefix}{self.fresh()[1:]}", [], [], names, self.functions)


def wide(elem: str, values: Array) -> Array:
    return bf16_float(values) if elem == "bf16" else values


def _op(w: Writer, elem: str) -> str:
    bits = () if elem in FLOATS else ("and", "or", "xor")
    name = w.rng.choice(("add", "sub", "mul", "max", "min", *bits))
    a, b, out = w.pick(elem), w.pick(elem), w.fresh()
    w.lines.append(f"{out} = {op_text(name, elem)} {a}, {b} : {elem}")
    w.steps.append(lambda s: s.update({out: arithmetic(name, elem, s[a], s[b])}))
    return out


def _condition(w: Writer, elem: str) -> str:
    a, b, out = w.pick(elem), w.pick(elem), w.fresh()
    kind = "cmpf olt" if elem in FLOATS else "cmpi slt"
    w.lines.append(f"{out} = arith.{kind}, {a}, {b} : {elem}")
    w.steps.append(lambda s: s.update({out: wide(elem, s[a]) < wide(elem, s[b])}))
    return out


def _select(w: Writer, elem: str) -> str:
    cond, a, b, out = _condition(w, elem), w.pick(elem), w.pick(elem), w.fresh()
    w.lines.append(f"{out} = arith.select {cond}, {a}, {b} : {elem}")
    w.steps.append(lambda s: s.update({out: np.where(s[cond], s[a], s[b])}))
    return out


def _if(w: Writer, elem: str) -> str:
    cond, out = _condition(w, elem), w.fresh()
    sides = []
    w.lines.append(f"{out} = scf.if {cond} -> ({elem}) {{")
    for closing in ("} else {", "}"):
        inner = w.child()
        steps(inner, elem, 2)
        given = inner.pick(elem)
        sides.append((inner.steps, given))
        w.lines += [*inner.lines, f"scf.yield {given} : {elem}", closing]

    def both(s: Scope) -> None:
        found = []
        for run, given in sides:
            scope = dict(s)
            play(run, scope)
            found.append(scope[given])
        s[out] = np.where(s[cond], found[0], found[1])

    w.steps.append(both)
    return out


def _loop(w: Writer, elem: str, header: Callable[[str, str, str], list[str]], tail: str) -> str:
    """A loop that runs ``%n`` times, 0 to 3, told by an i32 in scope."""
    source, bound, three, out = w.pick("i32"), w.fresh(), w.fresh(), w.fresh()
    inner = w.child()
    carried, first = inner.fresh(), w.pick(elem)
    inner.names[elem].append(carried)
    steps(inner, elem, 2)
    given = inner.pick(elem)
    w.lines += [
        f"{three} = arith.constant 3 : i32",
        f"{bound} = arith.andi {source}, {three} : i32",
        *header(out, carried, f"{first}|{bound}"),
        *inner.lines,
        *tail.replace("GIVEN", given).split("\n"),
    ]

    def iterate(s: Scope) -> None:
        now = s[first]
        for k in range(3):
            scope = {**s, carried: now}
            play(inner.steps, scope)
            now = np.where(k < (s[source] & 3), scope[given], now)
        s[out] = now

    w.steps.append(iterate)
    return out


def _for(w: Writer, elem: str) -> str:
    zero, one, index = w.fresh(), w.fresh(), w.fresh()

    def header(out: str, carried: str, given: str) -> list[str]:
        first, bound = given.split("|")
        return [
            f"{zero} = arith.constant 0 : i32",
            f"{one} = arith.constant 1 : i32",
            f"{out} = scf.for {index} = {zero} to {bound} step {one} "
            f"iter_args({carried} = {first}) -> ({elem})  : i32 {{",
        ]

    return _loop(w, elem, header, f"scf.yield GIVEN : {elem}\n}}")


def _while(w: Writer, elem: str) -> str:
    zero, one, left, more, head, count, next_ = (w.fresh() for _ in range(7))

    def header(out: str, carried: str, given: str) -> list[str]:
        first, bound = given.split("|")
        w.lines += [f"{zero} = arith.constant 0 : i32", f"{one} = arith.constant 1 : i32"]
        return [
            f"{out}:2 = scf.while ({head} = {first}, {left} = {bound}) : ({elem}, i32) -> "
            f"({elem}, i32) {{",
            f"{more} = arith.cmpi sgt, {left}, {zero} : i32",
            f"scf.condition({more}) {head}, {left} : {elem}, i32",
            "} do {",
            f"^bb0({carried}: {elem}, {count}: i32):",
            f"{next_} = arith.subi {count}, {one} : i32",
        ]

    out = _loop(w, elem, header, f"scf.yield GIVEN, {next_} : {elem}, i32\n}}")
    step = w.steps.pop()
    w.steps += [step, lambda s: s.update({f"{out}#0": s[out]})]
    return f"{out}#0"


def _call(w: Writer, elem: str) -> str:
    """A function of two arguments that returns early, or has one block."""
    a, b, out = w.pick(elem), w.pick(elem), w.fresh()
    name = f"f{len(w.functions)}_{out[1:]}"
    inner = Writer(w.rng, "", [], [], {elem: ["%p", "%q"]}, w.functions)
    early = w.rng.random() < 0.5
    cond = _condition(inner, elem) if early else ""
    mark = len(inner.lines)
    for _ in range(2):
        inner.names[elem].append(w.rng.choice((_op, _select))(inner, elem))
    given = inner.pick(elem)
    lines = [*inner.lines, f"tt.return {given} : {elem}"]
    if early:
        lines = [
            *inner.lines[:mark],
            f"cf.cond_br {cond}, ^bb2(%q : {elem}), ^bb1",
            "^bb1:  // pred: ^bb0",
            *inner.lines[mark:],
            f"cf.br ^bb2({given} : {elem})",
            f"^bb2(%z: {elem}):  // 2 preds: ^bb0, ^bb1",
            f"tt.return %z : {elem}",
        ]
    text = "\n".join(lines)
    w.functions.append(
        f"tt.func private @{name}(%p: {elem}, %q: {elem}) -> {elem} "
        f"attributes {{noinline = true}} {{\n{text}\n}}"
    )
    w.lines.append(f"{out} = tt.call @{name}({a}, {b}) : ({elem}, {elem}) -> {elem}")

    def call(s: Scope) -> None:
        scope = {"%p": s[a], "%q": s[b]}
        play(inner.steps, scope)
        s[out] = np.where(scope[cond], scope["%q"], scope[given]) if early else scope[given]

    w.steps.append(call)
    return out


def play(moves: Sequence[Step], scope: Scope) -> None:
    for move in moves:
        move(scope)


_MAKERS: dict[str, Callable[[Writer, str], str]] = {
    "op": _op, "select": _select, "if": _if, "for": _for, "while": _while, "call": _call,
}  # fmt: skip


def steps(w: Writer, elem: str, count: int, moves: Sequence[str] = MOVES) -> None:
    """Adds random steps whose results are of one element type."""
    for _ in range(count):
        move = w.rng.choice(moves)
        if move in ("for", "while") and "i32" not in w.names:
            move = "op"
        if len(w.prefix) > 12 and move in ("if", "for", "while"):
            move = "op"
        w.names[elem].append(_MAKERS[move](w, elem))


def region(rng: random.Random, elems: Sequence[str], moves: Sequence[str] = MOVES) -> Region:
    """A function of two groups of ``elems`` (left and right) that returns one group."""
    count = len(elems)
    args = [f"%a{i}" for i in range(2 * count)]
    w = Writer(rng)
    for name, elem in zip(args, [*elems, *elems], strict=True):
        w.names.setdefault(elem, []).append(name)
    leave = _Leave(w, elems) if "call" in moves and rng.random() < 0.3 else None
    for elem in elems:
        steps(w, elem, rng.randint(1, 3), moves)
    returned = tuple(w.names[elem][-1] if i == 0 else w.pick(elem) for i, elem in enumerate(elems))
    lines = w.lines if leave is None else leave.lines(returned)

    def apply(values: list[Array]) -> list[Array]:
        scope: dict[str, Any] = dict(zip(args, values, strict=True))
        with np.errstate(all="ignore"):
            play(w.steps, scope)
        last = [scope[name] for name in returned]
        return last if leave is None else leave.apply(scope, last)

    given = returned if leave is None else tuple(f"%z{i}" for i in range(count))
    return Region((*elems, *elems), tuple(lines), given, apply, tuple(w.functions))


class _Leave:
    """An early return: made before the steps after it."""

    def __init__(self, w: Writer, elems: Sequence[str]) -> None:
        self._w, self._elems = w, elems
        self._both = w.rng.random() < 0.3  # one branch to one block, with other values each way
        steps(w, elems[0], 1, ("op", "select"))
        self._condition = _condition(w, elems[0])
        self._early = [w.pick(elem) for elem in elems]
        self._mark = len(w.lines)

    def lines(self, returned: Sequence[str]) -> list[str]:
        def target(names: Sequence[str]) -> str:
            return f"^bb9({', '.join(names)} : {', '.join(self._elems)})"

        before, after = self._w.lines[: self._mark], self._w.lines[self._mark :]
        args = ", ".join(f"%z{i}: {elem}" for i, elem in enumerate(self._elems))
        last = f"^bb9({args}):  // 2 preds: ^bb0, ^bb0"
        if self._both:
            branch = f"cf.cond_br {self._condition}, {target(self._early)}, {target(returned)}"
            return [*before, *after, branch, last]
        branch = f"cf.cond_br {self._condition}, {target(self._early)}, ^bb1"
        return [*before, branch, "^bb1:  // pred: ^bb0", *after, f"cf.br {target(returned)}", last]

    def apply(self, scope: Scope, last: list[Array]) -> list[Array]:
        cond = scope[self._condition]
        return [np.where(cond, scope[e], x) for e, x in zip(self._early, last, strict=True)]
