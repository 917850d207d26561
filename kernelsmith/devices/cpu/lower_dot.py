"""``tt.dot``: one fma a k, k ascending, starting from the accumulator.

Floats accumulate in float32 (float64 for float64 inputs); bfloat16 and float16 products are exact
in float32's fma. float32 inputs are IEEE whatever ``input_precision`` says. Integers wrap.

The left operand is packed once. The right operand is packed a panel of columns at a time, small
enough for the first-level cache; a register tile of ``rows x vectors`` accumulators then runs over
all k of the panel. Neither choice changes the order of a single element's sum.
"""

from contextlib import ExitStack
from dataclasses import dataclass

from kernelsmith.devices.cpu import lower_float as fl
from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.codegen_text import LANES
from kernelsmith.devices.cpu.lower_axis import contiguous_axis
from kernelsmith.devices.cpu.lower_evaluate import evaluate, write_buffer
from kernelsmith.devices.cpu.lower_forms import Form, as_vector, splat, vec, vector_form
from kernelsmith.devices.cpu.lower_nest import fill, over
from kernelsmith.devices.cpu.lower_pack import pack_left, pack_panel
from kernelsmith.devices.cpu.lower_state import Buffer, Context, Lazy, Lowering, index_const
from kernelsmith.devices.cpu.ttir import Op, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """The register tile: ``rows`` of A times ``vectors`` of ``lanes`` columns of B."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def tile_for(m: int, n: int, wide: bool, fma: bool, elem: str) -> Tile:
    """Accumulators fill at most half of the vector registers of the level."""
    lanes = min(LANES, n)
    budget = 16 if wide else 4
    if not fma:
        budget = 1
    if elem == "f64":
        budget = max(1, budget // 2)
    if m < 4:
        vectors = min(n // lanes, max(1, budget // m), 8)
    else:
        vectors = min(n // lanes, max(1, budget // 4))
    return Tile(rows=min(m, max(1, budget // vectors)), vectors=vectors, lanes=lanes)


def dot(lo: Lowering, op: Op, into: Buffer | None = None) -> None:
    """Lowers the op; the result is a buffer (``into`` if given, which may be the accumulator)."""
    result = op.results[0].ty
    elem = {"f16": "f32", "bf16": "f32"}.get(result.elem, result.elem)
    lhs, rhs, acc = op.operands
    out = into or lo.new_buffer(result, result.elem in ("f32", "f64"))
    m, n, k = (*result.shape[-2:], lhs.ty.shape[-1])
    features = lo.em.features
    tile = tile_for(m, n, features.wide, features.fma, elem)
    if not _cheap(lo, acc):
        fill(lo, acc, out)
        source: Value | Buffer = out
    else:
        source = acc
    left_axis, right_axis = contiguous_axis(lo, lhs), contiguous_axis(lo, rhs)
    with ExitStack() as stack:
        batch: tuple[Form, ...] = ()
        for size in result.shape[:-2]:
            batch = (*batch, _count(lo, stack, size, 1))
        left = pack_left(lo, lhs, elem, batch, left_axis)
        column = _count(lo, stack, n, tile.columns)
        panel = pack_panel(lo, rhs, elem, batch, right_axis, column, tile.columns, tile.lanes)
        row = _count(lo, stack, m, tile.rows)
        _kernel(lo, tile, elem, (m, k), left, panel, source, out, (*batch, row, column))
    lo.env[op.results[0]] = out


def _cheap(lo: Lowering, value: Value) -> bool:
    """Whether the accumulator is a buffer or a constant, to be read inside the register tile."""
    bound = lo.env[value]
    return isinstance(bound, Buffer) or (
        isinstance(bound, Lazy) and bound.op.name in ("arith.constant", "tt.splat")
    )


def _count(lo: Lowering, stack: ExitStack, size: int, step: int) -> Form:
    """A loop over ``range(0, size, step)`` kept open by the stack; its index."""
    if size == step:
        return index_const(0)
    loop = stack.enter_context(lo.em.loop(size, step))
    return Form("U", "i64", loop.index, lo.em.depth, 0, False, step)


def _shift(lo: Lowering, at: Form, by: int) -> Form:
    if by == 0:
        return at
    if isinstance(at.val, int):
        return index_const(at.val + by)
    got = lo.em.op(at.level, f"add nuw nsw i64 {at.val}, {by}")
    return Form("U", "i64", got, at.level, 0, False, min(at.align, by & -by))


def _kernel(
    lo: Lowering,
    tile: Tile,
    elem: str,
    sizes: tuple[int, int],
    left: Buffer,
    panel: str,
    source: Value | Buffer,
    out: Buffer,
    index: tuple[Form, ...],
) -> None:
    """One register tile at ``index``: loads accumulators, runs over k, stores them."""
    em = lo.em
    *batch, row, column = index
    ctx = Context(tile.lanes, em.depth)
    places = [
        (*batch, _shift(lo, row, i), _lane(lo, tile, _shift(lo, column, v * tile.lanes)))
        for i in range(tile.rows)
        for v in range(tile.vectors)
    ]
    starts = []
    for place in places:
        form = _accumulator(lo, ctx, source, place, elem)
        starts.append(str(form.val) if tile.lanes == 1 else as_vector(em, form, tile.lanes))
    m, k = sizes
    transposed = left.ty.pointee == "k-major"
    row_bytes, k_bytes = (1, m) if transposed else (k, 1)
    size = left.ty.item_bytes
    done = _k_loop(
        lo, tile, elem, k, starts, left, row, (row_bytes * size, k_bytes * size), panel
    )
    depth = em.depth
    s = Asm(em, depth, tile.lanes if tile.lanes > 1 else 0)
    for place, value in zip(places, done, strict=True):
        if out.ty.elem in ("f16", "bf16"):
            value = fl.from_float(s, out.ty.elem, value)
        kind = "V" if tile.lanes > 1 else "U"
        write_buffer(lo, ctx, out, place, Form(kind, out.ty.elem, value, depth, 0, True))


def _lane(lo: Lowering, tile: Tile, at: Form) -> Form:
    if tile.lanes == 1:
        return at
    return Form("A", "i64", at.val, at.level, 1, False, tile.lanes)


def _accumulator(
    lo: Lowering, ctx: Context, source: Value | Buffer, place: tuple[Form, ...], elem: str
) -> Form:
    from kernelsmith.devices.cpu.lower_evaluate import read_buffer
    from kernelsmith.devices.cpu.lower_pack import widen

    if isinstance(source, Buffer):
        form = read_buffer(lo, ctx, source, place)
    else:
        form = evaluate(lo, ctx, source, place)
    form = widen(lo, ctx, form, elem)
    return vector_form(lo.em, form, ctx.lanes) if ctx.lanes > 1 else form


def _k_loop(
    lo: Lowering,
    tile: Tile,
    elem: str,
    k: int,
    starts: list[str],
    left: Buffer,
    row: Form,
    steps: tuple[int, int],
    panel: str,
) -> list[str]:
    """The chain of fmas. ``steps``: bytes from one row and one k of ``left`` to the next."""
    em, lanes = lo.em, tile.lanes
    t = Asm(em, 0, lanes if lanes > 1 else 0).of(elem)
    scalar = {"f32": "float", "f64": "double"}.get(elem, elem)
    size = left.ty.item_bytes
    offset = em.op(em.depth, f"mul i64 {row.val}, {steps[0]}")
    first = em.op(em.depth, f"getelementptr i8, ptr {left.base}, i64 {offset}")
    with em.loop(k) as loop:
        depth = em.depth
        s = Asm(em, depth, lanes if lanes > 1 else 0)
        names = [loop.carry(t, start) for start in starts]
        at = em.op(depth, f"mul i64 {loop.index}, {tile.columns * size}")
        line = em.op(depth, f"getelementptr i8, ptr {panel}, i64 {at}")
        rights = []
        for v in range(tile.vectors):
            p = em.op(depth, f"getelementptr i8, ptr {line}, i64 {v * lanes * size}")
            rights.append(em.op(depth, f"load {t}, ptr {p}, align {min(64, lanes * size)}"))
        at = em.op(depth, f"mul i64 {loop.index}, {steps[1]}")
        line = em.op(depth, f"getelementptr i8, ptr {first}, i64 {at}")
        for i in range(tile.rows):
            p = em.op(depth, f"getelementptr i8, ptr {line}, i64 {i * steps[0]}")
            one = em.op(depth, f"load {scalar}, ptr {p}, align {size}")
            many = splat(em, scalar, one, depth, lanes) if lanes > 1 else one
            for v in range(tile.vectors):
                name = names[i * tile.vectors + v]
                if elem in ("f32", "f64"):
                    now = fl.fma(s, scalar, many, rights[v], name)
                else:
                    now = s.bin("add", elem, s.bin("mul", elem, many, rights[v]), name)
                loop.update(name, now)
        ends = [new for *_, new in loop.phis]
    return ends


__all__ = ["LANES", "dot", "over", "vec"]
