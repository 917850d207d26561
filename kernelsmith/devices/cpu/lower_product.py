"""Matrix products: acc[m, n] = fma(a[m, k], b[k, n], acc[m, n]) for k ascending, in register tiles.

The left operand is packed once. The right operand is packed a panel of columns at a time, small
enough for the first-level cache; a tile of ``rows x vectors`` accumulators then runs over all k of
the panel. With few rows the panel would be read only once: blocks of 16 columns are then used
straight from the registers they were transposed in. No choice here changes the order of a single
element's sum.
"""

from contextlib import ExitStack
from dataclasses import dataclass

from kernelsmith.devices.cpu import lower_float as fl
from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.codegen_text import LANES
from kernelsmith.devices.cpu.lower_evaluate import evaluate, read_buffer, write_buffer
from kernelsmith.devices.cpu.lower_forms import Form, llvm, splat, vector_form
from kernelsmith.devices.cpu.lower_pack import (
    Operand,
    block_k,
    counted,
    lane,
    pack_left,
    pack_panel,
    plus,
    text_of,
    times,
    transposed,
    widen,
)
from kernelsmith.devices.cpu.lower_state import Buffer, Context, Index, Lowering, index_const
from kernelsmith.devices.cpu.ttir import Value

#: With at most this many rows, transposed blocks are used from registers: with AVX-512 and without.
DIRECT_ROWS = {True: 16, False: 4}
#: Accumulators that fit into registers beside a transposed block; a block is transposed again for
#: every so many rows.
_DIRECT_CHAINS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """What to multiply. ``source``: where accumulators start, a buffer or a tensor that is cheap
    to evaluate; ``out``: where they end, possibly the same buffer. ``batch``: leading indices of
    both. ``rank``: of the accumulator; 1 means that there is one row and no row index."""

    left: Operand
    right: Operand
    elem: str
    source: Value | Buffer
    out: Buffer
    batch: Index = ()
    rank: int = 2

    def place(self, row: Form, column: Form) -> Index:
        return (*self.batch, column) if self.rank == 1 else (*self.batch, row, column)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """The register tile: ``rows`` of A times ``vectors`` of ``lanes`` columns of B."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def tile_for(lo: Lowering, m: int, n: int, elem: str) -> Tile:
    """Accumulators fill at most half of the vector registers of the CPU level."""
    lanes = min(LANES, n)
    budget = 16 if lo.em.features.wide else 4
    if not lo.em.features.fma:
        budget = 1
    if elem == "f64":
        budget = max(1, budget // 2)
    if m < 4:
        vectors = min(n // lanes, max(1, budget // m), 8)
    else:
        vectors = min(n // lanes, max(1, budget // 4))
    return Tile(rows=min(m, max(1, budget // vectors)), vectors=vectors, lanes=lanes)


def multiply(lo: Lowering, p: Product, *, packed: bool = False) -> None:
    """Emits the product at the innermost open level. ``packed``: also where it could be direct."""
    m, n = p.left.size, p.right.size
    left = pack_left(lo, p.left, p.elem)
    if direct(lo, p) and not packed:
        _multiply_direct(lo, p, left)
        return
    tile = tile_for(lo, m, n, p.elem)
    with ExitStack() as stack:
        column = counted(lo, stack, n, tile.columns)
        panel = pack_panel(lo, p.right, p.elem, column, tile.columns, tile.lanes)
        row = counted(lo, stack, m, tile.rows)
        _tile(lo, p, tile, left, panel, row, column)


def _strides(p: Product, left: Buffer) -> tuple[int, int]:
    """Bytes from one row and from one k of the packed left operand to the next."""
    size = left.ty.item_bytes
    if left.ty.pointee == "k-major":
        return size, p.left.size * size
    return p.left.k * size, size


def _accumulator(lo: Lowering, ctx: Context, p: Product, place: Index) -> str:
    if isinstance(p.source, Buffer):
        form = read_buffer(lo, ctx, p.source, place)
    else:
        form = evaluate(lo, ctx, p.source, place)
    form = widen(lo, ctx.lanes, form, p.elem)
    return text_of(lo, vector_form(lo.em, form, ctx.lanes) if ctx.lanes > 1 else form, ctx.lanes)


def _finish(lo: Lowering, ctx: Context, p: Product, place: Index, value: str) -> None:
    """Stores one accumulator vector in the result's type."""
    depth, elem = lo.em.depth, p.out.ty.elem
    if elem not in ("f32", "f64") and p.elem == "f32":
        value = fl.from_float(Asm(lo.em, depth, ctx.lanes if ctx.lanes > 1 else 0), elem, value)
    form = Form("V" if ctx.lanes > 1 else "U", elem, value, depth, 0, True)
    write_buffer(lo, ctx, p.out, place, form)


def _step(s: Asm, elem: str, a: str, b: str, acc: str) -> str:
    """One term of the chain."""
    if elem in ("f32", "f64"):
        return fl.fma(s, fl.compute_type(elem), a, b, acc)
    return s.bin("add", elem, s.bin("mul", elem, a, b), acc)


def _tile(
    lo: Lowering, p: Product, tile: Tile, left: Buffer, panel: str, row: Form, column: Form
) -> None:
    """One register tile: loads accumulators, runs over k, stores them."""
    em, lanes = lo.em, tile.lanes
    ctx = Context(lanes, em.depth)
    places = [
        p.place(plus(lo, row, i), lane(plus(lo, column, v * lanes), lanes))
        for i in range(tile.rows)
        for v in range(tile.vectors)
    ]
    starts = [_accumulator(lo, ctx, p, place) for place in places]
    row_bytes, k_bytes = _strides(p, left)
    size = left.ty.item_bytes
    first = em.op(
        em.depth, f"getelementptr i8, ptr {left.base}, i64 {times(lo, row, row_bytes).val}"
    )
    t = f"<{lanes} x {llvm(p.elem)}>" if lanes > 1 else llvm(p.elem)
    with em.loop(p.left.trips) as loop:
        depth = em.depth
        s = Asm(em, depth, lanes if lanes > 1 else 0)
        names = [loop.carry(t, start) for start in starts]
        at = em.op(depth, f"mul i64 {loop.index}, {tile.columns * size}")
        line = em.op(depth, f"getelementptr i8, ptr {panel}, i64 {at}")
        rights = []
        for v in range(tile.vectors):
            q = em.op(depth, f"getelementptr i8, ptr {line}, i64 {v * lanes * size}")
            rights.append(em.op(depth, f"load {t}, ptr {q}, align {min(64, lanes * size)}"))
        at = em.op(depth, f"mul i64 {loop.index}, {k_bytes}")
        line = em.op(depth, f"getelementptr i8, ptr {first}, i64 {at}")
        for i in range(tile.rows):
            many = _repeated(lo, p.elem, line, i * row_bytes, lanes)
            for v in range(tile.vectors):
                name = names[i * tile.vectors + v]
                loop.update(name, _step(s, p.elem, many, rights[v], name))
        ends = [new for *_, new in loop.phis]
    for place, value in zip(places, ends, strict=True):
        _finish(lo, ctx, p, place, value)


def _repeated(lo: Lowering, elem: str, base: str, offset: int, lanes: int) -> str:
    """One element of the packed left operand in every lane."""
    em, t, size = lo.em, llvm(elem), 8 if elem in ("f64", "i64") else 4
    q = em.op(em.depth, f"getelementptr i8, ptr {base}, i64 {offset}")
    one = em.op(em.depth, f"load {t}, ptr {q}, align {size}")
    return splat(em, t, one, em.depth, lanes) if lanes > 1 else one


def direct(lo: Lowering, p: Product) -> bool:
    """Whether blocks of the right operand feed the fmas straight from the registers that they
    were transposed in."""
    right = p.right
    return (
        p.left.size <= DIRECT_ROWS[lo.em.features.wide]
        and right.along_k
        and right.size >= LANES
        and right.k >= LANES
        and p.elem in ("f32", "i32")
        and p.out.ty.elem == p.elem
        and lo.em.features.fma
    )


def _multiply_direct(lo: Lowering, p: Product, left: Buffer) -> None:
    """Rows in blocks, groups of 16 columns, then all k with the block's accumulators in
    registers."""
    em, span = lo.em, block_k(p.right, p.elem)
    row_bytes, k_bytes = _strides(p, left)
    _start_out(lo, p)
    chains = min(p.left.size, _DIRECT_CHAINS)
    with ExitStack() as stack:
        row = counted(lo, stack, p.left.size, chains)
        column = counted(lo, stack, p.right.size, LANES)
        singles = [plus(lo, column, i) for i in range(LANES)]
        ctx = Context(LANES, em.depth)
        places = [p.place(plus(lo, row, i), lane(column, LANES)) for i in range(chains)]
        starts = [str(read_buffer(lo, ctx, p.out, place).val) for place in places]
        first = times(lo, row, row_bytes)
        with em.loop(p.right.trips, span) as loop:
            depth = em.depth
            s = Asm(em, depth, LANES)
            names = [loop.carry(s.of(p.elem), start) for start in starts]
            k = Form("U", "i64", loop.index, depth, 0, False, span)
            at = plus(lo, times(lo, k, k_bytes), first)
            line = em.op(depth, f"getelementptr i8, ptr {left.base}, i64 {at.val}")
            sums = list(names)
            for step, vector in enumerate(transposed(lo, p.right, p.elem, singles, k)):
                for i in range(chains):
                    many = _repeated(lo, p.elem, line, i * row_bytes + step * k_bytes, LANES)
                    sums[i] = _step(s, p.elem, many, vector, sums[i])
            for name, value in zip(names, sums, strict=True):
                loop.update(name, value)
        for place, value in zip(places, sums, strict=True):
            _finish(lo, ctx, p, place, value)


def _start_out(lo: Lowering, p: Product) -> None:
    """Puts the starting accumulators where the results will be."""
    if p.source is p.out:
        return
    with ExitStack() as stack:
        column = counted(lo, stack, p.right.size, LANES)
        ctx = Context(LANES, lo.em.depth)
        for i in range(p.left.size):
            place = p.place(index_const(i), lane(column, LANES))
            _finish(lo, ctx, p, place, _accumulator(lo, ctx, p, place))
