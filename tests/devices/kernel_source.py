"""Random Triton kernels on int32: loads, stores and atomics on overlapping memory between nested
loops, branches, early returns, reductions, scans and shape ops.

Every name has one type, and loops give it back, so that the front end takes each of them."""

import random
from dataclasses import dataclass, field


@dataclass
class Scope:
    """Names that may be used: tensors, scalars, and those that a loop may give a new value."""

    tensors: list[str]
    scalars: list[str]
    free: set[str] = field(default_factory=set)

    def inner(self) -> "Scope":
        return Scope(list(self.tensors), list(self.scalars), set(self.free))


@dataclass
class Source:
    """Lines so far. ``size``: elements of a tensor."""

    rng: random.Random
    size: int
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def tensor(self, scope: Scope) -> str:
        return self.rng.choice(scope.tensors)

    def scalar(self, scope: Scope) -> str:
        return self.rng.choice([*scope.scalars, str(self.rng.randint(-5, 5))])

    def condition(self, scope: Scope) -> str:
        comparison = self.rng.choice(["<", ">", "==", "!="])
        return f"{self.rng.choice(scope.scalars)} {comparison} {self.scalar(scope)}"


def kernel(seed: int) -> tuple[str, int]:
    """The source of ``k(x, y, n, N)`` and the value of N."""
    rng = random.Random(seed)
    s = Source(rng, rng.choice([1, 2, 8, 16, 32, 64, 128]))
    scope = Scope(["i", "a"], ["n", "pid"])
    s.lines = [
        "def k(x, y, n, N: tl.constexpr):",
        "    pid = tl.program_id(0)",
        "    i = tl.arange(0, N)",
        "    a = tl.load(x + i)",
    ]
    _fresh(s, scope, 1)
    for _ in range(rng.randint(4, 14)):
        _statement(s, scope, 1, 0)
    for name in scope.tensors[-4:]:
        s.add(1, f"tl.store(y + i + {rng.randint(0, 70)}, {name})")
    for name in scope.scalars[-2:]:
        s.add(1, f"tl.store(y + {rng.randint(300, 400)}, {name})")
    return "\n".join(s.lines) + "\n", s.size


def _expression(s: Source, scope: Scope) -> str:
    """A tensor."""
    rng, a = s.rng, s.tensor(scope)
    b = rng.choice([s.tensor(scope), s.scalar(scope)])
    choice = rng.randrange(12)
    if choice < 4:
        return f"({a} {rng.choice('+-*&|^')} {b})"
    if choice == 4:
        comparison = rng.choice(["<", ">", "==", "<="])
        return f"tl.where({a} {comparison} {b}, {s.tensor(scope)}, {s.scalar(scope)})"
    if choice == 5:
        return f"tl.maximum({a}, {b})"
    if choice == 6:
        at = f"i * {rng.choice([1, 1, 2, 3])} + {rng.randint(0, 3)}"
        mask = f"{s.tensor(scope)} > {rng.randint(-3, 3)}"
        return f"tl.load(x + ({at}), mask={mask}, other={rng.choice([a, '0'])})"
    if choice == 7:
        return f"tl.load(x + ({a} & 63))"
    if choice == 8:
        return f"tl.cumsum({a}, 0)"
    if choice == 9 and s.size > 1:
        return f"tl.reshape(tl.trans(tl.reshape({a}, (2, N // 2))), (N,))"
    return f"tl.abs({a})" if choice == 10 else f"({a} * 3 + i)"


def _number(s: Source, scope: Scope) -> str:
    """A scalar."""
    choice = s.rng.randrange(6)
    if choice < 2:
        return f"tl.{('sum', 'max')[choice]}({s.tensor(scope)}, 0)"
    if choice == 2:
        return f"tl.load(x + ({s.rng.choice(scope.scalars)} & 63))"
    return f"({s.rng.choice(scope.scalars)} {s.rng.choice('+-*^')} {s.scalar(scope)})"


def _statement(s: Source, scope: Scope, depth: int, nesting: int) -> None:
    rng, choice = s.rng, s.rng.randrange(16)
    if choice < 4:
        name = s.name()
        s.add(depth, f"{name} = {_expression(s, scope)}")
        scope.tensors.append(name)
    elif choice == 4:
        name = s.name()
        s.add(depth, f"{name} = {_number(s, scope)}")
        scope.scalars.append(name)
    elif choice < 8:
        names = [t for t in (*scope.tensors, *scope.scalars) if t in scope.free]
        if names:
            name = rng.choice(names)
            make = _expression if name in scope.tensors else _number
            s.add(depth, f"{name} = {make(s, scope)}")
    elif choice < 12:
        _memory(s, scope, depth, choice)
    elif nesting < 3:
        _fresh(s, scope, depth)
        (_for, _if, _while, _written_out)[choice - 12](s, scope, depth, nesting)


def _memory(s: Source, scope: Scope, depth: int, choice: int) -> None:
    rng, value = s.rng, s.tensor(scope)
    mask = f"mask={s.tensor(scope)} > {rng.randint(-4, 4)}"
    if choice == 8:
        at = f"i * {rng.choice([1, 2])} + {rng.randint(0, 8)}"
        s.add(depth, f"tl.store(y + {at}, {value}, {mask})")
    elif choice == 9:
        s.add(depth, f"tl.store(x + ({s.tensor(scope)} & 63), {value})")
    elif choice == 10:
        name, kind = s.name(), rng.choice(["add", "max"])
        s.add(depth, f"{name} = tl.atomic_{kind}(x + ({s.tensor(scope)} & 31), {value}, {mask})")
        scope.tensors.append(name)
    else:
        name, at = s.name(), rng.choice(scope.scalars)
        s.add(depth, f"{name} = tl.atomic_add(x + ({at} & 31), {rng.choice(scope.scalars)})")
        scope.scalars.append(name)


def _fresh(s: Source, scope: Scope, depth: int) -> None:
    """New names for a loop or branch to give values to."""
    for _ in range(s.rng.randint(1, 2)):
        name = s.name()
        s.add(depth, f"{name} = {_expression(s, scope)}")
        scope.tensors.append(name)
        scope.free.add(name)
    name = s.name()
    s.add(depth, f"{name} = {s.rng.choice(scope.scalars)} + 0")
    scope.scalars.append(name)
    scope.free.add(name)


def _body(s: Source, scope: Scope, depth: int, nesting: int, most: int) -> None:
    inner, start = scope.inner(), len(s.lines)
    for _ in range(s.rng.randint(1, most)):
        _statement(s, inner, depth, nesting + 1)
    if len(s.lines) == start:
        s.add(depth, f"tl.store(y + i, {s.tensor(scope)})")


def _for(s: Source, scope: Scope, depth: int, nesting: int) -> None:
    spans = ["0, 2, 1", "0, n, 1", "1, n + 2, 2", "3, 0, -1", "n, 0, 1", "0, 3, 2"]
    index, span = s.name(), s.rng.choice(spans)
    kind = "range" if "-1" in span else s.rng.choice(["range", "tl.range"])
    s.add(depth, f"for {index} in {kind}({span}):")
    inner = scope.inner()
    inner.scalars.append(index)
    _body(s, inner, depth + 1, nesting, 5)


def _if(s: Source, scope: Scope, depth: int, nesting: int) -> None:
    s.add(depth, f"if {s.condition(scope)}:")
    _body(s, scope, depth + 1, nesting, 4)
    if s.rng.random() < 0.6:
        s.add(depth, "else:")
        _body(s, scope, depth + 1, nesting, 4)


def _while(s: Source, scope: Scope, depth: int, nesting: int) -> None:
    count, rng = s.name(), s.rng
    s.add(depth, f"{count} = {rng.choice(['0', 'n - n', '1'])} + n * 0")
    names = [t for t in scope.scalars if t in scope.free]
    also = f" and ({rng.choice(names)} < 1000000)" if rng.random() < 0.4 else ""
    s.add(depth, f"while ({count} < {rng.choice(['n', '2', '3'])}){also}:")
    inner = scope.inner()
    inner.scalars.append(count)
    _body(s, inner, depth + 1, nesting, 4)
    s.add(depth + 1, f"{count} = {count} + 1")
    scope.scalars.append(count)


def _written_out(s: Source, scope: Scope, depth: int, nesting: int) -> None:
    """An early return, or a loop that the front end writes out."""
    if nesting == 0 and s.rng.random() < 0.5:
        s.add(depth, f"if {s.condition(scope)}:")
        s.add(depth + 1, f"tl.store(y + i, {s.tensor(scope)})")
        s.add(depth + 1, "return")
        return
    s.add(depth, f"for {s.name()} in tl.static_range(0, {s.rng.randint(0, 3)}):")
    _body(s, scope, depth + 1, nesting, 3)
