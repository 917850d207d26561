"""``arith.remf``: C's fmod. Exact, with the dividend's sign; by long division on the bits.

NaN where the dividend is infinite or the divisor zero; the dividend where the divisor is infinite.
"""

from kernelsmith.devices.cpu.codegen_asm import Asm

#: LLVM type -> integer type, mantissa bits, largest exponent field.
_SHAPES = {"float": ("i32", 23, 0xFF), "double": ("i64", 52, 0x7FF)}


def remainder(s: Asm, t: str, x: str, y: str) -> str:
    """x - y * trunc(x / y), lane by lane."""
    name = f"remainder.{t}"
    s.em.functions.setdefault(name, _function(name, t))
    i = _SHAPES[t][0]
    s.em.declare(f"llvm.ctlz.{i}", f"{i} @llvm.ctlz.{i}({i}, i1)")
    if not s.lanes:
        return s.op(f"call fastcc {t} @{name}({t} {x}, {t} {y})")
    out = "poison"
    many = s.ty(t)
    for lane in range(s.lanes):
        a, b = (s.op(f"extractelement {many} {v}, i64 {lane}") for v in (x, y))
        one = s.op(f"call fastcc {t} @{name}({t} {a}, {t} {b})")
        out = s.op(f"insertelement {many} {out}, {t} {one}, i64 {lane}")
    return out


def _function(name: str, t: str) -> str:
    i, mantissa, top = _SHAPES[t]
    width = int(i[1:])
    sign, hidden = -(1 << (width - 1)), 1 << mantissa
    nan = "0x7FF8000000000000"
    lines = [
        f"define internal fastcc {t} @{name}({t} %x, {t} %y) noinline #0 {{",
        "entry:",
        f"  %ux = bitcast {t} %x to {i}",
        f"  %uy0 = bitcast {t} %y to {i}",
        f"  %s = and {i} %ux, {sign}",
        f"  %ax = xor {i} %ux, %s",
        f"  %uy = and {i} %uy0, {~sign}",
        f"  %endless = icmp uge {i} %ax, {top << mantissa}",
        f"  %none = icmp eq {i} %uy, 0",
        f"  %ynan = icmp ugt {i} %uy, {top << mantissa}",
        "  %b1 = or i1 %endless, %none",
        "  %bad = or i1 %b1, %ynan",
        "  br i1 %bad, label %nan, label %good",
        "nan:",
        f"  ret {t} {nan}",
        "good:",
        f"  %less = icmp ult {i} %ax, %uy",
        "  br i1 %less, label %same, label %split",
        "same:",
        f"  ret {t} %x",
        "split:",
        *_parts(i, mantissa, "x", "%ax"),
        *_parts(i, mantissa, "y", "%uy"),
        "  br label %head",
        "head:",
        f"  %e = phi {i} [%xe, %split], [%en, %step]",
        f"  %m = phi {i} [%xm, %split], [%mn, %step]",
        f"  %d = sub {i} %m, %ym",
        f"  %neg = icmp slt {i} %d, 0",
        f"  %r = select i1 %neg, {i} %m, {i} %d",
        f"  %more = icmp sgt {i} %e, %ye",
        "  br i1 %more, label %step, label %out",
        "step:",
        f"  %mn = shl {i} %r, 1",
        f"  %en = sub {i} %e, 1",
        "  br label %head",
        "out:",
        f"  %zero = icmp eq {i} %r, 0",
        "  br i1 %zero, label %nothing, label %pack",
        "nothing:",
        f"  %z = bitcast {i} %s to {t}",
        f"  ret {t} %z",
        "pack:",
        f"  %lead = call {i} @llvm.ctlz.{i}({i} %r, i1 true)",
        f"  %by = sub {i} %lead, {width - 1 - mantissa}",
        f"  %rm = shl {i} %r, %by",
        f"  %re = sub {i} %e, %by",
        f"  %normal = icmp sgt {i} %re, 0",
        f"  %low = sub {i} %rm, {hidden}",
        f"  %high = shl {i} %re, {mantissa}",
        f"  %full = or {i} %low, %high",
        f"  %down = sub {i} 1, %re",
        f"  %safe = select i1 %normal, {i} 0, {i} %down",
        f"  %tiny = lshr {i} %rm, %safe",
        f"  %word = select i1 %normal, {i} %full, {i} %tiny",
        f"  %with = or {i} %word, %s",
        f"  %value = bitcast {i} %with to {t}",
        f"  ret {t} %value",
        "}",
    ]
    return "\n".join(lines)


def _parts(i: str, mantissa: int, p: str, word: str) -> list[str]:
    """Exponent ``%<p>e`` and mantissa with its leading bit ``%<p>m`` of a finite magnitude."""
    width, hidden = int(i[1:]), 1 << mantissa
    return [
        f"  %{p}f = lshr {i} {word}, {mantissa}",
        f"  %{p}l = and {i} {word}, {hidden - 1}",
        f"  %{p}sub = icmp eq {i} %{p}f, 0",
        f"  %{p}lead = call {i} @llvm.ctlz.{i}({i} %{p}l, i1 false)",
        f"  %{p}by = sub {i} %{p}lead, {width - 1 - mantissa}",
        f"  %{p}bs = select i1 %{p}sub, {i} %{p}by, {i} 0",
        f"  %{p}st = shl {i} %{p}l, %{p}bs",
        f"  %{p}se = sub {i} 1, %{p}bs",
        f"  %{p}nm = or {i} %{p}l, {hidden}",
        f"  %{p}m = select i1 %{p}sub, {i} %{p}st, {i} %{p}nm",
        f"  %{p}e = select i1 %{p}sub, {i} %{p}se, {i} %{p}f",
    ]
