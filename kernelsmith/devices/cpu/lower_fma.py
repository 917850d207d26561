"""float64 ``a * b + c`` rounded once on CPUs without the instruction: exact integers of 256 bits.

Slow, and bit for bit what the instruction does.
"""

from kernelsmith.devices.cpu.codegen_asm import Asm

_NAME = "fma.double"


def fma_double(s: Asm, a: str, b: str, c: str) -> str:
    """The function, lane by lane."""
    s.em.functions.setdefault(_NAME, _function())
    s.em.declare("llvm.ctlz.i64", "i64 @llvm.ctlz.i64(i64, i1)")
    s.em.declare("llvm.ctlz.i256", "i256 @llvm.ctlz.i256(i256, i1)")
    if not s.lanes:
        return s.op(f"call fastcc double @{_NAME}(double {a}, double {b}, double {c})")
    out, many = "poison", s.ty("double")
    for lane in range(s.lanes):
        given = [s.op(f"extractelement {many} {v}, i64 {lane}") for v in (a, b, c)]
        listed = ", ".join(f"double {v}" for v in given)
        one = s.op(f"call fastcc double @{_NAME}({listed})")
        out = s.op(f"insertelement {many} {out}, double {one}, i64 {lane}")
    return out


def _parts(p: str) -> list[str]:
    """Of ``%<p>``: sign ``s``, magnitude bits ``u``, 53-bit mantissa ``m``, exponent of its last
    bit ``e``. Subnormal numbers are normalised."""
    return [
        f"  %{p}b = bitcast double %{p} to i64",
        f"  %{p}s = lshr i64 %{p}b, 63",
        f"  %{p}u = and i64 %{p}b, {(1 << 63) - 1}",
        f"  %{p}f = lshr i64 %{p}u, 52",
        f"  %{p}l = and i64 %{p}u, {(1 << 52) - 1}",
        f"  %{p}t = icmp eq i64 %{p}f, 0",
        f"  %{p}z = call i64 @llvm.ctlz.i64(i64 %{p}l, i1 false)",
        f"  %{p}h0 = sub i64 %{p}z, 11",
        f"  %{p}h = select i1 %{p}t, i64 %{p}h0, i64 0",
        f"  %{p}w = and i64 %{p}h, 63",
        f"  %{p}x = shl i64 %{p}l, %{p}w",
        f"  %{p}o = or i64 %{p}l, {1 << 52}",
        f"  %{p}m = select i1 %{p}t, i64 %{p}x, i64 %{p}o",
        f"  %{p}g = select i1 %{p}t, i64 1, i64 %{p}f",
        f"  %{p}e0 = sub i64 %{p}g, 1075",
        f"  %{p}e = sub i64 %{p}e0, %{p}h",
    ]


def _function() -> str:
    inf = 0x7FF << 52
    return "\n".join([
        f"define internal fastcc double @{_NAME}(double %a, double %b, double %c) noinline #0 {{",
        "entry:",
        *_parts("a"), *_parts("b"), *_parts("c"),
        # Zeros, infinities and NaNs: the plain operations are exact, or their rounding is all.
        f"  %a1 = icmp uge i64 %au, {inf}",
        f"  %b1 = icmp uge i64 %bu, {inf}",
        f"  %c1 = icmp uge i64 %cu, {inf}",
        "  %a0 = icmp eq i64 %au, 0",
        "  %b0 = icmp eq i64 %bu, 0",
        "  %c0 = icmp eq i64 %cu, 0",
        "  %o1 = or i1 %a1, %b1",
        "  %o2 = or i1 %o1, %c1",
        "  %o3 = or i1 %a0, %b0",
        "  %odd = or i1 %o2, %o3",
        "  br i1 %odd, label %plain, label %check",
        "plain:",
        "  %pp = fmul double %a, %b",
        # An infinity must not meet a product that overflows on its way.
        "  %nf = xor i1 %o1, true",
        "  %alone = and i1 %c1, %nf",
        "  %ps = fadd double %pp, %c",
        "  %cc = fadd double %c, %c",
        "  %pr = select i1 %alone, double %cc, double %ps",
        "  ret double %pr",
        "check:",
        "  br i1 %c0, label %only, label %exact",
        "only:",
        "  %om = fmul double %a, %b",
        "  ret double %om",
        "exact:",
        *_sum(),
        "  br i1 %none, label %nothing, label %round",
        "nothing:",
        "  ret double 0.0",
        "round:",
        *_rounded(inf),
        "  ret double %value",
        "}",
    ])  # fmt: skip


def _sum() -> list[str]:
    """``%mag`` times 2^``%E`` with the sign ``%neg``: the exact sum, or one with the smaller
    addend as a single bit far below the larger one's rounding."""
    return [
        "  %am128 = zext i64 %am to i128",
        "  %bm128 = zext i64 %bm to i128",
        "  %p128 = mul i128 %am128, %bm128",
        "  %P0 = zext i128 %p128 to i256",
        "  %Z0 = zext i64 %cm to i256",
        "  %pe = add i64 %ae, %be",
        "  %d = sub i64 %ce, %pe",
        "  %up = icmp sgt i64 %d, 0",
        "  %dn = sub i64 0, %d",
        "  %far = icmp sgt i64 %d, 112",
        "  %near = icmp sgt i64 %dn, 60",
        "  %du0 = select i1 %far, i64 112, i64 %d",
        "  %du = select i1 %up, i64 %du0, i64 0",
        "  %dd0 = select i1 %near, i64 60, i64 %dn",
        "  %dd = select i1 %up, i64 0, i64 %dd0",
        "  %du256 = zext i64 %du to i256",
        "  %dd256 = zext i64 %dd to i256",
        "  %Z1 = shl i256 %Z0, %du256",
        "  %P1 = shl i256 %P0, %dd256",
        "  %P = select i1 %far, i256 1, i256 %P1",
        "  %Z = select i1 %near, i256 1, i256 %Z1",
        # The exponent of the last bit: of the product where it was not moved, else of z's.
        "  %Eu = sub i64 %ce, %du",
        "  %Ed = sub i64 %pe, %dd",
        "  %E = select i1 %up, i64 %Eu, i64 %Ed",
        "  %psign = xor i64 %as, %bs",
        "  %pneg = icmp ne i64 %psign, 0",
        "  %zneg = icmp ne i64 %cs, 0",
        "  %Pn = sub i256 0, %P",
        "  %Zn = sub i256 0, %Z",
        "  %Ps = select i1 %pneg, i256 %Pn, i256 %P",
        "  %Zs = select i1 %zneg, i256 %Zn, i256 %Z",
        "  %S = add i256 %Ps, %Zs",
        "  %neg = icmp slt i256 %S, 0",
        "  %Sn = sub i256 0, %S",
        "  %mag = select i1 %neg, i256 %Sn, i256 %S",
        "  %none = icmp eq i256 %mag, 0",
    ]


def _rounded(inf: int) -> list[str]:
    """``%value``: the sum to 53 bits, or to a multiple of 2^-1074."""
    return [
        "  %lead = call i256 @llvm.ctlz.i256(i256 %mag, i1 false)",
        "  %lead64 = trunc i256 %lead to i64",
        "  %k0 = sub i64 203, %lead64",
        "  %k1 = sub i64 -1074, %E",
        "  %kb = icmp sgt i64 %k1, %k0",
        "  %k2 = select i1 %kb, i64 %k1, i64 %k0",
        "  %kh = icmp sgt i64 %k2, 254",
        "  %k = select i1 %kh, i64 254, i64 %k2",
        "  %down = icmp sgt i64 %k, 0",
        "  %kn = sub i64 0, %k",
        "  %left = select i1 %down, i64 0, i64 %kn",
        "  %right = select i1 %down, i64 %k, i64 0",
        "  %left256 = zext i64 %left to i256",
        "  %right256 = zext i64 %right to i256",
        "  %ql = shl i256 %mag, %left256",
        "  %qr = lshr i256 %mag, %right256",
        "  %q0 = select i1 %down, i256 %qr, i256 %ql",
        "  %one = shl i256 1, %right256",
        "  %mask = sub i256 %one, 1",
        "  %rem = and i256 %mag, %mask",
        "  %half = lshr i256 %one, 1",
        "  %above = icmp ugt i256 %rem, %half",
        "  %tie = icmp eq i256 %rem, %half",
        "  %last = trunc i256 %q0 to i1",
        "  %even = and i1 %tie, %last",
        "  %grow0 = or i1 %above, %even",
        "  %grow = and i1 %grow0, %down",
        "  %step = zext i1 %grow to i256",
        "  %q256 = add i256 %q0, %step",
        "  %q = trunc i256 %q256 to i64",
        "  %last_e = add i64 %E, %k",
        "  %field = add i64 %last_e, 1075",
        "  %fieldbits = shl i64 %field, 52",
        f"  %q1 = sub i64 %q, {1 << 52}",
        "  %normal = add i64 %fieldbits, %q1",
        f"  %small = icmp ult i64 %q, {1 << 52}",
        "  %size = select i1 %small, i64 %q, i64 %normal",
        "  %over = icmp sgt i64 %field, 2046",
        f"  %size2 = select i1 %over, i64 {inf}, i64 %size",
        "  %s0 = zext i1 %neg to i64",
        "  %s1 = shl i64 %s0, 63",
        "  %word = or i64 %size2, %s1",
        "  %value = bitcast i64 %word to double",
    ]
