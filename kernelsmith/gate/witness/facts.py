"""What a kernel's IR says of its arithmetic: accumulators, products, roundings, calls."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields

from kernelsmith.devices.cpu.ttir import Op, Value
from kernelsmith.gate.witness.flow import ADDS, Flow, adds
from kernelsmith.gate.witness.graph import FOLDS

DIGITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}
"""Significant bits of a sum in each type; 8-bit floats have fewer than any."""
NARROWEST = 4
APPROXIMATE = frozenset(
    f"math.{name}" for name in ("exp", "exp2", "log", "log2", "sin", "cos", "erf", "tanh", "powf")
)
"""Functions whose last bits are the device's own."""
APPROXIMATE_ON_GPU = frozenset({"arith.divf", "math.sqrt", "math.rsqrt"})
"""Functions that round correctly, step by step, on the CPU device alone."""
_SYMBOL = re.compile(r'symbol = "([^"]*)"')
_PRECISION = "inputPrecision"
_IMPRECISE = "maxNumImpreciseAcc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Of one kernel, or of several put together.

    ``accumulators``: ("reduction", "f32") for every sum of floats: reductions, scans, dots, values
    that a loop carries, and additions of parts of one tensor. ``dots``: input precision of dots in
    float32, and how many products of 8-bit floats a dot may add up imprecisely. ``approximate``,
    ``extern``: functions that are the device's own, symbols of a library. ``ops``: names of all.
    ``address_products``: types of products of two variables (a row and a stride, say) in addresses:
    one in 32 bits wraps where one in 64 does not.
    ``counts``: products and sums, roundings and calls, by words.
    """

    accumulators: frozenset[tuple[str, str]] = frozenset()
    dots: frozenset[str] = frozenset()
    approximate: frozenset[str] = frozenset()
    extern: frozenset[str] = frozenset()
    reductions: frozenset[str] = frozenset()
    ops: frozenset[str] = frozenset()
    address_products: frozenset[str] = frozenset()
    counts: Mapping[str, int] = field(default_factory=dict)


SETS = tuple(f.name for f in fields(Facts) if f.name != "counts")
SHOWN = tuple(name for name in SETS if name != "ops")


def facts_of(flow: Flow, text: str) -> Facts:
    """The facts of a kernel."""
    ops = [step for step in flow.graph.steps if isinstance(step, Op)]
    counts: Counter[str] = Counter()
    for op in ops:
        counts.update(_told(flow, op))
    folds = [op for op in ops if op.name in FOLDS]
    return Facts(
        accumulators=frozenset(found for op in ops for found in _accumulators(flow, op)),
        dots=frozenset(found for op in ops if op.name == "tt.dot" for found in _precision(op)),
        approximate=frozenset(op.name for op in ops) & (APPROXIMATE | APPROXIMATE_ON_GPU),
        ops=frozenset(op.name for op in ops),
        address_products=_address_products(flow, ops),
        extern=frozenset(_SYMBOL.findall(text)),
        reductions=frozenset(
            f"{'sum' if adds(op) else 'choice'} over axis {op.attrs['axis']} of {op.operands[0].ty}"
            for op in folds
        ),
        counts=counts,
    )


def together(all_of: Iterable[Facts], *, most: bool) -> Facts:
    """Several kernels as one: what any says; counts added up, or the ``most`` of any."""
    held = list(all_of)
    counts: Counter[str] = Counter()
    for one in held:
        if most:
            counts |= Counter(one.counts)
        else:
            counts.update(one.counts)
    sets = {name: frozenset().union(*(getattr(one, name) for one in held)) for name in SETS}
    return Facts(**sets, counts=counts)


def _told(flow: Flow, op: Op) -> Iterable[str]:
    """What an op counts as, beside its name."""
    if op.name == "math.fma":
        yield "products rounded with a sum (fma)"
    elif op.name in ADDS:
        made = [flow.graph.made.get(v) for v in op.operands]
        if any(one is not None and one.name == "arith.mulf" for one in made):
            yield "products rounded before a sum"
    elif op.name in ("arith.truncf", "tt.fp_to_fp") and op.results[0].ty.is_float:
        yield f"roundings {op.operands[0].ty.elem} to {op.results[0].ty.elem}"
    elif op.name == "tt.call":
        yield "calls that are not inlined"


def _accumulators(flow: Flow, op: Op) -> Iterable[tuple[str, str]]:
    elem = op.results[0].ty.elem if op.results and op.results[0].ty.is_float else ""
    if not elem:
        return
    if op.name in FOLDS and adds(op):
        yield ("reduction" if op.name == "tt.reduce" else "scan"), elem
    elif op.name == "tt.dot":
        yield "dot", elem
    elif (op.name in ADDS or op.name == "math.fma") and op.results[0] in flow.nodes:
        fronts = [flow.of(v).front for v in op.operands]
        if any(v in flow.graph.inside for front in fronts for v in front):
            return  # of a reduction, which counts as itself
        nodes = [flow.nodes[v] for front in fronts for v in front]
        if any(node.kind == "carry" for node in nodes):
            yield "loop", elem
        elif all(node.kind == "part" for node in nodes) and len(nodes) > 1:
            yield "pairs", elem


def _address_products(flow: Flow, ops: Iterable[Op]) -> frozenset[str]:
    todo = [op.operands[1] for op in ops if op.name == "tt.addptr"]
    seen, found = set(todo), set[str]()
    while todo:
        value = todo.pop()
        made = flow.graph.made.get(value)
        product = made is not None and made.name == "arith.muli"
        if product and not any(_is_constant(flow, v) for v in flow.graph.into(value)):
            found.add(value.ty.elem)
        for each in flow.graph.into(value):
            if each not in seen:
                seen.add(each)
                todo.append(each)
    return frozenset(found)


def _is_constant(flow: Flow, value: Value) -> bool:
    made = flow.graph.made.get(value)
    while made is not None and made.name in ("tt.splat", "arith.extsi", "tt.broadcast"):
        made = flow.graph.made.get(made.operands[0])
    return made is not None and made.name == "arith.constant"


def _precision(op: Op) -> Iterable[str]:
    if op.operands[0].ty.elem == "f32":
        yield str(op.attrs.get(_PRECISION, "ieee"))
    imprecise = op.attrs.get(_IMPRECISE, 0)
    if isinstance(imprecise, int) and imprecise > 0 and op.operands[0].ty.item_bytes == 1:
        yield f"{imprecise} products of 8-bit floats"


def broken(found: Facts, seed: Facts, device: str) -> str:
    """What a kernel does that none may unless its seed does; "" if it keeps to it."""
    least = min((DIGITS.get(elem, NARROWEST) for _, elem in seed.accumulators), default=24)
    for kind, elem in sorted(found.accumulators):
        if DIGITS.get(elem, NARROWEST) < least:
            return f"sums in {elem} ({kind}), narrower than any sum of the seed"
    wrong = found.dots - (seed.dots or {"ieee"})
    if wrong:
        have = ", ".join(sorted(seed.dots)) or "ieee"
        return f"has a dot of {min(wrong)} where the seed's are {have}"
    foreign = found.extern - seed.extern
    if foreign:
        return f"calls {min(foreign)} of a library, which the seed does not"
    new = found.approximate - seed.approximate
    if device == "cpu":
        new -= APPROXIMATE_ON_GPU
    if new:
        return f"uses {min(new)}, whose last bits are the device's; the seed does not"
    return ""


def differences(found: Facts, seed: Facts) -> list[str]:
    """Where the arithmetic of two differs, a line each: what the seed has -> what this has."""
    lines = []
    for name in SHOWN:
        a, b = (sorted(_word(one) for one in getattr(each, name)) for each in (seed, found))
        if a != b:
            words = name.replace("_", " ")
            lines.append(f"{words}: {', '.join(a) or '–'} → {', '.join(b) or '–'}")
    for sign, names in (("+", found.ops - seed.ops), ("−", seed.ops - found.ops)):
        if names:
            lines.append(f"ops: {sign} {', '.join(sorted(names))}")
    for key in sorted({*seed.counts, *found.counts}):
        before, after = seed.counts.get(key, 0), found.counts.get(key, 0)
        if before != after:
            lines.append(f"{key}: {before} → {after}")
    return lines


def _word(one: str | tuple[str, str]) -> str:
    return one if isinstance(one, str) else " ".join(one)
