"""Lowers an observing build's notes (:mod:`observe_module`) to calls of :mod:`observe_code`."""

from kernelsmith.devices.cpu import observe_code
from kernelsmith.devices.cpu.lower_carry import elements, scalar
from kernelsmith.devices.cpu.lower_forms import Form, llvm
from kernelsmith.devices.cpu.lower_state import Lowering, Scalar
from kernelsmith.devices.cpu.observe import SINK_WORD
from kernelsmith.devices.cpu.observe_module import ACCESS, LANES, SINK, TURN
from kernelsmith.devices.cpu.ttir import Op

_PRIME = 1099511628211


def access(lo: Lowering, op: Op) -> None:
    """A note of all addresses of an access; its result says which lanes go on."""
    em, level = lo.em, lo.em.depth
    pointer, result = op.operands[0], op.results[0]
    at = elements(lo, pointer)
    mask = elements(lo, op.operands[1]) if len(op.operands) > 1 else "null"
    out = lo.new_buffer(result.ty, False)
    numbers = ", ".join(f"i64 {op.attrs[name]}" for name in ("site", "kind", "param", "size"))
    em.do(
        level,
        f"call fastcc void @{observe_code.TENSOR}(ptr {_state(lo, op)}, i32 %pid, {numbers}, "
        f"ptr {at}, ptr {mask}, ptr {out.base}, i64 {pointer.ty.size})",
    )
    if result.ty.shape:
        lo.env[result] = out
        return
    got = em.op(level, f"load i8, ptr {out.base}")
    lo.env[result] = Scalar(Form("U", "i1", em.op(level, f"icmp ne i8 {got}, 0"), level))


def lanes(lo: Lowering, op: Op) -> None:
    """A note of all values of a store, which it performs, to see which lanes lose."""
    at, goes, values = (elements(lo, value) for value in op.operands)
    lo.em.do(
        lo.em.depth,
        f"call fastcc void @{observe_code.LANES}(ptr {_state(lo, op)}, i32 %pid, "
        f"i64 {op.attrs['site']}, i64 {op.attrs['size']}, ptr {at}, ptr {goes}, ptr {values}, "
        f"i64 {op.operands[0].ty.size})",
    )


def turn(lo: Lowering, op: Op) -> None:
    """A note of one turn of a ``while`` loop, with a number that stands for what it carries."""
    em, level = lo.em, lo.em.depth
    condition, *carried = (scalar(lo, value) for value in op.operands)
    state = "0"
    for form in carried:
        mixed = em.op(level, f"mul i64 {state}, {_PRIME}")
        state = em.op(level, f"add i64 {mixed}, {_wide(lo, form, level)}")
    goes = em.op(
        level,
        f"call fastcc i1 @{observe_code.TURN}(ptr {_state(lo, op)}, i32 %pid, "
        f"i64 {op.attrs['site']}, i64 {state}, i1 {str(bool(op.attrs['known'])).lower()}, "
        f"i1 {condition.val})",
    )
    lo.env[op.results[0]] = Scalar(Form("U", "i1", goes, level))


def beat(lo: Lowering, op: Op, name: str, goes: str) -> tuple[list[str], str]:
    """Lines that count a turn of a ``for`` loop whose test is ``goes``, and the test to use."""
    if "beat" not in op.attrs:
        return [], goes
    state = _state(lo, op)
    return [
        f"  %{name}.b = call fastcc i1 @{observe_code.BEAT}(ptr {state}, i32 %pid, "
        f"i64 {op.attrs['beat']})",
        f"  %{name}.g = and i1 {goes}, %{name}.b",
    ], f"%{name}.g"


def sink(lo: Lowering, op: Op) -> None:
    """The address of a word that nobody reads."""
    at = lo.em.op(0, f"getelementptr i8, ptr {_state(lo, op)}, i64 {8 * SINK_WORD}")
    lo.env[op.results[0]] = Scalar(Form("U", "ptr", at, 0))


def _state(lo: Lowering, op: Op) -> str:
    """Address of the block, from the slot after the last argument."""
    lo.em.functions.update(observe_code.functions())
    at = lo.em.op(0, f"getelementptr i8, ptr %args, i64 {op.attrs['slot']}")
    return lo.em.op(0, f"load ptr, ptr {at}, align 8")


def _wide(lo: Lowering, form: Form, level: int) -> str:
    """A scalar's bits as an i64 operand."""
    if isinstance(form.val, int):
        return str(form.val)
    em, text, elem = lo.em, form.val, form.elem
    if elem == "ptr":
        return em.op(level, f"ptrtoint ptr {text} to i64")
    if elem == "f64":
        return em.op(level, f"bitcast double {text} to i64")
    if elem == "f32":
        text, elem = em.op(level, f"bitcast float {text} to i32"), "i32"
    if elem == "i64":
        return text
    return em.op(level, f"zext {llvm(elem)} {text} to i64")


NOTES = {ACCESS: access, LANES: lanes, TURN: turn, SINK: sink}
