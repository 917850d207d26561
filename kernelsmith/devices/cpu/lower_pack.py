"""Operands of a matrix product in the arena, in the accumulator's type and reading order."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from kernelsmith.devices.cpu import lower_float as fl
from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.codegen_text import LANES
from kernelsmith.devices.cpu.lower_evaluate import evaluate
from kernelsmith.devices.cpu.lower_forms import Form, as_vector, llvm
from kernelsmith.devices.cpu.lower_masks import Masks, versioned
from kernelsmith.devices.cpu.lower_state import Buffer, Context, Index, Lowering, index_const
from kernelsmith.devices.cpu.lower_transpose import transpose16
from kernelsmith.devices.cpu.ttir import Ty, Value

#: Where (row or column, k) of an operand is: a value and an index. One of the two has the lanes.
Place = Callable[[Form, Form], tuple[Value, Index]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One side of a product: ``size`` rows (left) or columns (right) by ``k``. ``along_k``: its
    loads are contiguous along k. ``trips``: how many of the k values there are this time, a
    multiple of 32 where it is an operand."""

    place: Place
    elem: str
    size: int
    k: int
    along_k: bool
    trips: int | str


def read(lo: Lowering, side: Operand, lanes: int, spots: list[tuple[Form, Form]]) -> list[Form]:
    """The operand at some spots (row or column, k): one vector of ``lanes`` each."""
    ctx = Context(lanes, lo.em.depth)
    masks = Masks(lo, ctx)

    def get(ctx: Context) -> list[Form]:
        return [evaluate(lo, ctx, *side.place(*spot)) for spot in spots]

    if lanes == 1:
        return get(ctx)
    for spot in spots:
        masks.visit(*side.place(*spot))
    return versioned(lo, ctx, masks, get)


def widen(lo: Lowering, lanes: int, form: Form, elem: str) -> Form:
    """A form converted to the accumulator's element type."""
    if form.elem == elem:
        return form
    s = Asm(lo.em, form.level, 0 if form.kind == "U" else lanes)
    text = str(form.val) if form.kind == "U" else as_vector(lo.em, form, lanes)
    if elem == "i32":
        wide = s.cast("sext", form.elem, text, "i32")
    else:
        wide = fl.to_float(s, form.elem, text)
        if elem == "f64" and form.elem != "f64":
            wide = s.cast("fpext", "float", wide, "double")
    return Form(form.kind, elem, wide, form.level, 0, form.dirty)


def counted(lo: Lowering, stack: ExitStack, size: int | str, step: int) -> Form:
    """A loop over ``range(0, size, step)`` kept open by the stack; its index."""
    if isinstance(size, int) and size <= step:
        return index_const(0)
    loop = stack.enter_context(lo.em.loop(size, step))
    return Form("U", "i64", loop.index, lo.em.depth, 0, False, step)


def plus(lo: Lowering, a: Form, b: Form | int) -> Form:
    """Sum of two non-negative indices."""
    other = index_const(b) if isinstance(b, int) else b
    if isinstance(a.val, int) and isinstance(other.val, int):
        return index_const(a.val + other.val)
    if other.val == 0:
        return a
    if a.val == 0:
        return other
    level = max(a.level, other.level)
    got = lo.em.op(level, f"add nuw nsw i64 {a.val}, {other.val}")
    return Form("U", "i64", got, level, 0, False, min(a.align, other.align))


def times(lo: Lowering, at: Form, by: int) -> Form:
    """An index times a constant."""
    if isinstance(at.val, int):
        return index_const(at.val * by)
    if by == 1:
        return at
    got = lo.em.op(at.level, f"mul nuw nsw i64 {at.val}, {by}")
    return Form("U", "i64", got, at.level, 0, False, at.align * by)


def lane(at: Form, lanes: int) -> Form:
    """Lanes that run on from an index."""
    return at if lanes == 1 else Form("A", "i64", at.val, at.level, 1, False, lanes)


def text_of(lo: Lowering, form: Form, lanes: int) -> str:
    """The form's operand: a vector, or a scalar for one lane."""
    return as_vector(lo.em, form, lanes) if lanes > 1 else str(form.val)


def put(lo: Lowering, base: str, place: Form, text: str, elem: str, lanes: int) -> None:
    """Stores one vector at an element offset that is a multiple of the lanes."""
    em, size = lo.em, Ty(elem).item_bytes
    t = f"<{lanes} x {llvm(elem)}>" if lanes > 1 else llvm(elem)
    at = times(lo, place, size)
    p = em.op(em.depth, f"getelementptr i8, ptr {base}, i64 {at.val}")
    em.do(em.depth, f"store {t} {text}, ptr {p}, align {min(64, size * lanes)}")


def pack_left(lo: Lowering, side: Operand, elem: str) -> Buffer:
    """A[m, k] as rows of k; or as rows of m (``pointee`` "k-major") if its loads are contiguous
    along m. Single elements are read from it, so either order serves."""
    inner, outer = (side.k, side.size) if side.along_k else (side.size, side.k)
    lanes = min(LANES, inner)
    mark = "" if side.along_k else "k-major"
    buffer = lo.new_buffer(Ty(elem, (side.size, side.k), mark), False)
    with ExitStack() as stack:
        slow = counted(lo, stack, outer if side.along_k else side.trips, 1)
        fast = counted(lo, stack, side.trips if side.along_k else inner, lanes)
        along = lane(fast, lanes)
        at, k = (slow, along) if side.along_k else (along, slow)
        form = widen(lo, lanes, read(lo, side, lanes, [(at, k)])[0], elem)
        offset = plus(lo, times(lo, slow, inner), fast)
        put(lo, buffer.base, offset, text_of(lo, form, lanes), elem, lanes)
    return buffer


def pack_panel(
    lo: Lowering, side: Operand, elem: str, column: Form, columns: int, lanes: int
) -> str:
    """B[k, column : column + columns] as ``[k][columns]``; returns its address."""
    buffer = lo.new_buffer(Ty(elem, (side.k, columns)), False)
    if side.along_k and lanes == LANES and side.k >= LANES and Ty(elem).item_bytes == 4:
        _pack_transposed(lo, side, elem, column, columns, buffer)
        return buffer.base
    with ExitStack() as stack:
        row = counted(lo, stack, side.trips, 1)
        fast = counted(lo, stack, columns, lanes)
        along = lane(plus(lo, column, fast), lanes)
        form = widen(lo, lanes, read(lo, side, lanes, [(along, row)])[0], elem)
        offset = plus(lo, times(lo, row, columns), fast)
        put(lo, buffer.base, offset, text_of(lo, form, lanes), elem, lanes)
    return buffer.base


def block_k(side: Operand, elem: str) -> int:
    """How many k one transposed block of 16 columns covers: 32 for 16-bit elements, which travel
    in pairs of k and so need half the shuffles."""
    paired = side.elem in ("f16", "bf16") and side.k >= 2 * LANES and elem == "f32"
    return 2 * LANES if paired else LANES


def transposed(
    lo: Lowering, side: Operand, elem: str, columns: list[Form], start: Form
) -> list[str]:
    """16 columns of B over ``block_k`` values of k: one vector over the columns for each k."""
    em, span = lo.em, block_k(side, elem)
    paired = span > LANES
    along = lane(start, span)
    forms = read(lo, side, span, [(column, along) for column in columns])
    if not paired:
        forms = [widen(lo, span, form, elem) for form in forms]
    rows = [as_vector(em, form, span) for form in forms]
    depth = em.depth
    if paired:
        rows = [em.op(depth, f"bitcast <32 x i16> {r} to <16 x i32>") for r in rows]
    turned = transpose16(em, depth, rows, "i32" if paired else llvm(elem))
    if not paired:
        return turned
    s = Asm(em, depth, LANES)
    return [half for pairs in turned for half in _unpaired(s, side.elem, pairs)]


def _pack_transposed(
    lo: Lowering, side: Operand, elem: str, column: Form, columns: int, buffer: Buffer
) -> None:
    """Reads along k, which is contiguous, and turns blocks of 16 columns around in registers."""
    with ExitStack() as stack:
        group = counted(lo, stack, columns, LANES)
        base = plus(lo, column, group)
        singles = [plus(lo, base, i) for i in range(LANES)]
        start = counted(lo, stack, side.trips, block_k(side, elem))
        offset = plus(lo, times(lo, start, columns), group)
        for j, text in enumerate(transposed(lo, side, elem, singles, start)):
            put(lo, buffer.base, plus(lo, offset, j * columns), text, elem, LANES)


def _unpaired(s: Asm, elem: str, pairs: str) -> list[str]:
    """float32 vectors of the low and of the high halves of 32-bit lanes."""
    if elem == "bf16":
        low = s.bin("shl", "i32", pairs, s.const("i32", 16))
        high = s.bin("and", "i32", pairs, s.const("i32", -(1 << 16)))
        return [s.cast("bitcast", "i32", x, "float") for x in (low, high)]
    low = s.cast("trunc", "i32", pairs, "i16")
    high = s.cast("trunc", "i32", s.bin("lshr", "i32", pairs, s.const("i32", 16)), "i16")
    return [fl.f16_to_f32(s, x) for x in (low, high)]
