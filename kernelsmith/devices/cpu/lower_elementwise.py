"""One elementwise op on forms: index arithmetic stays affine, all else becomes instructions."""

from kernelsmith.devices.cpu import lower_float as fl
from kernelsmith.devices.cpu import lower_integer as integer
from kernelsmith.devices.cpu import lower_math
from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.codegen_text import Emitter
from kernelsmith.devices.cpu.lower_forms import (
    Form,
    add_pointer,
    affine,
    as_vector,
    llvm,
    sign_extend,
)
from kernelsmith.devices.cpu.lower_remainder import remainder
from kernelsmith.devices.cpu.ttir import BITS, Op, Ty
from kernelsmith.devices.cpu.ttir_ops import BINARY_FLOAT, BINARY_INT, UNARY_FLOAT, refuse

_AFFINE = {"arith.addi": "add", "arith.subi": "sub", "arith.muli": "mul"}
_ARITHMETIC = {
    "arith.addf": "fadd",
    "arith.subf": "fsub",
    "arith.mulf": "fmul",
    "arith.divf": "fdiv",
    "tt.precise_divf": "fdiv",
}
_EXTREMES = {
    "arith.maxnumf": (True, False),
    "arith.minnumf": (False, False),
    "arith.maximumf": (True, True),
    "arith.minimumf": (False, True),
}
FCMP = {
    "false": "", "oeq": "oeq", "ogt": "ogt", "oge": "oge", "olt": "olt", "ole": "ole",
    "one": "one", "ord": "ord", "ueq": "ueq", "ugt": "ugt", "uge": "uge", "ult": "ult",
    "ule": "ule", "une": "une", "uno": "uno", "true": "",
}  # fmt: skip


def apply(em: Emitter, lanes: int, op: Op, forms: list[Form], result: Ty) -> Form:
    """The op on operand forms. Result level is the innermost of the operands'."""
    level = max((f.level for f in forms), default=0)
    shortcut = _index_shortcut(em, lanes, op, forms, result)
    if shortcut is not None:
        return shortcut
    scalar = all(f.kind == "U" for f in forms)
    s = Asm(em, level, 0 if scalar else lanes)
    if op.name == "arith.select":
        return select(em, lanes, s, op, forms)
    if op.name in ("arith.bitcast", "tt.bitcast") or op.name == "math.copysign":
        forms = [clean(s, f, lanes) for f in forms]
    args = [str(f.val) if scalar else as_vector(em, f, lanes) for f in forms]
    value, dirty = _compute(s, op, args, result)
    full = empty = ""
    if result.elem == "i1" and not scalar:
        full, empty = _extent(em, lanes, op, forms, level)
    return Form("U" if scalar else "V", result.elem, value, level, 0, dirty, 1, full, empty)


def whole(form: Form) -> str:
    """A scalar i1 that is true only if the mask is true in all lanes, "" if there is none."""
    return str(form.val) if form.kind == "U" else form.full


def nowhere(em: Emitter, form: Form) -> str:
    """A scalar i1 that is true only if the mask is false in all lanes, "" if there is none."""
    if form.kind != "U":
        return form.empty
    return em.op(form.level, f"xor i1 {form.val}, true")


def _extent(em: Emitter, lanes: int, op: Op, forms: list[Form], level: int) -> tuple[str, str]:
    """:func:`whole` and :func:`nowhere` of ``i < n`` over consecutive lanes, and of a conjunction
    of masks.

    The bound is checked in 64 bits, where the last lane's index cannot have wrapped around."""
    if op.name == "arith.andi":
        a, b = (whole(f) for f in forms)
        c, d = (nowhere(em, f) for f in forms)
        either = em.op(level, f"or i1 {c}, {d}") if c and d else c or d
        return em.op(level, f"and i1 {a}, {b}") if a and b else "", either
    predicate = str(op.attrs.get("head", "")).split(",")[0].strip()
    flipped = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle"}
    if op.name != "arith.cmpi" or predicate not in flipped:
        return "", ""
    line, bound = forms
    if line.kind == "U":
        line, bound, predicate = bound, line, flipped[predicate]
    if (line.kind, bound.kind) != ("A", "U") or not isinstance(line.step, int) or line.step <= 0:
        return "", ""
    if line.elem not in ("i32", "i64"):
        return "", ""
    start, end = (sign_extend(em, Form("U", f.elem, f.val, f.level), "i64") for f in (line, bound))
    far = line.step * (lanes - 1)
    late, early = (far, 0) if predicate in ("slt", "sle") else (0, far)
    late_at, early_at = (em.op(line.level, f"add i64 {start.val}, {at}") for at in (late, early))
    full = em.op(level, f"icmp {predicate} i64 {late_at}, {end.val}")
    some = em.op(level, f"icmp {predicate} i64 {early_at}, {end.val}")
    return full, em.op(level, f"xor i1 {some}, true")


REMAINDERS = frozenset({"arith.remsi", "arith.remui"})


def is_line(forms: list[Form]) -> bool:
    """Whether a remainder is one of rising consecutive-lane integers by one scalar: the dividend
    itself where no lane reaches the divisor."""
    line, bound = forms
    rising = isinstance(line.step, int) and line.step > 0
    return (line.kind, bound.kind) == ("A", "U") and rising and line.elem in ("i32", "i64")


def below_divisor(em: Emitter, lanes: int, forms: list[Form]) -> Form:
    """A scalar i1 that is true only if all lanes lie in [0, divisor), in 64 bits."""
    line, bound = forms
    assert isinstance(line.step, int)
    start, end = (sign_extend(em, Form("U", f.elem, f.val, f.level), "i64") for f in (line, bound))
    level = max(line.level, bound.level)
    last = em.op(line.level, f"add i64 {start.val}, {line.step * (lanes - 1)}")
    low = em.op(line.level, f"icmp sge i64 {start.val}, 0")
    high = em.op(level, f"icmp slt i64 {last}, {end.val}")
    return Form("U", "i1", em.op(level, f"and i1 {low}, {high}"), level)


def clean(s: Asm, form: Form, lanes: int) -> Form:
    """The form with canonical NaNs, if it may hold others."""
    if not form.dirty:
        return form
    one = Asm(s.em, form.level, lanes if form.kind == "V" else 0)
    return Form(form.kind, form.elem, fl.canonical(one, form.elem, str(form.val)), form.level)


def _index_shortcut(em: Emitter, lanes: int, op: Op, forms: list[Form], result: Ty) -> Form | None:
    """Ops that keep forms affine or constant."""
    if op.name == "tt.addptr":
        item = Ty(result.pointee).item_bytes if result.pointee in BITS else 1
        return add_pointer(em, forms[0], forms[1], item, lanes)
    if op.name in _AFFINE and result.elem != "i1":
        return affine(em, _AFFINE[op.name], forms[0], forms[1])
    widens = op.name in ("arith.extsi", "arith.index_cast")
    if widens and forms[0].kind != "V" and BITS[result.elem] > BITS[forms[0].elem]:
        return sign_extend(em, forms[0], result.elem)
    if op.name in ("tt.bitcast", "arith.bitcast") and result.elem == "ptr":
        return forms[0]
    return None


def select(em: Emitter, lanes: int, s: Asm, op: Op, forms: list[Form]) -> Form:
    """``arith.select`` on condition and two values; moves NaN payloads."""
    cond, a, b = forms
    if cond.is_const:
        return a if cond.val else b
    if a.dirty != b.dirty:
        a, b = clean(s, a, lanes), clean(s, b, lanes)
    if cond.kind == "U" and (a.kind, b.kind) == ("A", "A") and a.step == b.step:
        t = llvm(a.elem)
        val = em.op(s.level, f"select i1 {cond.val}, {t} {a.val}, {t} {b.val}")
        return Form("A", a.elem, val, s.level, a.step)
    t = s.of(a.elem)
    if s.lanes:
        x, y = as_vector(em, a, lanes), as_vector(em, b, lanes)
    else:
        x, y = str(a.val), str(b.val)
    condition = f"i1 {cond.val}" if cond.kind == "U" else f"{s.ty('i1')} {cond.val}"
    value = em.op(s.level, f"select {condition}, {t} {x}, {t} {y}")
    return Form("V" if s.lanes else "U", a.elem, value, s.level, 0, a.dirty)


def _compute(s: Asm, op: Op, args: list[str], result: Ty) -> tuple[str, bool]:
    """The instruction sequence and whether its NaNs are of any payload."""
    name, elem = op.name, result.elem
    source = op.operands[0].ty.elem
    if name in BINARY_INT:
        return integer.binary(s, name, elem, args[0], args[1]), False
    if name == "math.absi":
        return integer.absolute(s, elem, args[0]), False
    if name == "arith.cmpi":
        predicate = integer.PREDICATES[str(op.attrs["head"]).split(",")[0].strip()]
        return s.cmp(f"icmp {predicate}", source, args[0], args[1]), False
    if name == "arith.cmpf":
        predicate = str(op.attrs["head"]).split(",")[0].strip()
        if not FCMP[predicate]:
            return s.const("i1", int(predicate == "true")), False
        a, b = (fl.to_float(s, source, x) for x in args)
        return s.cmp(f"fcmp {predicate}", fl.compute_type(source), a, b), False
    if name in BINARY_FLOAT or name in UNARY_FLOAT or name in ("math.fma", "tt.clampf"):
        return _float(s, op, [fl.to_float(s, elem, x) for x in args], elem)
    return _cast(s, op, args[0], source, elem)


def _float(s: Asm, op: Op, args: list[str], elem: str) -> tuple[str, bool]:
    name, t = op.name, fl.compute_type(elem)
    if name in _ARITHMETIC:
        value = s.bin(_ARITHMETIC[name], t, args[0], args[1])
    elif name in _EXTREMES:
        value = fl.extreme(s, t, args[0], args[1], *_EXTREMES[name])
    elif name == "tt.clampf":
        nan = op.attrs.get("propagateNan") == "all"
        low = fl.extreme(s, t, args[0], args[1], True, nan)
        value = fl.extreme(s, t, low, args[2], False, nan)
    elif name == "arith.remf":
        value = remainder(s, t, args[0], args[1])
    elif name == "math.fma":
        if BITS[elem] <= 16:
            return fl.fma_narrow(s, elem, *args), False
        value = fl.fma(s, t, *args)
    elif name == "arith.negf":
        value = s.op(f"fneg {s.ty(t)} {args[0]}")
    elif name == "math.absf":
        value = s.call("fabs", t, args[0])
    elif name == "math.copysign":
        value = s.call("copysign", t, args[0], args[1])
    elif name in ("math.sqrt", "tt.precise_sqrt"):
        value = s.call("sqrt", t, args[0])
    elif name == "math.rsqrt":
        value = s.bin("fdiv", t, s.const(t, 1.0), s.call("sqrt", t, args[0]))
    else:
        value = lower_math.compute(s, op, t, args)
    return fl.from_float(s, elem, value), elem in ("f32", "f64")


def _cast(s: Asm, op: Op, value: str, source: str, target: str) -> tuple[str, bool]:
    name = op.name
    if name in ("arith.extsi", "arith.index_cast", "arith.trunci", "arith.extui"):
        if BITS[source] == BITS[target]:
            return value, False
        if BITS[source] > BITS[target]:
            return s.cast("trunc", source, value, target), False
        return s.cast("zext" if name == "arith.extui" else "sext", source, value, target), False
    if name in ("arith.sitofp", "arith.uitofp"):
        return _int_to_float(s, value, source, target, name == "arith.sitofp"), False
    if name in ("arith.fptosi", "arith.fptoui"):
        t = fl.compute_type(source)
        wide = fl.to_float(s, source, value)
        return integer.float_to_int(s, t, wide, target, name == "arith.fptosi"), False
    if name in ("arith.extf", "arith.truncf", "tt.fp_to_fp"):
        if BITS[target] < BITS[source] and rounding(op) == "rtz":
            return fl.toward_zero(s, source, target, value), False
        return _float_to_float(s, value, source, target)
    if name in ("arith.bitcast", "tt.bitcast"):
        a, b = llvm(source), llvm(target)
        return (value if a == b else s.cast("bitcast", a, value, b)), False
    if name == "tt.int_to_ptr":
        return s.cast("inttoptr", source, value, "ptr"), False
    if name == "tt.ptr_to_int":
        return s.cast("ptrtoint", "ptr", value, target), False
    raise refuse(name, op.line)


def rounding(op: Op) -> str:
    """The rounding mode that a downcast names, "rtne" if it names none."""
    words = str(op.attrs.get("head", "")).replace(",", " ").split()
    mode = str(op.attrs.get("rounding", "rtz" if "rtz" in words else "rtne"))
    return {"toward_zero": "rtz", "to_nearest_even": "rtne"}.get(mode, mode)


def _int_to_float(s: Asm, value: str, source: str, target: str, signed: bool) -> str:
    """Rounded once. Wide integers reach 16-bit floats through float64 rounded to odd."""
    name = "sitofp" if signed else "uitofp"  # of i1, a signed true is -1, as in MLIR
    if target in ("f32", "f64"):
        return s.cast(name, source, value, llvm(target))
    if BITS[source] <= 16:
        return fl.from_float(s, target, s.cast(name, source, value, "float"))
    if BITS[source] == 32:
        return fl.f64_to_narrow(s, target, s.cast(name, source, value, "double"))
    # 64 bits: drop the low bits into a sticky one, which keeps the single rounding exact.
    low = s.bin("and", "i64", value, s.const("i64", 0xFFF))
    sticky = s.cast("zext", "i1", s.cmp("icmp ne", "i64", low, s.const("i64", 0)), "i64")
    kept = s.bin("and", "i64", value, s.const("i64", -0x1000))
    marked = s.bin("or", "i64", kept, s.bin("shl", "i64", sticky, s.const("i64", 12)))
    big = s.cmp(
        "icmp ugt",
        "i64",
        s.bin("add", "i64", value, s.const("i64", 1 << 52 if signed else 0)),
        s.const("i64", 1 << 53),
    )
    chosen = s.select(big, "i64", marked, value)
    return fl.f64_to_narrow(s, target, s.cast(name, "i64", chosen, "double"))


def _float_to_float(s: Asm, value: str, source: str, target: str) -> tuple[str, bool]:
    if source == target:
        return value, False
    if source == "f64":
        if target == "f32":
            return s.cast("fptrunc", "double", value, "float"), True
        return fl.f64_to_narrow(s, target, value), False
    wide = fl.to_float(s, source, value)
    if target == "f64":
        return s.cast("fpext", "float", wide, "double"), True
    # A 16-bit NaN keeps its payload when it is widened; f16 to f32 also makes it quiet.
    return fl.from_float(s, target, wide), False
