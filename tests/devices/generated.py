"""Random TTIR programs over two overlapping buffers: loads, stores, formulas, reductions,
transposes, loops and branches in any order."""

import random
from dataclasses import dataclass, field

from tests.devices.ttir_texts import function

PTR = "!tt.ptr<f32>"
SHAPES = ((1, 64), (4, 16), (16, 32), (32, 1), (8, 8), (2, 128))


@dataclass
class Program:
    """Lines so far, float tensors in scope, the shape they all have."""

    rng: random.Random
    shape: tuple[int, int]
    lines: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    count: int = 0
    rich: bool = False

    def name(self) -> str:
        self.count += 1
        return f"%t{self.count}"

    def pick(self) -> str:
        return self.rng.choice(self.values)

    def tensor(self, elem: str, shape: tuple[int, ...] | None = None) -> str:
        return f"tensor<{'x'.join(map(str, shape or self.shape))}x{elem}>"


def program(seed: int, *, rich: bool = False) -> tuple[str, tuple[int, int]]:
    """A kernel ``k(x, y, stride, n, m)`` and the shape of its tensors. ``rich``: with scans,
    gathers, maps, cubes of many dimensions and calls too."""
    rng = random.Random(seed)
    p = Program(rng, rng.choice(SHAPES), rich=rich)
    m, n = p.shape
    t = p.tensor
    p.lines = [
        f"%ri = tt.make_range {{end = {m} : i32, start = 0 : i32}} : tensor<{m}xi32>",
        f"%ci = tt.make_range {{end = {n} : i32, start = 0 : i32}} : tensor<{n}xi32>",
        f"%re = tt.expand_dims %ri {{axis = 1 : i32}} : tensor<{m}xi32> -> {t('i32', (m, 1))}",
        f"%ce = tt.expand_dims %ci {{axis = 0 : i32}} : tensor<{n}xi32> -> {t('i32', (1, n))}",
        f"%rb = tt.broadcast %re : {t('i32', (m, 1))} -> {t('i32')}",
        f"%cb = tt.broadcast %ce : {t('i32', (1, n))} -> {t('i32')}",
        f"%ss = tt.splat %stride : i32 -> {t('i32')}",
        f"%ro = arith.muli %rb, %ss : {t('i32')}",
        f"%lin = arith.addi %ro, %cb : {t('i32')}",
        f"%ns = tt.splat %n : i32 -> {t('i32')}",
        f"%mc = arith.cmpi slt, %cb, %ns : {t('i32')}",
        f"%ms = tt.splat %m : i32 -> {t('i32')}",
        f"%mr = arith.cmpi slt, %rb, %ms : {t('i32')}",
        f"%mm = arith.andi %mc, %mr : {t('i1')}",
        f"%cst = arith.constant dense<1.500000e+00> : {t('f32')}",
        f"%cw = arith.remsi %cb, %ns : {t('i32')}",
        f"%wrapped = arith.addi %ro, %cw : {t('i32')}",
        f"%prime = arith.constant dense<97> : {t('i32')}",
        f"%ring = arith.remui %lin, %prime : {t('i32')}",
    ]
    p.values = ["%cst"]
    _load(p)
    _load(p)
    _body(p, rng.randint(4, 14), 0)
    _store(p)
    args = [f"%x: {PTR}", f"%y: {PTR}", "%stride: i32", "%n: i32", "%m: i32"]
    text = function("k", args, [*p.lines, "tt.return"])
    return text.removesuffix("}\n") + "\n".join([*_functions(p), "}\n"]), p.shape


def _body(p: Program, steps: int, depth: int) -> None:
    simple = [_load, _load, _store, _formula, _formula, _formula, _reduction, _turned]
    if p.rich:
        simple += [_scan, _gather, _map, _cube, _cube, _call, _halves]
    for _ in range(steps):
        choice = p.rng.randrange(len(simple) + (2 if depth < 2 else 0))
        if choice < len(simple):
            simple[choice](p)
        elif choice == len(simple):
            _loop(p, depth)
        else:
            _branch(p, depth)


def _address(p: Program) -> str:
    shift, base, offset, pointer = (p.name() for _ in range(4))
    t = p.tensor
    # By the text's length, so that a seed's other choices do not depend on it.
    index = {0: "%wrapped", 1: "%ring"}.get(len(p.lines) % 7, "%lin")
    p.lines += [
        f"{shift} = arith.constant dense<{p.rng.choice([0, 1, 7, 64, 300])}> : {t('i32')}",
        f"{offset} = arith.addi {index}, {shift} : {t('i32')}",
        f"{base} = tt.splat %{p.rng.choice('xy')} : {PTR} -> {t(PTR)}",
        f"{pointer} = tt.addptr {base}, {offset} : {t(PTR)}, {t('i32')}",
    ]
    return pointer


def _load(p: Program) -> None:
    pointer, value = _address(p), p.name()
    mask = p.rng.choice(["", ", %mm", f", %mm, {p.pick()}"])
    p.lines.append(f"{value} = tt.load {pointer}{mask} : {p.tensor(PTR)}")
    p.values.append(value)


def _store(p: Program) -> None:
    pointer, mask = _address(p), p.rng.choice(["", ", %mm"])
    p.lines.append(f"tt.store {pointer}, {p.pick()}{mask} : {p.tensor(PTR)}")


def _formula(p: Program) -> None:
    value, t = p.name(), p.tensor("f32")
    op = p.rng.choice(["addf", "mulf", "subf", "maxnumf", "divf", "negf", "fma", "select"])
    a, b, c = p.pick(), p.pick(), p.pick()
    if op == "select":
        cond = p.name()
        p.lines.append(f"{cond} = arith.cmpf ogt, {a}, {b} : {t}")
        p.lines.append(f"{value} = arith.select {cond}, {c}, {b} : {p.tensor('i1')}, {t}")
    elif op == "fma":
        p.lines.append(f"{value} = math.fma {a}, {b}, {c} : {t}")
    elif op == "negf":
        p.lines.append(f"{value} = arith.negf {a} : {t}")
    else:
        p.lines.append(f"{value} = arith.{op} {a}, {b} : {t}")
    p.values.append(value)


def _reduction(p: Program) -> None:
    """A sum or maximum along an axis, repeated over it again."""
    m, n = p.shape
    axis = p.rng.choice([0, 1])
    short, thin = ((n,), (1, n)) if axis == 0 else ((m,), (m, 1))
    reduced, expanded, value = p.name(), p.name(), p.name()
    t = p.tensor
    op = p.rng.choice(["arith.addf", "arith.maxnumf"])
    p.lines += [
        f'{reduced} = "tt.reduce"({p.pick()}) <{{axis = {axis} : i32}}> ({{',
        "^bb0(%ra: f32, %rz: f32):",
        f"%rc = {op} %ra, %rz : f32",
        "tt.reduce.return %rc : f32",
        f"}}) : ({t('f32')}) -> {t('f32', short)}",
        f"{expanded} = tt.expand_dims {reduced} {{axis = {axis} : i32}} : {t('f32', short)} -> "
        f"{t('f32', thin)}",
        f"{value} = tt.broadcast {expanded} : {t('f32', thin)} -> {t('f32')}",
    ]
    p.values.append(value)


def _turned(p: Program) -> None:
    m, n = p.shape
    turned, value, t = p.name(), p.name(), p.tensor
    p.lines += [
        f"{turned} = tt.trans {p.pick()} {{order = array<i32: 1, 0>}} : {t('f32')} -> "
        f"{t('f32', (n, m))}",
        f"{value} = tt.reshape {turned} : {t('f32', (n, m))} -> {t('f32')}",
    ]
    p.values.append(value)


def _loop(p: Program, depth: int) -> None:
    count = p.rng.choice([1, 2, 3])
    inits = [p.pick() for _ in range(count)]
    args = [p.name() for _ in range(count)]
    result, index, lower, upper, step = (p.name() for _ in range(5))
    pairs = ", ".join(f"{a} = {i}" for a, i in zip(args, inits, strict=True))
    types = ", ".join([p.tensor("f32")] * count)
    p.lines += [
        f"{lower} = arith.constant 0 : i32",
        f"{upper} = arith.constant {p.rng.choice([0, 1, 2, 3])} : i32",
        f"{step} = arith.constant 1 : i32",
        f"{result}:{count} = scf.for {index} = {lower} to {upper} step {step} "
        f"iter_args({pairs}) -> ({types})  : i32 {{",
    ]
    outer = list(p.values)
    p.values = outer + args
    _body(p, p.rng.randint(2, 6), depth + 1)
    p.lines += [f"scf.yield {', '.join(p.pick() for _ in range(count))} : {types}", "}"]
    p.values = outer + [f"{result}#{i}" for i in range(count)]


def _branch(p: Program, depth: int) -> None:
    result, cond, bound, t = p.name(), p.name(), p.name(), p.tensor("f32")
    p.lines += [
        f"{bound} = arith.constant {p.rng.choice([3, 9])} : i32",
        f"{cond} = arith.cmpi sgt, %n, {bound} : i32",
        f"{result} = scf.if {cond} -> ({t}) {{",
    ]
    outer = list(p.values)
    for closing in ("} else {", "}"):
        _body(p, p.rng.randint(1, 4), depth + 1)
        p.lines += [f"scf.yield {p.pick()} : {t}", closing]
        p.values = list(outer)
    p.values = [*outer, result]


def _scan(p: Program) -> None:
    value, t = p.name(), p.tensor("f32")
    axis, reverse = p.rng.choice([0, 1]), p.rng.choice(["true", "false"])
    p.lines += [
        f'{value} = "tt.scan"({p.pick()}) <{{axis = {axis} : i32, reverse = {reverse}}}> ({{',
        "^bb0(%ra: f32, %rz: f32):",
        f"%rc = {p.rng.choice(['arith.addf', 'arith.maxnumf'])} %ra, %rz : f32",
        "tt.scan.return %rc : f32",
        f"}}) : ({t}) -> {t}",
    ]
    p.values.append(value)


def _gather(p: Program) -> None:
    value, t = p.name(), p.tensor("f32")
    axis, index = p.rng.choice([0, 1]), p.rng.choice(["%lin", "%rb", "%cb"])
    kinds = f"({t}, {p.tensor('i32')}) -> {t}"
    p.lines.append(f"{value} = tt.gather {p.pick()}[{index}] {{axis = {axis} : i32}} : {kinds}")
    p.values.append(value)


def _map(p: Program) -> None:
    """A function that branches, over two tensors."""
    value, t = p.name(), p.tensor("f32")
    a, b = p.pick(), p.pick()
    p.lines += [
        f'{value} = "tt.map_elementwise"({a}, {b}) <{{pack = 1 : i32}}> ({{',
        "^bb0(%ma: f32, %mb: f32):",
        "%mc = arith.cmpf olt, %ma, %mb : f32",
        "cf.cond_br %mc, ^bb2(%ma : f32), ^bb1",
        "^bb1:  // pred: ^bb0",
        "%md = arith.subf %ma, %mb : f32",
        "cf.br ^bb2(%md : f32)",
        "^bb2(%me: f32):  // 2 preds: ^bb0, ^bb1",
        "tt.map_elementwise.return %me : f32",
        f"}}) : ({t}, {t}) -> {t}",
    ]
    p.values.append(value)


def _cube(p: Program) -> None:
    """A step of a sort: along one dimension of 2x2x...x2, or a sum over it."""
    size = p.shape[0] * p.shape[1]
    dims = (2,) * (size.bit_length() - 1)
    axis = p.rng.randrange(len(dims))
    rest, thin = dims[:axis] + dims[axis + 1 :], (*dims[:axis], 1, *dims[axis + 1 :])
    cube, sum_, wide, back, mixed, value = (p.name() for _ in range(6))
    t = p.tensor
    p.lines += [
        f"{cube} = tt.reshape {p.pick()} : {t('f32')} -> {t('f32', dims)}",
        f'{sum_} = "tt.reduce"({cube}) <{{axis = {axis} : i32}}> ({{',
        "^bb0(%ra: f32, %rz: f32):",
        "%rc = arith.addf %ra, %rz : f32",
        "tt.reduce.return %rc : f32",
        f"}}) : ({t('f32', dims)}) -> {t('f32', rest)}",
        f"{wide} = tt.expand_dims {sum_} {{axis = {axis} : i32}} : {t('f32', rest)} -> "
        f"{t('f32', thin)}",
        f"{back} = tt.broadcast {wide} : {t('f32', thin)} -> {t('f32', dims)}",
        f"{mixed} = arith.subf {back}, {cube} : {t('f32', dims)}",
        f"{value} = tt.reshape {mixed} : {t('f32', dims)} -> {t('f32')}",
    ]
    p.values.append(value)


def _halves(p: Program) -> None:
    """Pairs taken apart and joined the other way round."""
    m, n = p.shape
    half = (m * n // 2,)
    pairs, split, joined, value, t = p.name(), p.name(), p.name(), p.name(), p.tensor
    p.lines += [
        f"{pairs} = tt.reshape {p.pick()} : {t('f32')} -> {t('f32', (*half, 2))}",
        f"{split}:2 = tt.split {pairs} : {t('f32', (*half, 2))} -> {t('f32', half)}",
        f"{joined} = tt.join {split}#1, {split}#0 : {t('f32', half)} -> {t('f32', (*half, 2))}",
        f"{value} = tt.reshape {joined} : {t('f32', (*half, 2))} -> {t('f32')}",
    ]
    p.values.append(value)


def _call(p: Program) -> None:
    """A function that takes tensors, stores, and may return early."""
    value, t, pointers = p.name(), p.tensor("f32"), p.tensor(PTR)
    a, b, address = p.pick(), p.pick(), _address(p)
    if p.rng.random() < 0.4:
        p.lines.append(f"{value} = tt.call @loads({address}) : ({pointers}) -> {t}")
    else:
        given = f"({pointers}, {t}, {t}, i32) -> {t}"
        p.lines.append(f"{value} = tt.call @early({address}, {a}, {b}, %n) : {given}")
    p.values.append(value)


def _functions(p: Program) -> list[str]:
    """What :func:`_call` calls."""
    t, pointers = p.tensor("f32"), p.tensor(PTR)
    if not p.rich:
        return []
    return [
        f"tt.func private @early(%q: {pointers}, %a: {t}, %b: {t}, %n: i32) -> {t} "
        "attributes {noinline = true} {",
        "%c = arith.constant 9 : i32",
        "%more = arith.cmpi sgt, %n, %c : i32",
        f"%l = tt.load %q : {pointers}",
        f"cf.cond_br %more, ^bb2(%l : {t}), ^bb1",
        "^bb1:  // pred: ^bb0",
        f"%s = arith.addf %a, %b : {t}",
        f"tt.store %q, %s : {pointers}",
        f"%d = arith.addf %s, %l : {t}",
        f"cf.br ^bb2(%d : {t})",
        f"^bb2(%r: {t}):  // 2 preds: ^bb0, ^bb1",
        f"tt.return %r : {t}",
        "}",
        f"tt.func private @loads(%q: {pointers}) -> {t} {{",
        f"%l = tt.load %q : {pointers}",
        f"tt.return %l : {t}",
        "}",
    ]
