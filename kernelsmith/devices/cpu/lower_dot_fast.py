"""``tl.dot`` on float32 tiles through the blocked loops of :mod:`micro_dot`.

Operands go into dense float32 tiles first. A weight tile that lies contiguous along k in memory
is not gathered: while its mask is all true, decided at run time, it is turned in registers;
otherwise the general way packs it. Either way each element is the same chain of fmas.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kernelsmith.devices.cpu import micro_dot
from kernelsmith.devices.cpu.codegen_text import branch
from kernelsmith.devices.cpu.lower_evaluate import Index, evaluate, write_buffer
from kernelsmith.devices.cpu.lower_forms import Form, as_vector
from kernelsmith.devices.cpu.lower_nest import fill, lane_axis, over
from kernelsmith.devices.cpu.lower_state import (
    Buffer,
    Context,
    Lazy,
    Lowering,
    Scalar,
    index_const,
)
from kernelsmith.devices.cpu.ttir import Op, Ty, Value

Widen = Callable[[Lowering, Context, Form, str], Form]

#: Up to here turning b for every 8 rows beats packing it once.
_ROWS_UP_TO = 32
#: Longest mask that is tested in one vector.
_MAX_MASK = 1024


@dataclass(frozen=True, slots=True)
class Turned:
    """A [BK, BN] operand whose memory is rows of n, contiguous along k: element (k, n) is at
    ``base + n * row_bytes + k * item_bytes``. ``mask`` is its load's, None without one."""

    item: str
    base: str
    row_bytes: str
    mask: Value | None


def applies(lo: Lowering, op: Op) -> bool:
    """Whether the op is a 2-D float32 accumulation that the blocked loops take."""
    a, b, acc = (operand.ty for operand in op.operands[:3])
    return (
        lo.em.features.fma
        and op.results[0].ty.elem == "f32"
        and acc.elem == "f32"
        and len(acc.shape) == 2
        and a.elem in ("bf16", "f16", "f32")
        and b.elem in ("bf16", "f16", "f32")
        and b.shape[1] % micro_dot.LANES == 0
    )


def dot(lo: Lowering, op: Op, widen: Widen) -> None:
    """Lowers the op, in place where nothing else reads the accumulator."""
    a, b = op.operands[:2]
    (bm, bk), bn = a.ty.shape, b.ty.shape[1]
    out = _accumulator(lo, op)
    a_turned = _contiguous(lo, a, 0) and not _contiguous(lo, a, 1)
    lhs = _pack(lo, a, widen, turned=a_turned)
    turned = _turned(lo, b)

    def general() -> None:
        rhs = _pack(lo, b, widen, turned=False)
        _tile(lo, out, lhs, rhs.base, (bm, bk, bn), a_turned)

    if turned is None or not micro_dot.fits(bm, bk, bn, turned.item):
        general()
    else:
        _either(lo, turned, general, lambda: _fast(lo, out, lhs, turned, (bm, bk, bn), a_turned))
    lo.env[op.results[0]] = out


def _accumulator(lo: Lowering, op: Op) -> Buffer:
    """The buffer the dot adds to, holding operand 2; that operand's own when it dies here."""
    acc = op.operands[2]
    bound = lo.env[acc]
    block = lo.home[op]
    definer = lo.definer.get(acc)
    here = acc in block.args or (definer is not None and lo.home[definer] is block)
    if isinstance(bound, Buffer) and bound.dirty and here and lo.uses.get(acc) == [op]:
        return bound
    out = lo.new_buffer(op.results[0].ty, True)
    fill(lo, acc, out)
    return out


def _fast(
    lo: Lowering,
    out: Buffer,
    lhs: Buffer,
    b: Turned,
    sizes: tuple[int, int, int],
    a_turned: bool,
) -> None:
    bm, bk, bn = sizes
    em = lo.em
    if bm > _ROWS_UP_TO:
        packed = lo.new_buffer(Ty("f32", (bk, bn)), False)
        name = f"pack_rows.{bk}.{bn}.{b.item}"
        text = micro_dot.pack_rows(name, bk, bn, b.item, "noinline #0")
        em.functions.setdefault(name, text)
        em.do(em.depth, f"call void @{name}(ptr {packed.base}, ptr {b.base}, i64 {b.row_bytes})")
        _tile(lo, out, lhs, packed.base, sizes, a_turned)
        return
    name = f"dot_rows.{bm}.{bk}.{bn}.{b.item}.{int(a_turned)}"
    text = micro_dot.dot_rows(name, bm, bk, bn, b.item, "noinline #0", a_turned=a_turned)
    em.functions.setdefault(name, text)
    em.declarations.update(micro_dot.DECLARATIONS)
    em.do(
        em.depth,
        f"call void @{name}(ptr {out.base}, ptr {lhs.base}, ptr {b.base}, i64 {b.row_bytes})",
    )


def _tile(
    lo: Lowering,
    out: Buffer,
    lhs: Buffer,
    rhs: str,
    sizes: tuple[int, int, int],
    a_turned: bool,
) -> None:
    bm, bk, bn = sizes
    em = lo.em
    name = f"dot_tile.{bm}.{bk}.{bn}.{int(a_turned)}"
    text = micro_dot.dot_tile(name, bm, bk, bn, "noinline #0", a_turned=a_turned)
    em.functions.setdefault(name, text)
    em.declarations.update(micro_dot.DECLARATIONS)
    em.do(em.depth, f"call void @{name}(ptr {out.base}, ptr {lhs.base}, ptr {rhs})")


def _pack(lo: Lowering, value: Value, widen: Widen, *, turned: bool) -> Buffer:
    """The operand as a dense float32 tile, or its transpose."""
    shape = value.ty.shape
    buffer = lo.new_buffer(Ty("f32", shape[::-1] if turned else shape), False)

    def body(ctx: Context, index: Index) -> None:
        form = widen(lo, ctx, evaluate(lo, ctx, value, index), "f32")
        write_buffer(lo, ctx, buffer, index[::-1] if turned else index, form)

    over(lo, shape, 0 if turned else lane_axis(shape), body)
    return buffer


def _either(lo: Lowering, b: Turned, general: Callable[[], None], fast: Callable[[], None]) -> None:
    """``fast`` where all of b's mask is true, else ``general``."""
    if b.mask is None:
        fast()
        return
    em, level = lo.em, lo.em.depth
    whole = _all_true(lo, b.mask)
    if whole is None:
        general()
        return
    branch(em, level, whole, fast)
    partial = em.op(level, f"xor i1 {whole}, true")
    branch(em, level, partial, general)


def _all_true(lo: Lowering, mask: Value) -> str | None:
    """An i1 operand: whether every element of a mask is true; None if that is not cheap."""
    bound = lo.env[mask]
    if isinstance(bound, Scalar):
        return str(bound.form.val)
    if isinstance(bound, Lazy):
        op = bound.op
        if op.name == "arith.andi":
            sides = [_all_true(lo, operand) for operand in op.operands]
            if None in sides:
                return None
            return lo.em.op(lo.em.depth, f"and i1 {sides[0]}, {sides[1]}")
        if op.name in ("tt.broadcast", "tt.expand_dims", "tt.splat", "tt.trans", "tt.reshape"):
            return _all_true(lo, op.operands[0])
    size = mask.ty.size
    if len([dim for dim in mask.ty.shape if dim > 1]) > 1 or size > _MAX_MASK:
        return None
    ctx = Context(size, lo.em.depth)
    form = evaluate(lo, ctx, mask, tuple(_lanes(dim) for dim in mask.ty.shape))
    if form.kind == "U":
        return str(form.val)
    kind, name = f"<{size} x i1>", f"llvm.vector.reduce.and.v{size}i1"
    lo.em.declare(name, f"i1 @{name}({kind})")
    level = max(form.level, 0)
    return lo.em.op(level, f"call i1 @{name}({kind} {as_vector(lo.em, form, size)})")


def _lanes(dim: int) -> Form:
    """Index of a whole axis in one vector."""
    if dim == 1:
        return index_const(0)
    return Form("A", "i64", 0, 0, 1, False, dim)


def _through(lo: Lowering, value: Value, index: Index) -> tuple[Op, Index] | None:
    """The load behind a value and the load's index for an index of the value; None if there is
    more than widening and transposing between them."""
    bound = lo.env[value]
    if not isinstance(bound, Lazy):
        return None
    op = bound.op
    if op.name == "tt.load":
        return op, index
    if op.name == "arith.extf":
        return _through(lo, op.operands[0], index)
    if op.name == "tt.trans" and len(index) == 2:
        return _through(lo, op.operands[0], index[::-1])
    return None


def _contiguous(lo: Lowering, value: Value, axis: int) -> bool:
    """Whether a loaded 2-D operand's elements along ``axis`` are neighbours in memory, whatever
    the index along the other axis."""
    em = lo.em
    probe = Form("U", "i64", "%probe", em.depth)
    index = [probe, probe]
    index[axis] = _lanes(value.ty.shape[axis])
    found = _through(lo, value, tuple(index))
    if found is None or value.ty.shape[axis] == 1:
        return False
    load, at = found
    if load.operands[0].ty.shape[0] == 1 or load.operands[0].ty.shape[1] == 1:
        return False
    before = _mark(lo)
    pointer = evaluate(lo, Context(value.ty.shape[axis], em.depth), load.operands[0], at)
    # What was emitted only served to find the form; ``%probe`` does not exist.
    _back(lo, before)
    return pointer.kind == "A" and pointer.step == load.results[0].ty.item_bytes


def _mark(lo: Lowering) -> list[tuple[int, str]]:
    """Where the text of every stream stands."""
    return [(len(stream.lines), stream.label) for stream in lo.em.streams]


def _back(lo: Lowering, mark: list[tuple[int, str]]) -> None:
    """Takes back all text emitted since :func:`_mark`."""
    for stream, (length, label) in zip(lo.em.streams, mark, strict=True):
        del stream.lines[length:]
        stream.label = label


def _turned(lo: Lowering, value: Value) -> Turned | None:
    """How the operand lies in memory, if it is a load contiguous along k and even along n."""
    if value.ty.shape[0] == 1 or not _contiguous(lo, value, 0):
        return None
    found = _through(lo, value, (index_const(0), _lanes(value.ty.shape[1])))
    assert found is not None
    load, at = found
    item = load.results[0].ty.elem
    if item not in micro_dot.CHUNK:
        return None
    before = _mark(lo)
    pointer = evaluate(lo, Context(value.ty.shape[1], lo.em.depth), load.operands[0], at)
    if pointer.kind != "A":
        _back(lo, before)
        return None
    mask = load.operands[1] if len(load.operands) > 1 else None
    return Turned(item, str(pointer.val), str(pointer.step), mask)
