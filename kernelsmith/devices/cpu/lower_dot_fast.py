"""``tl.dot`` with few rows on a weight tile that lies contiguous along k in memory.

While the tile's mask is all true, decided at run time, it is turned in registers and goes straight
into the fmas (:func:`micro_dot.dot_rows`), without a packed copy. Each element is the same chain
of fmas as on the general way.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kernelsmith.devices.cpu import micro_dot
from kernelsmith.devices.cpu.codegen_text import branch
from kernelsmith.devices.cpu.lower_evaluate import Index, evaluate
from kernelsmith.devices.cpu.lower_forms import Form, as_vector
from kernelsmith.devices.cpu.lower_state import (
    Buffer,
    Context,
    Lazy,
    Lowering,
    Scalar,
    index_const,
)
from kernelsmith.devices.cpu.ttir import Op, Value

#: With more rows a packed copy of b pays for itself.
_ROWS_UP_TO = 16
#: Longest mask that is tested in one vector.
_MAX_MASK = 1024


@dataclass(frozen=True, slots=True)
class Turned:
    """A [BK, BN] operand whose memory is rows of n, contiguous along k: element (k, n) is at
    ``base + n * row_bytes + k * item_bytes``. ``whole`` is an i1 operand: whether all of it may
    be read."""

    item: str
    base: str
    row_bytes: str
    whole: str


def turned_tile(lo: Lowering, op: Op) -> Turned | None:
    """How b of a dot lies in memory, if the dot is one that :func:`call` takes."""
    a, b, acc = (operand.ty for operand in op.operands[:3])
    if (
        not lo.em.features.fma
        or len(acc.shape) != 2
        or {acc.elem, op.results[0].ty.elem} != {"f32"}
        or a.shape[0] > _ROWS_UP_TO
        or b.shape[0] == 1
        or not _contiguous(lo, op.operands[1])
    ):
        return None
    found = _through(lo, op.operands[1], (index_const(0), _lanes(b.shape[1])))
    assert found is not None
    load, at = found
    item = load.results[0].ty.elem
    if not micro_dot.fits(a.shape[0], b.shape[0], b.shape[1], item):
        return None
    before = _mark(lo)
    pointer = evaluate(lo, Context(b.shape[1], lo.em.depth), load.operands[0], at)
    whole = _all_true(lo, load.operands[1]) if len(load.operands) > 1 else "true"
    if pointer.kind != "A" or whole is None:
        _back(lo, before)
        return None
    return Turned(item, str(pointer.val), str(pointer.step), whole)


def call(lo: Lowering, op: Op, b: Turned, a: Buffer, acc: Buffer) -> None:
    """acc += a @ b. ``a`` is dense float32 [BM, BK], or [BK, BM] where its type says k-major."""
    (bm, bk), bn = op.operands[0].ty.shape, op.operands[1].ty.shape[1]
    em, a_turned = lo.em, a.ty.pointee == "k-major"
    name = f"dot_rows.{bm}.{bk}.{bn}.{b.item}.{int(a_turned)}"
    text = micro_dot.dot_rows(name, bm, bk, bn, b.item, "noinline #0", a_turned=a_turned)
    em.functions.setdefault(name, text)
    em.declarations.update(micro_dot.DECLARATIONS)
    operands = f"ptr {acc.base}, ptr {a.base}, ptr {b.base}, i64 {b.row_bytes}"
    em.do(em.depth, f"call void @{name}({operands})")


def either(lo: Lowering, b: Turned, fast: Callable[[], None], general: Callable[[], None]) -> None:
    """``fast`` where all of b may be read, else ``general``."""
    if b.whole == "true":
        fast()
        return
    em, level = lo.em, lo.em.depth
    branch(em, level, b.whole, fast)
    branch(em, level, em.op(level, f"xor i1 {b.whole}, true"), general)


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


def _contiguous(lo: Lowering, value: Value) -> bool:
    """Whether a loaded [BK, BN] operand's elements along k are neighbours in memory, whatever
    the index along n."""
    em = lo.em
    probe = Form("U", "i64", "%probe", em.depth)
    found = _through(lo, value, (_lanes(value.ty.shape[0]), probe))
    if found is None:
        return False
    load, at = found
    if load.operands[0].ty.shape[0] == 1 or load.operands[0].ty.shape[1] == 1:
        return False
    before = _mark(lo)
    pointer = evaluate(lo, Context(value.ty.shape[0], em.depth), load.operands[0], at)
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
