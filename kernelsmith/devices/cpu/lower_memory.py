"""Loads and stores of one vector of lanes: contiguous, masked, strided, scattered."""

from kernelsmith.devices.cpu.codegen_text import Emitter
from kernelsmith.devices.cpu.lower_forms import (
    Form,
    add_pointer,
    affine,
    as_vector,
    llvm,
    splat,
    vec,
    vector_form,
)
from kernelsmith.devices.cpu.ttir import Ty


def memory_type(elem: str) -> str:
    """LLVM type of an element in memory."""
    return "i8" if elem == "i1" else llvm(elem)


def load(
    em: Emitter,
    lanes: int,
    pointer: Form,
    mask: Form | None,
    other: Form | None,
    elem: str,
    level: int,
) -> Form:
    """Loads ``elem`` through ``pointer``; masked-off lanes give ``other`` (0 without one) and
    touch no memory. ``level`` is at least the level of every operand."""
    size = Ty(elem).item_bytes
    if mask is not None and mask.is_const:
        if not mask.val:
            return other or Form("U", elem, zero(elem), level)
        mask = None
    t = memory_type(elem)
    same = all(form is None or form.kind == "U" for form in (pointer, mask, mask and other))
    if same:
        return _load_one(em, pointer, mask, other, elem, level)
    if pointer.kind == "A" and pointer.step == size:
        value = _load_row(em, lanes, pointer, mask, other, elem, level)
    else:
        value = _gather(em, lanes, pointer, mask, other, elem, level)
    return Form(
        "V",
        elem,
        _from_memory(em, level, lanes, t, value, elem),
        level,
        0,
        other is not None and other.dirty,
    )


def zero(elem: str) -> str | int:
    """Zero as an operand of the element's register type."""
    return {"f32": "0.0", "f64": "0.0", "ptr": "null"}.get(elem, 0)


def _from_memory(em: Emitter, level: int, lanes: int, t: str, value: str, elem: str) -> str:
    if elem != "i1":
        return value
    kind, zero = (f"<{lanes} x i8>", "zeroinitializer") if lanes else ("i8", "0")
    return em.op(level, f"icmp ne {kind} {value}, {zero}")


def _other_text(em: Emitter, other: Form | None, elem: str, level: int, lanes: int) -> str:
    """``other`` as an operand of the memory type, scalar for ``lanes`` 0."""
    if other is None:
        return "zeroinitializer" if lanes else str(zero(elem))
    if not lanes:
        if elem == "i1":
            return em.op(level, f"zext i1 {other.val} to i8")
        return str(other.val)
    text = as_vector(em, other, lanes)
    if elem == "i1":
        return em.op(level, f"zext <{lanes} x i1> {text} to <{lanes} x i8>")
    return text


def _load_one(
    em: Emitter, pointer: Form, mask: Form | None, other: Form | None, elem: str, level: int
) -> Form:
    """One element for all lanes."""
    t, size = memory_type(elem), Ty(elem).item_bytes
    dirty = other is not None and other.dirty
    if mask is None:
        got = em.op(level, f"load {t}, ptr {pointer.val}, align {size}")
        return Form("U", elem, _from_memory(em, level, 0, t, got, elem), level)
    rest = _other_text(em, other, elem, level, 0)
    name, before = em.fresh("ld"), em.fresh("from")
    em.do(level, f"br label %{before}")
    em.block(level, before)
    em.do(level, f"br i1 {mask.val}, label %{name}.t, label %{name}.e")
    em.block(level, f"{name}.t")
    got = em.op(level, f"load {t}, ptr {pointer.val}, align {size}")
    em.do(level, f"br label %{name}.e")
    em.block(level, f"{name}.e")
    got = em.op(level, f"phi {t} [{got}, %{name}.t], [{rest}, %{before}]")
    return Form("U", elem, _from_memory(em, level, 0, t, got, elem), level, 0, dirty)


def _load_row(
    em: Emitter,
    lanes: int,
    pointer: Form,
    mask: Form | None,
    other: Form | None,
    elem: str,
    level: int,
) -> str:
    """Consecutive elements."""
    t, size = memory_type(elem), Ty(elem).item_bytes
    many = f"<{lanes} x {t}>"
    if mask is None:
        return em.op(level, f"load {many}, ptr {pointer.val}, align {size}")
    rest = _other_text(em, other, elem, level, lanes)
    bits = as_vector(em, mask, lanes)
    return em.op(level, masked_load(em, lanes, t, str(pointer.val), bits, rest))


def _masked(em: Emitter, lanes: int, t: str, store: bool) -> tuple[str, str, str]:
    """(call prefix, callee, pointer attribute) of a masked access of consecutive elements.

    Without AVX-512 LLVM writes narrow ones out as a branch a lane: those go into one internal
    function a kind."""
    size = {"i8": 1, "i16": 2, "i32": 4, "float": 4}.get(t, 8)
    suffix = {"float": "f32", "double": "f64", "ptr": "p0"}.get(t, t)
    many, mask = f"<{lanes} x {t}>", f"<{lanes} x i1>"
    kind = "store" if store else "load"
    name = f"llvm.masked.{kind}.v{lanes}{suffix}.p0"
    if store:
        em.declare(name, f"void @{name}({many}, ptr, {mask})")
    else:
        em.declare(name, f"{many} @{name}(ptr, {mask}, {many})")
    if em.features.wide or size > 2:
        return "call", name, f"align {size} "
    own = f"masked.{kind}.v{lanes}{suffix}"
    if store:
        body = (
            f"define internal fastcc void @{own}({many} %v, ptr %p, {mask} %m) noinline #0 {{\n"
            f"  call void @{name}({many} %v, ptr align {size} %p, {mask} %m)\n  ret void\n}}"
        )
    else:
        body = (
            f"define internal fastcc {many} @{own}(ptr %p, {mask} %m, {many} %r) noinline #0 {{\n"
            f"  %v = call {many} @{name}(ptr align {size} %p, {mask} %m, {many} %r)\n"
            f"  ret {many} %v\n}}"
        )
    em.functions.setdefault(own, body)
    return "call fastcc", own, ""


def masked_load(em: Emitter, lanes: int, t: str, pointer: str, bits: str, rest: str) -> str:
    """Text of a masked load of consecutive elements."""
    call, name, align = _masked(em, lanes, t, False)
    many = f"<{lanes} x {t}>"
    return f"{call} {many} @{name}(ptr {align}{pointer}, <{lanes} x i1> {bits}, {many} {rest})"


def masked_store(em: Emitter, lanes: int, t: str, value: str, pointer: str, bits: str) -> str:
    """Text of a masked store of consecutive elements."""
    call, name, align = _masked(em, lanes, t, True)
    many = f"<{lanes} x {t}>"
    return f"{call} void @{name}({many} {value}, ptr {align}{pointer}, <{lanes} x i1> {bits})"


def lane_pointers(
    em: Emitter, lanes: int, pointer: Form, mask: Form | None, level: int
) -> list[str]:
    """One address a lane; masked-off lanes point into the arena."""
    if mask is None and pointer.kind in "UA":
        if pointer.kind == "U":
            return [str(pointer.val)] * lanes
        if isinstance(pointer.step, int):
            return [
                em.op(level, f"getelementptr i8, ptr {pointer.val}, i64 {pointer.step * i}")
                for i in range(lanes)
            ]
    many = vec("ptr", lanes)
    addresses = as_vector(em, pointer, lanes)
    if mask is not None:
        bits = as_vector(em, mask, lanes)
        safe = splat(em, "ptr", "%spill", 0, lanes)
        addresses = em.op(level, f"select <{lanes} x i1> {bits}, {many} {addresses}, {many} {safe}")
    return [em.op(level, f"extractelement {many} {addresses}, i64 {i}") for i in range(lanes)]


def _gather(
    em: Emitter,
    lanes: int,
    pointer: Form,
    mask: Form | None,
    other: Form | None,
    elem: str,
    level: int,
) -> str:
    """Elements at any addresses. Masked-off lanes read the arena's spill slot instead."""
    t, size = memory_type(elem), Ty(elem).item_bytes
    many, value = f"<{lanes} x {t}>", "poison"
    for lane, address in enumerate(lane_pointers(em, lanes, pointer, mask, level)):
        one = em.op(level, f"load {t}, ptr {address}, align {size}")
        value = em.op(level, f"insertelement {many} {value}, {t} {one}, i64 {lane}")
    if mask is None:
        return value
    rest = _other_text(em, other, elem, level, lanes)
    bits = as_vector(em, mask, lanes)
    return em.op(level, f"select <{lanes} x i1> {bits}, {many} {value}, {many} {rest}")


def store(
    em: Emitter, lanes: int, pointer: Form, value: Form, mask: Form | None, level: int
) -> None:
    """Stores one vector. Equal addresses: the highest lane wins."""
    elem = value.elem
    t, size = memory_type(elem), Ty(elem).item_bytes
    if mask is not None and mask.is_const:
        if not mask.val:
            return
        mask = None
    if pointer.kind == "U" and lanes > 1:
        # Every lane writes one address; keep the semantics by the general path.
        pointer = Form("V", "ptr", as_vector(em, pointer, lanes), pointer.level)
    single = lanes == 1
    if mask is not None and mask.kind == "U":
        name = em.fresh("st")
        em.do(level, f"br i1 {mask.val}, label %{name}.t, label %{name}.e")
        em.block(level, f"{name}.t")
        store(em, lanes, pointer, value, None, level)
        em.do(level, f"br label %{name}.e")
        em.block(level, f"{name}.e")
        return
    if single:
        text = str(value.val)
        if elem == "i1":
            text = em.op(level, f"zext i1 {text} to i8")
        em.do(level, f"store {t} {text}, ptr {pointer.val}, align {size}")
        return
    at = Form(value.kind, elem, value.val, level, value.step)
    text = as_vector(em, at, lanes)
    if elem == "i1":
        text = em.op(level, f"zext <{lanes} x i1> {text} to <{lanes} x i8>")
    many = f"<{lanes} x {t}>"
    if pointer.kind == "A" and pointer.step == size:
        if mask is None:
            em.do(level, f"store {many} {text}, ptr {pointer.val}, align {size}")
        else:
            bits = as_vector(em, mask, lanes)
            em.do(level, masked_store(em, lanes, t, text, str(pointer.val), bits))
        return
    for lane, address in enumerate(lane_pointers(em, lanes, pointer, mask, level)):
        one = em.op(level, f"extractelement {many} {text}, i64 {lane}")
        em.do(level, f"store {t} {one}, ptr {address}, align {size}")


def buffer_pointer(em: Emitter, base: str, ty: Ty, index: tuple[Form, ...], lanes: int) -> Form:
    """Address in a dense row-major buffer at an index (i64 forms)."""
    stride = 1
    offset = Form("U", "i64", 0, 0)
    for dim, at in zip(reversed(ty.shape), reversed(index), strict=True):
        scale = Form("U", "i64", stride, 0)
        term = affine(em, "mul", at, scale)
        if term is None:
            wide = as_vector(em, at, lanes)
            got = em.op(at.level, f"mul <{lanes} x i64> {wide}, splat (i64 {stride})")
            term = Form("V", "i64", got, at.level)
        total = affine(em, "add", offset, term)
        if total is None:
            level = max(offset.level, term.level)
            a = vector_form(em, offset, lanes)
            b = vector_form(em, term, lanes)
            got = em.op(level, f"add <{lanes} x i64> {a.val}, {b.val}")
            total = Form("V", "i64", got, level)
        offset, stride = total, stride * dim
    return add_pointer(em, Form("U", "ptr", base, 0), offset, ty.item_bytes, lanes)
