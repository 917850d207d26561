"""Operands of a dot in the arena, in the accumulator's type and in the order they are read."""

from contextlib import ExitStack

from kernelsmith.devices.cpu import lower_float as fl
from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.codegen_text import LANES
from kernelsmith.devices.cpu.lower_evaluate import evaluate
from kernelsmith.devices.cpu.lower_forms import Form, as_vector, llvm
from kernelsmith.devices.cpu.lower_state import Buffer, Context, Lowering, index_const
from kernelsmith.devices.cpu.lower_transpose import transpose16
from kernelsmith.devices.cpu.ttir import Ty, Value


def widen(lo: Lowering, ctx: Context, form: Form, elem: str) -> Form:
    """A form converted to the accumulator's element type."""
    if form.elem == elem:
        return form
    s = Asm(lo.em, form.level, 0 if form.kind == "U" else ctx.lanes)
    text = str(form.val) if form.kind == "U" else as_vector(lo.em, form, ctx.lanes)
    if elem == "i32":
        wide = s.cast("sext", form.elem, text, "i32")
    else:
        wide = fl.to_float(s, form.elem, text)
        if elem == "f64":
            wide = s.cast("fpext", "float", wide, "double")
    return Form(form.kind, elem, wide, form.level, 0, form.dirty)


def _loop(lo: Lowering, stack: ExitStack, size: int, step: int) -> Form:
    if size <= step:
        return index_const(0)
    loop = stack.enter_context(lo.em.loop(size, step))
    return Form("U", "i64", loop.index, lo.em.depth, 0, False, step)


def _add(lo: Lowering, a: Form, b: Form | int) -> Form:
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


def _lane(at: Form, lanes: int) -> Form:
    return at if lanes == 1 else Form("A", "i64", at.val, at.level, 1, False, lanes)


def _put(lo: Lowering, base: str, place: Form, text: str, elem: str, lanes: int) -> None:
    """Stores one vector at an element offset that is a multiple of the lanes."""
    em, size = lo.em, Ty(elem).item_bytes
    t = f"<{lanes} x {llvm(elem)}>" if lanes > 1 else llvm(elem)
    depth = em.depth
    at = em.op(depth, f"mul i64 {place.val}, {size}")
    p = em.op(depth, f"getelementptr i8, ptr {base}, i64 {at}")
    em.do(depth, f"store {t} {text}, ptr {p}, align {min(64, size * lanes)}")


def _text(lo: Lowering, form: Form, lanes: int) -> str:
    return as_vector(lo.em, form, lanes) if lanes > 1 else str(form.val)


def pack_left(
    lo: Lowering, value: Value, elem: str, batch: tuple[Form, ...], axis: int
) -> Buffer:
    """A[m, k] of one batch, dense, rows of k; or rows of m ("k-major") if its loads are
    contiguous along m. Single elements are read from it, so either order serves."""
    m, k = value.ty.shape[-2:]
    k_major = axis == len(value.ty.shape) - 2
    inner, outer = (m, k) if k_major else (k, m)
    lanes = min(LANES, inner)
    buffer = lo.new_buffer(Ty(elem, (m, k), "k-major" if k_major else ""), False)
    with ExitStack() as stack:
        slow = _loop(lo, stack, outer, 1)
        fast = _loop(lo, stack, inner, lanes)
        ctx = Context(lanes, lo.em.depth)
        lane = _lane(fast, lanes)
        place = (*batch, lane, slow) if k_major else (*batch, slow, lane)
        form = widen(lo, ctx, evaluate(lo, ctx, value, place), elem)
        offset = _add(lo, _scaled(lo, slow, inner), fast)
        _put(lo, buffer.base, offset, _text(lo, form, lanes), elem, lanes)
    return buffer


def _scaled(lo: Lowering, at: Form, by: int) -> Form:
    if isinstance(at.val, int):
        return index_const(at.val * by)
    got = lo.em.op(at.level, f"mul nuw nsw i64 {at.val}, {by}")
    return Form("U", "i64", got, at.level, 0, False, at.align * by)


def pack_panel(
    lo: Lowering,
    value: Value,
    elem: str,
    batch: tuple[Form, ...],
    axis: int,
    column: Form,
    columns: int,
    lanes: int,
) -> str:
    """B[k, column : column + columns] as ``[k][columns]``; returns its address."""
    k = value.ty.shape[-2]
    buffer = lo.new_buffer(Ty(elem, (k, columns)), False)
    along_k = axis == len(value.ty.shape) - 2
    if along_k and lanes == LANES and k >= LANES and Ty(elem).item_bytes == 4:
        _pack_transposed(lo, value, elem, batch, column, columns, buffer)
        return buffer.base
    with ExitStack() as stack:
        row = _loop(lo, stack, k, 1)
        fast = _loop(lo, stack, columns, lanes)
        ctx = Context(lanes, lo.em.depth)
        lane = _lane(_add(lo, column, fast), lanes)
        form = widen(lo, ctx, evaluate(lo, ctx, value, (*batch, row, lane)), elem)
        offset = _add(lo, _scaled(lo, row, columns), fast)
        _put(lo, buffer.base, offset, _text(lo, form, lanes), elem, lanes)
    return buffer.base


def _pack_transposed(
    lo: Lowering,
    value: Value,
    elem: str,
    batch: tuple[Form, ...],
    column: Form,
    columns: int,
    buffer: Buffer,
) -> None:
    """Reads along k, which is contiguous, and turns blocks of 16 columns around in registers.
    16-bit elements travel in pairs of k, which halves the shuffles."""
    em, k = lo.em, value.ty.shape[-2]
    paired = value.ty.item_bytes == 2 and k >= 2 * LANES and elem == "f32"
    lanes = 2 * LANES if paired else LANES
    with ExitStack() as stack:
        group = _loop(lo, stack, columns, LANES)
        base = _add(lo, column, group)
        singles = [_add(lo, base, i) for i in range(LANES)]
        start = _loop(lo, stack, k, lanes)
        ctx = Context(lanes, em.depth)
        lane = _lane(start, lanes)
        rows = []
        for single in singles:
            form = evaluate(lo, ctx, value, (*batch, lane, single))
            if not paired:
                form = widen(lo, ctx, form, elem)
            rows.append(as_vector(em, form, lanes))
        depth = em.depth
        if paired:
            rows = [em.op(depth, f"bitcast <32 x i16> {r} to <16 x i32>") for r in rows]
        columns_of = transpose16(em, depth, rows, "i32" if paired else llvm(elem))
        s = Asm(em, depth, LANES)
        offset = _add(lo, _scaled(lo, start, columns), group)
        for j, text in enumerate(columns_of):
            halves = _unpaired(s, value.ty.elem, text) if paired else [text]
            for h, half in enumerate(halves):
                place = _add(lo, offset, (j * len(halves) + h) * columns)
                _put(lo, buffer.base, place, half, elem, LANES)


def _unpaired(s: Asm, elem: str, pairs: str) -> list[str]:
    """float32 vectors of the low and of the high halves of 32-bit lanes."""
    if elem == "bf16":
        low = s.bin("shl", "i32", pairs, s.const("i32", 16))
        high = s.bin("and", "i32", pairs, s.const("i32", -(1 << 16)))
        return [s.cast("bitcast", "i32", x, "float") for x in (low, high)]
    low = s.cast("trunc", "i32", pairs, "i16")
    high = s.cast("trunc", "i32", s.bin("lshr", "i32", pairs, s.const("i32", 16)), "i16")
    return [fl.f16_to_f32(s, x) for x in (low, high)]
