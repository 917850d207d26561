"""``tt.print`` and ``tt.assert``: calls of the function that the host left in the arena's header.

See :mod:`report` for what it does with them.
"""

import re

from kernelsmith.devices.cpu.codegen_text import branch
from kernelsmith.devices.cpu.lower_carry import elements, scalar
from kernelsmith.devices.cpu.lower_state import Lowering
from kernelsmith.devices.cpu.report import FUNCTION_AT, MARK, MARK_AT, Site
from kernelsmith.devices.cpu.ttir import Op, Ty
from kernelsmith.errors import CompileError

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)")
_FIRST = "report.first"


def _text(op: Op) -> str:
    """The quoted text of an op, with MLIR's escapes undone."""
    found = _QUOTED.search(str(op.attrs["head"]))
    raw = found.group(1) if found else ""
    codes = {"n": "\n", "t": "\t"}
    # Escapes of two hexadecimal digits are bytes of UTF-8.
    data = _ESCAPE.sub(
        lambda m: (
            chr(int(m.group(1), 16)) if len(m.group(1)) == 2 else codes.get(m.group(1), m.group(1))
        ),
        raw,
    )
    try:
        return data.encode("latin-1").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return data


def device_print(lo: Lowering, op: Op) -> None:
    """One call with the addresses of all operands' elements."""
    attrs = op.attrs
    signs = attrs.get("isSigned", ())
    assert isinstance(signs, tuple)
    site = Site(
        kind="print",
        text=_text(op),
        line=op.line,
        elems=tuple(v.ty.elem for v in op.operands),
        shapes=tuple(v.ty.shape for v in op.operands),
        signed=tuple(bool(s) for s in (*signs, *[0] * len(op.operands)))[: len(op.operands)],
        hexadecimal=attrs.get("hex") == "true",
    )
    packet = lo.new_buffer(Ty("i64", (max(1, len(op.operands)),)), False)
    em, level = lo.em, lo.em.depth
    for number, value in enumerate(op.operands):
        at = em.op(level, f"getelementptr i8, ptr {packet.base}, i64 {8 * number}")
        em.do(level, f"store ptr {elements(lo, value)}, ptr {at}, align 8")
    _call(lo, site, packet.base)


def device_assert(lo: Lowering, op: Op) -> None:
    """Where an element is false: tells the first one and ends this run of the kernel."""
    condition = op.operands[0]
    if condition.ty.elem != "i1":
        raise CompileError("the condition of an assertion is not i1", op=op.name, line=op.line)
    site = Site(kind="assert", text=_text(op), line=op.line, shapes=(condition.ty.shape,))
    em, level = lo.em, lo.em.depth
    at = "0"
    if condition.ty.shape:
        lo.em.functions.setdefault(_FIRST, _first())
        base, size = elements(lo, condition), condition.ty.size
        at = em.op(level, f"call fastcc i64 @{_FIRST}(ptr {base}, i64 {size})")
        bad = em.op(level, f"icmp ne i64 {at}, {size}")
    else:
        bad = em.op(level, f"xor i1 {scalar(lo, condition).val}, true")
    packet = lo.new_buffer(Ty("i64"), False)

    def fail() -> None:
        em.do(level, f"store i64 {at}, ptr {packet.base}, align 8")
        _call(lo, site, packet.base)
        # The rest of the block is not reached; the branch only needs a block to end.
        stop = em.fresh("stop")
        em.do(level, f"br i1 true, label %{stop}, label %{stop}.on")
        em.block(level, stop)
        em.do(level, "ret void")
        em.block(level, f"{stop}.on")

    branch(em, level, bad, fail)


def _call(lo: Lowering, site: Site, packet: str) -> None:
    """Calls the listener, if there is one."""
    em, level = lo.em, lo.em.depth
    number = len(lo.reports)
    lo.reports.append(site)
    at = em.op(level, f"getelementptr i8, ptr %arena, i64 {MARK_AT}")
    mark = em.op(level, f"load i64, ptr {at}, align 8")
    heard = em.op(level, f"icmp eq i64 {mark}, {MARK}")

    def call() -> None:
        place = em.op(level, f"getelementptr i8, ptr %arena, i64 {FUNCTION_AT}")
        function = em.op(level, f"load ptr, ptr {place}, align 8")
        pids = ", ".join(f"i32 %pid.{axis}" for axis in range(3))
        em.do(level, f"call void {function}(i32 {number}, {pids}, ptr {packet})")

    branch(em, level, heard, call)


def _first() -> str:
    """An internal function: index of the first zero byte, or the count."""
    return "\n".join([
        f"define internal fastcc i64 @{_FIRST}(ptr %p, i64 %n) noinline #0 {{",
        "entry:",
        "  br label %head",
        "head:",
        "  %i = phi i64 [0, %entry], [%next, %on]",
        "  %end = icmp eq i64 %i, %n",
        "  br i1 %end, label %out, label %look",
        "look:",
        "  %q = getelementptr i8, ptr %p, i64 %i",
        "  %b = load i8, ptr %q, align 1",
        "  %bad = icmp eq i8 %b, 0",
        "  br i1 %bad, label %out, label %on",
        "on:",
        "  %next = add nuw nsw i64 %i, 1",
        "  br label %head",
        "out:",
        "  ret i64 %i",
        "}",
    ])  # fmt: skip
