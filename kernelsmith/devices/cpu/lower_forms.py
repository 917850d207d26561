"""Forms: what a tensor value looks like over one vector of lanes, at one place.

``U``  the same value in every lane, held as one scalar (or a Python integer when constant);
``A``  affine, ``base + lane * step``: integers and pointers, step a Python integer or an operand;
``V``  an LLVM vector with one element a lane.

Index arithmetic stays ``U`` or ``A`` as long as it can, so that a load can see that its pointer
is contiguous. Like Triton's own axis analysis, the affine form assumes that offsets inside one
vector do not wrap around.
"""

from dataclasses import dataclass

from kernelsmith.devices.cpu.codegen_text import Emitter
from kernelsmith.devices.cpu.ttir import BITS, EIGHT_BITS

#: Steps beyond this are not addresses (hashes, random numbers): such values become ``V``.
_MAX_STEP = 1 << 24


@dataclass(frozen=True, slots=True)
class Form:
    """``kind`` "U", "A" or "V"; ``elem`` a TTIR element type; ``val`` an LLVM operand or a
    Python integer; ``level`` the stream it was emitted at. ``dirty``: a NaN in it may carry any
    payload. ``align``: ``val`` is known to be a multiple of it (indices). ``full``: for a mask, a
    scalar i1 that is true only if all its lanes are ("" if there is none that is cheap);
    ``empty``: one that is true only if none is."""

    kind: str
    elem: str
    val: str | int
    level: int
    step: str | int = 0
    dirty: bool = False
    align: int = 1
    full: str = ""
    empty: str = ""

    @property
    def key(self) -> tuple[str, str | int, str | int]:
        return (self.kind, self.val, self.step)

    @property
    def is_const(self) -> bool:
        return self.kind == "U" and isinstance(self.val, int)


_LLVM = {
    "f32": "float",
    "f64": "double",
    "f16": "i16",
    "bf16": "i16",
    "ptr": "ptr",
    **dict.fromkeys(EIGHT_BITS, "i8"),
}


def llvm(elem: str) -> str:
    """LLVM type of one element in a register; floats of 16 and 8 bits are held as their bits."""
    return _LLVM.get(elem, elem)


def vec(elem: str, lanes: int) -> str:
    """LLVM type of a vector of elements."""
    return f"<{lanes} x {llvm(elem)}>"


def wrap(value: int, elem: str) -> int:
    """The signed integer with the low bits of ``value``; i1 is 0 or 1."""
    bits = BITS[elem]
    value &= (1 << bits) - 1
    return value if bits == 1 or value < 1 << (bits - 1) else value - (1 << bits)


def const(value: int, elem: str) -> Form:
    """A constant integer."""
    return Form("U", elem, wrap(value, elem), 0)


def splat(em: Emitter, type_: str, operand: str | int, level: int, lanes: int) -> str:
    """A scalar operand repeated over the lanes."""
    text = str(operand)
    if not text.startswith("%"):
        return f"splat ({type_} {text})"
    one = em.op(level, f"insertelement <{lanes} x {type_}> poison, {type_} {text}, i64 0")
    zeros = f"<{lanes} x i32> zeroinitializer"
    return em.op(
        level,
        f"shufflevector <{lanes} x {type_}> {one}, <{lanes} x {type_}> poison, {zeros}",
    )


def as_vector(em: Emitter, form: Form, lanes: int) -> str:
    """The operand of the form as a vector."""
    if form.kind == "V":
        return str(form.val)
    if form.kind == "U":
        return splat(em, llvm(form.elem), form.val, form.level, lanes)
    elem = "i64" if form.elem == "ptr" else form.elem
    if isinstance(form.step, int):
        items = ", ".join(f"{elem} {wrap(form.step * i, elem)}" for i in range(lanes))
        offsets = f"<{items}>"
    else:
        items = ", ".join(f"{elem} {i}" for i in range(lanes))
        step = splat(em, elem, form.step, form.level, lanes)
        offsets = em.op(form.level, f"mul <{lanes} x {elem}> {step}, <{items}>")
    if form.elem == "ptr":
        return em.op(form.level, f"getelementptr i8, ptr {form.val}, <{lanes} x i64> {offsets}")
    base = splat(em, elem, form.val, form.level, lanes)
    return em.op(form.level, f"add <{lanes} x {elem}> {base}, {offsets}")


def vector_form(em: Emitter, form: Form, lanes: int) -> Form:
    """The same value in form ``V``."""
    if form.kind == "V":
        return form
    return Form("V", form.elem, as_vector(em, form, lanes), form.level, 0, form.dirty)


def _scalar(em: Emitter, op: str, elem: str, a: str | int, b: str | int, level: int) -> str | int:
    """Integer ``op`` on scalars, folded when both are constants."""
    if isinstance(a, int) and isinstance(b, int):
        results = {"add": a + b, "sub": a - b, "mul": a * b}
        return wrap(results[op], elem)
    if op in ("add", "sub") and b == 0:
        return a
    if op == "add" and a == 0:
        return b
    if op == "mul" and 1 in (a, b):
        return b if a == 1 else a
    if op == "mul" and 0 in (a, b):
        return 0
    return em.op(level, f"{op} {elem} {a}, {b}")


def affine(em: Emitter, op: str, a: Form, b: Form) -> Form | None:
    """``add``, ``sub`` or ``mul`` of integers when the result is ``U`` or ``A``, else None."""
    if "V" in (a.kind, b.kind):
        return None
    level, elem = max(a.level, b.level), a.elem
    if op == "mul" and a.kind == "A" and b.kind == "A":
        return None
    val = _scalar(em, op, elem, a.val, b.val, level)
    if a.kind == "U" and b.kind == "U":
        return Form("U", elem, val, level)
    if op == "mul":
        line, other = (a, b) if a.kind == "A" else (b, a)
        step = _scalar(em, "mul", elem, line.step, other.val, level)
    else:
        step = _scalar(em, op, elem, a.step, b.step, level)
    if isinstance(step, int) and abs(step) > _MAX_STEP:
        return None
    return Form("A", elem, val, level, step)


def sign_extend(em: Emitter, form: Form, elem: str) -> Form:
    """``U`` or ``A`` integers to a wider type."""
    if form.elem == elem:
        return form

    def extend(operand: str | int) -> str | int:
        if isinstance(operand, int):
            return -operand if form.elem == "i1" else operand
        return em.op(form.level, f"sext {form.elem} {operand} to {elem}")

    if form.kind == "U":
        return Form("U", elem, extend(form.val), form.level)
    return Form("A", elem, extend(form.val), form.level, extend(form.step))


def add_pointer(em: Emitter, pointer: Form, offset: Form, item_bytes: int, lanes: int) -> Form:
    """``pointer + offset * item_bytes``."""
    if offset.kind == "V" or pointer.kind == "V":
        wide = as_vector(em, offset, lanes)
        level = max(pointer.level, offset.level)
        many = f"<{lanes} x i64>"
        if offset.elem != "i64":
            wide = em.op(level, f"sext <{lanes} x {offset.elem}> {wide} to {many}")
        if item_bytes > 1:
            wide = em.op(level, f"mul {many} {wide}, splat (i64 {item_bytes})")
        kind = vec("ptr", lanes) if pointer.kind == "V" else "ptr"
        base = pointer.val if pointer.kind == "V" else None
        if base is None:
            base, kind = as_vector(em, pointer, lanes), vec("ptr", lanes)
        return Form(
            "V", "ptr", em.op(level, f"getelementptr i8, {kind} {base}, {many} {wide}"), level
        )
    level = max(pointer.level, offset.level)
    offset = sign_extend(em, offset, "i64")
    by = _scalar(em, "mul", "i64", offset.val, item_bytes, level)
    val = pointer.val if by == 0 else em.op(level, f"getelementptr i8, ptr {pointer.val}, i64 {by}")
    if pointer.kind == "U" and offset.kind == "U":
        return Form("U", "ptr", val, level)
    step = _scalar(em, "mul", "i64", offset.step, item_bytes, level)
    step = _scalar(em, "add", "i64", pointer.step, step, level)
    return Form("A", "ptr", val, level, step)
