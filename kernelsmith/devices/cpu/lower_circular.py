"""``sin`` and ``cos`` in float64, for every argument.

Up to 2^20 a multiple of pi/2 is taken off in three exact parts (Cody and Waite); beyond, the
argument's mantissa is multiplied by the 192 bits of 2/pi that matter for it (Payne and Hanek), in
integers, lane by lane and only where a lane needs it.
"""

import math

from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.lower_polynomial import horner, nearest

_LARGE = 2.0**20
_TABLE = "two.over.pi"
#: 2/pi: 64 zero bits, then its first 1280 bits, in words of 64.
_TWO_OVER_PI_HEX = (
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561"
    "B7246E3A424DD2E006492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484"
    "E99C7026B45F7E413991D639835339F49C845F8BBDF9283B1FF897FFDE05980F"
    "EF2F118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D7527BAC7EBE5F17B"
    "3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC7B6BABF0CFBC209AF4361D"
)


def sine(s: Asm, x: str) -> str:
    """sin(x); -0 stays -0."""
    zero = s.cmp("fcmp oeq", "double", x, s.const("double", 0.0))
    return s.select(zero, "double", x, _circular(s, x, 0))


def cosine(s: Asm, x: str) -> str:
    """cos(x)."""
    return _circular(s, x, 1)


def _circular(s: Asm, x: str, shift: int) -> str:
    t = "double"
    r, n = _quadrant(s, x)
    n = s.bin("add", "i64", n, s.const("i64", shift))
    z = s.bin("fmul", t, r, r)
    odd = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(8, 0, -1))
    even = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(9, 0, -1))
    sine_ = s.bin("fmul", t, s.bin("fmul", t, horner(s, t, z, odd, False), z), r)
    sine_ = s.bin("fadd", t, sine_, r)
    cosine_ = s.bin("fmul", t, horner(s, t, z, even, False), z)
    cosine_ = s.bin("fadd", t, cosine_, s.const(t, 1.0))
    swap = s.cmp("icmp ne", "i64", s.bin("and", "i64", n, s.const("i64", 1)), s.const("i64", 0))
    value = s.select(swap, t, cosine_, sine_)
    down = s.cmp("icmp ne", "i64", s.bin("and", "i64", n, s.const("i64", 2)), s.const("i64", 0))
    return s.select(down, t, s.op(f"fneg {s.ty(t)} {value}"), value)


def _quadrant(s: Asm, x: str) -> tuple[str, str]:
    """x = n * pi/2 + r, |r| <= pi/4, n modulo 4; r is NaN for infinities and NaN."""
    t = "double"
    whole, n = nearest(s, t, s.bin("fmul", t, x, s.const(t, 2 / math.pi)))
    r = x
    for part in (1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624879595063154e-21):
        r = s.bin("fsub", t, r, s.bin("fmul", t, whole, s.const(t, part)))
    big = s.cmp("fcmp uge", t, s.call("fabs", t, x), s.const(t, _LARGE))
    return _corrected(s, x, r, n, big)


def _corrected(s: Asm, x: str, r: str, n: str, big: str) -> tuple[str, str]:
    """``r`` and ``n`` with those of the ``big`` lanes put right, behind a branch."""
    em, level = s.em, s.level
    name = f"reduce.{s.lanes or 1}"
    em.functions.setdefault("reduce", _large())
    em.functions.setdefault(name, _lanes(name, s.lanes))
    em.declare("llvm.ctlz.i128", "i128 @llvm.ctlz.i128(i128, i1)")
    some = big
    if s.lanes:
        word = s.em.op(level, f"bitcast {s.ty('i1')} {big} to i{s.lanes}")
        some = s.em.op(level, f"icmp ne i{s.lanes} {word}, 0")
    label, start = em.fresh("far"), em.fresh("near")
    em.do(level, f"br label %{start}")
    em.block(level, start)
    em.do(level, f"br i1 {some}, label %{label}.t, label %{label}.e")
    em.block(level, f"{label}.t")
    pair = f"{{ {s.ty('double')}, {s.ty('i64')} }}"
    both = em.op(
        level,
        f"call fastcc {pair} @{name}({s.ty('double')} {x}, {s.ty('double')} {r}, "
        f"{s.ty('i64')} {n}, {s.ty('i1')} {big})",
    )
    far = [em.op(level, f"extractvalue {pair} {both}, {i}") for i in (0, 1)]
    em.do(level, f"br label %{label}.e")
    em.block(level, f"{label}.e")
    merged = [
        em.op(level, f"phi {s.ty(kind)} [{new}, %{label}.t], [{old}, %{start}]")
        for kind, new, old in (("double", far[0], r), ("i64", far[1], n))
    ]
    return merged[0], merged[1]


def _lanes(name: str, lanes: int) -> str:
    """An internal function: :func:`_large` for each lane that is set."""
    if not lanes:
        return (
            f"define internal fastcc {{ double, i64 }} @{name}(double %x, double %r, i64 %n, "
            "i1 %big) noinline #0 {\n"
            "  %pair = call fastcc { double, i64 } @reduce(double %x)\n"
            "  ret { double, i64 } %pair\n}"
        )
    d, w, b = f"<{lanes} x double>", f"<{lanes} x i64>", f"<{lanes} x i1>"
    return "\n".join([
        f"define internal fastcc {{ {d}, {w} }} @{name}({d} %x, {d} %r0, {w} %n0, {b} %big) "
        "noinline #0 {",
        "entry:",
        "  br label %head",
        "head:",
        "  %i = phi i64 [0, %entry], [%next, %on]",
        f"  %r = phi {d} [%r0, %entry], [%r2, %on]",
        f"  %n = phi {w} [%n0, %entry], [%n2, %on]",
        f"  %this = extractelement {b} %big, i64 %i",
        "  br i1 %this, label %far, label %on",
        "far:",
        f"  %one = extractelement {d} %x, i64 %i",
        "  %pair = call fastcc { double, i64 } @reduce(double %one)",
        "  %pr = extractvalue { double, i64 } %pair, 0",
        "  %pn = extractvalue { double, i64 } %pair, 1",
        f"  %r1 = insertelement {d} %r, double %pr, i64 %i",
        f"  %n1 = insertelement {w} %n, i64 %pn, i64 %i",
        "  br label %on",
        "on:",
        f"  %r2 = phi {d} [%r, %head], [%r1, %far]",
        f"  %n2 = phi {w} [%n, %head], [%n1, %far]",
        "  %next = add nuw nsw i64 %i, 1",
        f"  %more = icmp ult i64 %next, {lanes}",
        "  br i1 %more, label %head, label %out",
        "out:",
        f"  %p0 = insertvalue {{ {d}, {w} }} poison, {d} %r2, 0",
        f"  %p1 = insertvalue {{ {d}, {w} }} %p0, {w} %n2, 1",
        f"  ret {{ {d}, {w} }} %p1",
        "}",
    ])  # fmt: skip


def _large() -> str:
    """Remainder and quadrant of one |x| >= 2^20.

    With x = m * 2^e, the bits of 2/pi above weight 2^(1 - e) give multiples of 4 and are left
    out; of the product's 192 bits the first two are the quadrant and the rest a fraction of it,
    whose 128 bits hold a float64 even where 61 of them cancel."""
    digits = "0" * 16 + _TWO_OVER_PI_HEX
    words = [int(digits[i : i + 16], 16) for i in range(0, len(digits), 16)]
    listed = ", ".join(f"i64 {w - (1 << 64) if w >> 63 else w}" for w in words)
    return "\n".join([
        f"@{_TABLE} = internal unnamed_addr constant [{len(words)} x i64] [{listed}], align 8",
        "define internal fastcc { double, i64 } @reduce(double %x) noinline #0 {",
        "entry:",
        "  %bits = bitcast double %x to i64",
        "  %field0 = lshr i64 %bits, 52",
        "  %field = and i64 %field0, 2047",
        "  %endless = icmp eq i64 %field, 2047",
        "  br i1 %endless, label %bad, label %good",
        "bad:",
        "  ret { double, i64 } { double 0x7FF8000000000000, i64 0 }",
        "good:",
        "  %low = and i64 %bits, 4503599627370495",
        "  %m = or i64 %low, 4503599627370496",
        # Bit e - 1 of 2/pi, counted from 1, behind 64 zeros: e + 62 with e = field - 1075.
        "  %at = sub i64 %field, 1013",
        "  %w = lshr i64 %at, 6",
        "  %o = and i64 %at, 63",
        *_window(len(words)),
        "  %mw = zext i64 %m to i192",
        "  %product = mul i192 %window, %mw",
        *_fraction(),
        "  %negative = icmp slt i64 %bits, 0",
        "  %flip = xor i1 %negative, %up",
        "  %rn = fneg double %r0",
        "  %r = select i1 %flip, double %rn, double %r0",
        "  %nn = sub i64 0, %n1",
        "  %n = select i1 %negative, i64 %nn, i64 %n1",
        "  %q0 = insertvalue { double, i64 } poison, double %r, 0",
        "  %q1 = insertvalue { double, i64 } %q0, i64 %n, 1",
        "  ret { double, i64 } %q1",
        "}",
    ])  # fmt: skip


def _window(words: int) -> list[str]:
    """``%window``: 192 bits of the table from bit ``%o`` of word ``%w`` on."""
    return [
        *[
            line
            for i in range(4)
            for line in (
                f"  %w{i} = add i64 %w, {i}",
                f"  %p{i} = getelementptr [{words} x i64], ptr @{_TABLE}, i64 0, i64 %w{i}",
                f"  %l{i} = load i64, ptr %p{i}, align 8",
                f"  %z{i} = zext i64 %l{i} to i256",
                f"  %s{i} = shl i256 %z{i}, {64 * (3 - i)}",
            )
        ],
        "  %a = or i256 %s0, %s1",
        "  %b = or i256 %s2, %s3",
        "  %c = or i256 %a, %b",
        "  %ow = zext i64 %o to i256",
        "  %d = shl i256 %c, %ow",
        "  %f = lshr i256 %d, 64",
        "  %window = trunc i256 %f to i192",
    ]


def _fraction() -> list[str]:
    """From ``%product``: the quadrant ``%n1``, whether it was rounded ``%up``, and the remainder's
    magnitude ``%r0``."""
    return [
        "  %top = lshr i192 %product, 190",
        "  %n0 = trunc i192 %top to i64",
        "  %left = shl i192 %product, 2",
        "  %high = lshr i192 %left, 64",
        "  %fraction = trunc i192 %high to i128",
        "  %up = icmp slt i128 %fraction, 0",
        "  %step = zext i1 %up to i64",
        "  %n1 = add i64 %n0, %step",
        "  %minus = sub i128 0, %fraction",
        "  %size = select i1 %up, i128 %minus, i128 %fraction",
        "  %lead = call i128 @llvm.ctlz.i128(i128 %size, i1 false)",
        "  %full = icmp ugt i128 %lead, 127",
        "  %by = select i1 %full, i128 127, i128 %lead",
        "  %norm = shl i128 %size, %by",
        # Times pi/2 in integers too, so that the conversion rounds but once.
        "  %cut = lshr i128 %norm, 64",
        f"  %arc = mul i128 %cut, {0xC90FDAA22168C235}",
        "  %most = lshr i128 %arc, 65",
        "  %word = trunc i128 %most to i64",
        "  %value = sitofp i64 %word to double",
        "  %by64 = trunc i128 %by to i64",
        "  %exponent = sub i64 961, %by64",
        "  %place = shl i64 %exponent, 52",
        "  %scale = bitcast i64 %place to double",
        "  %r0 = fmul double %value, %scale",
    ]
