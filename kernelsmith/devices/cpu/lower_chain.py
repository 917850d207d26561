"""A loop of rank-1 updates is a matrix product: ``for k: acc = fma(a[m, k], b[k, n], acc)``.

Run as written, such a loop walks the whole accumulator and gathers a column of b at every k.
Here the loop's index becomes a vector of lanes and whole blocks of k go through the register
tiles of :mod:`lower_product`: the same fma for the same element in the same order, so the bits are
those of the loop, and of ``tl.dot``. What is left over below a block runs as the loop it is.
"""

from dataclasses import dataclass, replace

from kernelsmith.devices.cpu.codegen_text import branch
from kernelsmith.devices.cpu.lower_axis import constant_of
from kernelsmith.devices.cpu.lower_carry import delta
from kernelsmith.devices.cpu.lower_forms import Form, affine, const
from kernelsmith.devices.cpu.lower_pack import Operand, plus
from kernelsmith.devices.cpu.lower_product import Product, multiply
from kernelsmith.devices.cpu.lower_state import (
    Buffer,
    Index,
    Lazy,
    Lowering,
    Scalar,
    Shifted,
    index_const,
)
from kernelsmith.devices.cpu.ttir import Op, Ty, Value
from kernelsmith.devices.cpu.ttir_ops import ELEMENTWISE, SHAPE

#: Most k values that one block covers; a block's size is a multiple of GRAIN.
BLOCK = 256
GRAIN = 32
_PURE = ELEMENTWISE | frozenset(SHAPE) | {"tt.load", "arith.constant"}


@dataclass(frozen=True, slots=True)
class Chain:
    """A loop that matches: its accumulator argument and the operands of the fma by what they
    vary along. ``steps``: other carried values and what one iteration adds to them (pointers in
    bytes), as scalars defined outside of the loop with a factor."""

    loop: Op
    acc: Value
    left: Value
    right: Value
    rows: int
    columns: int
    steps: dict[Value, tuple[Value, list[tuple[Value, int]]]]


def match(
    lo: Lowering, loop: Op, deltas: dict[Value, list[tuple[Value, int]] | None]
) -> Chain | None:
    """The chain that an ``scf.for`` is, or None. ``deltas``: by carried argument, the uniform
    scalars an iteration adds to it (None: carried otherwise)."""
    body = loop.regions[0]
    if lo.plain or constant_of(lo, loop.operands[2]) != 1 or loop.attrs.get("unsigned"):
        return None
    if any(op.name not in _PURE or op.regions for op in body.ops[:-1]):
        return None
    accs = [arg for arg in body.args[1:] if deltas[arg] is None]
    if len(accs) != 1 or accs[0].ty.elem != "f32" or len(accs[0].ty.shape) not in (1, 2):
        return None
    acc = accs[0]
    new = body.ops[-1].operands[body.args.index(acc) - 1]
    fma = lo.definer.get(new)
    if fma is None or fma.name != "math.fma" or fma.operands[2] is not acc:
        return None
    if lo.uses[acc] != [fma] or lo.uses[new] != [body.ops[-1]] or acc in fma.operands[:2]:
        return None
    steps = {}
    for arg, init in zip(body.args[1:], loop.operands[3:], strict=True):
        found = deltas[arg]
        if found is None:
            continue
        if any(lo.home.get(lo.definer[s]) is body for s, _ in found if _inside(lo, s, body)):
            return None
        steps[arg] = (init, found)
    a, b = fma.operands[:2]
    shape = acc.ty.shape
    rows, columns = (1, shape[0]) if len(shape) == 1 else shape
    last = len(shape) - 1
    for left, right in ((a, b), (b, a)):
        free = len(shape) == 1 or not varies(lo, right, 0)
        if not varies(lo, left, last) and free:
            return Chain(loop, acc, left, right, rows, columns, steps)
    return None


def _inside(lo: Lowering, value: Value, body: object) -> bool:
    op = lo.definer.get(value)
    return op is not None and lo.home.get(op) is body and op.name != "arith.constant"


def varies(lo: Lowering, value: Value, axis: int) -> bool:
    """Whether a tensor may differ along an axis."""
    shape = value.ty.shape
    if not shape or shape[axis] == 1:
        return False
    op = lo.definer.get(value)
    if op is None:
        return True
    if op.name in ("tt.splat", "arith.constant"):
        return False
    if op.name == "tt.broadcast":
        return varies(lo, op.operands[0], axis)
    if op.name == "tt.expand_dims":
        new = op.attrs["axis"]
        assert isinstance(new, int)
        return axis != new and varies(lo, op.operands[0], axis - (axis > new))
    if op.name == "tt.trans":
        order = op.attrs["order"]
        assert isinstance(order, tuple)
        return varies(lo, op.operands[0], order[axis])
    if op.name in ELEMENTWISE or op.name == "tt.load":
        return any(varies(lo, o, axis) for o in op.operands)
    return True


def blocks(lo: Lowering, chain: Chain, buffer: Buffer, lower: Form, upper: Form) -> str:
    """Emits the whole blocks; returns how many iterations they cover (an i64 operand).
    ``lower`` and ``upper`` are 64-bit; ``buffer`` holds the accumulator."""
    em, level = lo.em, lo.em.depth
    span = em.op(level, f"sub i64 {upper.val}, {lower.val}")
    more = em.op(level, f"icmp sgt i64 {span}, 0")
    span = em.op(level, f"select i1 {more}, i64 {span}, i64 0")
    covered = em.op(level, f"and i64 {span}, {-GRAIN}")
    some = em.op(level, f"icmp ne i64 {covered}, 0")
    for op in chain.loop.regions[0].ops[:-1]:
        for result in op.results:
            lo.env[result] = Lazy(op)

    def run() -> None:
        with em.loop(covered, BLOCK) as loop:
            start = Form("U", "i64", loop.index, em.depth, 0, False, BLOCK)
            rest = em.op(em.depth, f"sub i64 {covered}, {loop.index}")
            less = em.op(em.depth, f"icmp slt i64 {rest}, {BLOCK}")
            trips = em.op(em.depth, f"select i1 {less}, i64 {rest}, i64 {BLOCK}")
            left = _operand(lo, chain, chain.left, chain.rows, lower, start, rows=True)
            right = _operand(lo, chain, chain.right, chain.columns, lower, start, rows=False)
            product = Product(
                left=replace(left, trips=trips),
                right=replace(right, trips=trips),
                elem="f32",
                source=buffer,
                out=buffer,
                rank=len(chain.acc.ty.shape),
            )
            multiply(lo, product)

    branch(em, level, some, run)
    return covered


def _operand(
    lo: Lowering, chain: Chain, value: Value, size: int, lower: Form, start: Form, *, rows: bool
) -> Operand:
    """One side of the product; the loop's index is bound to ``lower + start + k`` at each read."""
    rank = len(chain.acc.ty.shape)
    narrow = narrow_source(lo, value)

    def place(at: Form, k: Form) -> tuple[Value, Index]:
        bind_iteration(lo, chain, lower, _sum(lo, start, k))
        zero = index_const(0)
        if not narrow.ty.shape:
            return narrow, ()
        if rank == 1:
            return narrow, (zero if rows else at,)
        return narrow, ((at, zero) if rows else (zero, at))

    along = _along(lo, chain, narrow)
    return Operand(place=place, elem=narrow.ty.elem, size=size, k=BLOCK, along_k=along, trips=BLOCK)


def narrow_source(lo: Lowering, value: Value) -> Value:
    """What a side repeats along the other side's axis, and the 16-bit tensor behind an exact
    widening to float32: less to read and to turn around."""
    op = lo.definer.get(value)
    if op is not None and op.name in ("tt.broadcast", "tt.splat"):
        return narrow_source(lo, op.operands[0])
    if op is not None and op.name == "arith.extf" and op.operands[0].ty.elem in ("bf16", "f16"):
        return op.operands[0]
    return value


def _sum(lo: Lowering, start: Form, k: Form) -> Form:
    if k.kind == "U":
        return plus(lo, start, k)
    base = plus(lo, start, Form("U", "i64", k.val, k.level, 0, False, k.align))
    return Form("A", "i64", base.val, base.level, k.step, False, base.align)


def bind_iteration(lo: Lowering, chain: Chain, lower: Form, done: Form) -> None:
    """Binds the loop's arguments for the iteration(s) after ``done`` (``U``, or lanes of it)."""
    body = chain.loop.regions[0]
    index = affine(lo.em, "add", done, lower)
    assert index is not None
    elem = body.args[0].ty.elem
    if elem != "i64":
        val = index.val
        if isinstance(val, str):
            val = lo.em.op(index.level, f"trunc i64 {val} to {elem}")
        index = Form(index.kind, elem, val, index.level, index.step)
    lo.env[body.args[0]] = Scalar(index)
    for arg, (init, found) in chain.steps.items():
        if not found:
            lo.env[arg] = lo.env[init]
            continue
        elem = "i64" if arg.ty.elem == "ptr" else arg.ty.elem
        total: Form = const(0, elem)
        for source, unit in found:
            total = _accumulate(lo, total, done, source, unit, elem)
        lo.env[arg] = Shifted(init, total)


def _accumulate(lo: Lowering, total: Form, done: Form, source: Value, unit: int, elem: str) -> Form:
    """total + done * step."""
    by = delta(lo, source, unit)
    count = done
    if elem != "i64":
        val = done.val
        if isinstance(val, str):
            val = lo.em.op(done.level, f"trunc i64 {val} to {elem}")
        count = Form(done.kind, elem, val, done.level, done.step)
    level = lo.em.depth if isinstance(by, str) else 0
    scaled = affine(lo.em, "mul", count, Form("U", elem, by, min(level, done.level)))
    assert scaled is not None
    moved = affine(lo.em, "add", scaled, total)
    assert moved is not None
    return moved


def _along(lo: Lowering, chain: Chain, value: Value) -> bool:
    """Whether the loads of a side are contiguous along the loop's index."""
    op = lo.definer.get(value)
    if op is None:
        return False
    if op.name == "tt.load":
        return growth(lo, chain, op.operands[0]) == Ty(op.results[0].ty.elem).item_bytes
    return any(_along(lo, chain, o) for o in op.operands if o.ty.elem not in ("i1", "ptr"))


def growth(lo: Lowering, chain: Chain, value: Value) -> int | None:
    """How much an integer or pointer (bytes) grows per iteration; None if not a constant."""
    body = chain.loop.regions[0]
    if value is body.args[0]:
        return 1
    if value in chain.steps:
        total = 0
        for source, unit in chain.steps[value][1]:
            number = constant_of(lo, source)
            if number is None:
                return None
            total += number * max(unit, 1)
        return total
    op = lo.definer.get(value)
    if op is None or lo.home.get(op) is not body or op.name in ("arith.constant", "tt.make_range"):
        return 0
    grown = [growth(lo, chain, o) for o in op.operands]
    if all(g == 0 for g in grown):
        return 0
    if any(g is None for g in grown):
        return None
    a, b = grown[0] or 0, (grown[1] or 0) if len(grown) > 1 else 0
    if op.name in SHAPE or op.name in ("arith.extsi", "arith.index_cast"):
        return a
    if op.name == "arith.addi":
        return a + b
    if op.name == "arith.subi":
        return a - b
    if op.name == "tt.addptr":
        return a + b * Ty(op.results[0].ty.pointee).item_bytes
    if op.name == "arith.muli":
        for moving, other in ((a, op.operands[1]), (b, op.operands[0])):
            factor = constant_of(lo, other)
            if factor is not None and moving:
                return moving * factor
    return None
