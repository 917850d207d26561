"""``tt.dot``: one fma a k, k ascending, starting from the accumulator.

Floats accumulate in float32 (float64 for float64 inputs); bfloat16 and float16 products are exact
in float32's fma. float32 inputs are IEEE whatever ``input_precision`` says. Integers wrap.
"""

from contextlib import ExitStack

from kernelsmith.devices.cpu.codegen_text import branch
from kernelsmith.devices.cpu.lower_axis import contiguous_axis
from kernelsmith.devices.cpu.lower_forms import Form
from kernelsmith.devices.cpu.lower_nest import fill
from kernelsmith.devices.cpu.lower_pack import Operand, counted
from kernelsmith.devices.cpu.lower_product import Product, direct, multiply
from kernelsmith.devices.cpu.lower_state import Buffer, Index, Lazy, Lowering
from kernelsmith.devices.cpu.lower_whole import all_true, masked_load, unmasked
from kernelsmith.devices.cpu.ttir import Op, Value


def dot(lo: Lowering, op: Op, into: Buffer | None = None) -> None:
    """Lowers the op; the result is a buffer (``into`` if given, which may be the accumulator)."""
    result = op.results[0].ty
    lhs, rhs, acc = op.operands
    out = into or lo.new_buffer(result, result.elem in ("f32", "f64"))
    source: Value | Buffer = acc
    if not _cheap(lo, acc):
        fill(lo, acc, out)
        source = out
    with ExitStack() as stack:
        batch: Index = ()
        for size in result.shape[:-2]:
            batch = (*batch, counted(lo, stack, size, 1))
        product = Product(
            left=_left(lo, lhs, batch),
            right=_right(lo, rhs, batch),
            elem={"f16": "f32", "bf16": "f32"}.get(result.elem, result.elem),
            source=source,
            out=out,
            batch=batch,
        )
        _multiply(lo, product, rhs)
    lo.env[op.results[0]] = out


def _multiply(lo: Lowering, product: Product, rhs: Value) -> None:
    """The product, without masks while all of ``rhs`` may be read; the other side is then the
    smaller code."""
    load = masked_load(lo, rhs) if direct(lo, product) else None
    whole = None if load is None else all_true(lo, load.operands[1])
    if load is None or whole is None:
        multiply(lo, product)
        return

    def fast() -> None:
        with unmasked(lo, load):
            multiply(lo, product)

    em, level = lo.em, lo.em.depth
    branch(em, level, whole, fast)
    partial = em.op(level, f"xor i1 {whole}, true")
    branch(em, level, partial, lambda: multiply(lo, product, packed=True))


def _left(lo: Lowering, value: Value, batch: Index) -> Operand:
    def place(row: Form, k: Form) -> tuple[Value, Index]:
        return value, (*batch, row, k)

    along_k = contiguous_axis(lo, value) != len(value.ty.shape) - 2
    m, k = value.ty.shape[-2:]
    return Operand(place=place, elem=value.ty.elem, size=m, k=k, along_k=along_k, trips=k)


def _right(lo: Lowering, value: Value, batch: Index) -> Operand:
    def place(column: Form, k: Form) -> tuple[Value, Index]:
        return value, (*batch, k, column)

    along_k = contiguous_axis(lo, value) == len(value.ty.shape) - 2
    k, n = value.ty.shape[-2:]
    return Operand(place=place, elem=value.ty.elem, size=n, k=k, along_k=along_k, trips=k)


def _cheap(lo: Lowering, value: Value) -> bool:
    """Whether the accumulator is a buffer or a constant, to be read inside the register tile."""
    bound = lo.env[value]
    return isinstance(bound, Buffer) or (
        isinstance(bound, Lazy) and bound.op.name in ("arith.constant", "tt.splat")
    )
