"""Evaluates a tensor value at an index, one vector of lanes at a time.

An index has one i64 form a dimension: ``U`` for a loop variable or constant, ``A`` with step 1
for the dimension the lanes run along. Shape operations only rewrite the index; elementwise ops
and loads are computed in the innermost stream that one of their operands needs.
"""

from kernelsmith.devices.cpu import lower_elementwise, lower_memory, lower_pairs
from kernelsmith.devices.cpu.codegen_asm import Asm, float_text
from kernelsmith.devices.cpu.lower_float import bits_of
from kernelsmith.devices.cpu.lower_forms import (
    Form,
    affine,
    as_vector,
    const,
    vector_form,
)
from kernelsmith.devices.cpu.lower_state import (
    Buffer,
    Context,
    Lazy,
    Lowering,
    Scalar,
    Shifted,
    index_const,
)
from kernelsmith.devices.cpu.ttir import Op, Ty, Value
from kernelsmith.devices.cpu.ttir_ops import ELEMENTWISE, refuse
from kernelsmith.errors import CompileError

Index = tuple[Form, ...]


def evaluate(lo: Lowering, ctx: Context, value: Value, index: Index) -> Form:
    """The value's elements at ``index``."""
    bound = lo.env[value]
    if isinstance(bound, Scalar):
        return bound.form
    index = tuple(
        index_const(0) if dim == 1 else at for dim, at in zip(value.ty.shape, index, strict=True)
    )
    key = (value, *(at.key for at in index))
    if key in ctx.memo:
        return ctx.memo[key]
    if isinstance(bound, Buffer):
        form = read_buffer(lo, ctx, bound, index)
    elif isinstance(bound, Shifted):
        form = _shifted(lo, ctx, bound, value, index)
    else:
        form = _lazy(lo, ctx, bound, value, index)
    if value in ctx.tee and index == ctx.natural:
        write_buffer(lo, ctx, ctx.tee[value], index, form)
    ctx.memo[key] = form
    return form


def read_buffer(lo: Lowering, ctx: Context, buffer: Buffer, index: Index) -> Form:
    pointer = lower_memory.buffer_pointer(lo.em, buffer.base, buffer.ty, index, ctx.lanes)
    level = max(pointer.level, ctx.base)
    form = lower_memory.load(lo.em, ctx.lanes, pointer, None, None, buffer.ty.elem, level)
    return Form(form.kind, form.elem, form.val, form.level, form.step, buffer.dirty)


def write_buffer(lo: Lowering, ctx: Context, buffer: Buffer, index: Index, form: Form) -> None:
    pointer = lower_memory.buffer_pointer(lo.em, buffer.base, buffer.ty, index, ctx.lanes)
    level = max(pointer.level, form.level, ctx.base)
    lower_memory.store(lo.em, ctx.lanes, pointer, form, None, level)


def _shifted(lo: Lowering, ctx: Context, bound: Shifted, value: Value, index: Index) -> Form:
    start = evaluate(lo, ctx, bound.init, index)
    if value.ty.elem == "ptr":
        from kernelsmith.devices.cpu.lower_forms import add_pointer

        return add_pointer(lo.em, start, bound.delta, 1, ctx.lanes)
    moved = affine(lo.em, "add", start, bound.delta)
    if moved is not None:
        return moved
    level = max(start.level, bound.delta.level)
    a = as_vector(lo.em, start, ctx.lanes)
    b = as_vector(lo.em, bound.delta, ctx.lanes)
    kind = f"<{ctx.lanes} x {value.ty.elem}>"
    return Form("V", value.ty.elem, lo.em.op(level, f"add {kind} {a}, {b}"), level)


def constant(op: Op) -> Form:
    """``arith.constant``, scalar or dense splat."""
    from kernelsmith.devices.cpu.ttir_parse import parse_float

    text = str(op.attrs["value"])
    elem = op.results[0].ty.elem
    if text.startswith("dense<"):
        text = text[6:-1]
    if text.startswith(("[", '"')):
        raise CompileError(f"non-splat constant at {op.line}", op=op.name, line=op.line)
    if text in ("true", "false"):
        return const(1 if text == "true" else 0, elem)
    if elem in ("f16", "bf16"):
        return Form("U", elem, _sixteen(text, elem), 0)
    if elem in ("f32", "f64"):
        return Form("U", elem, _float_constant(text, elem), 0)
    return const(int(text, 0), elem)


def _sixteen(text: str, elem: str) -> str:
    from kernelsmith.devices.cpu.ttir_parse import parse_float

    if text.startswith("0x"):
        return str(int(text, 16))
    return str(bits_of(elem, parse_float(text, elem)))


def _float_constant(text: str, elem: str) -> str:
    """Bits given in hexadecimal are kept, NaN payloads included."""
    from kernelsmith.devices.cpu.ttir_parse import parse_float

    if text.startswith("0x") and elem == "f64":
        return f"0x{int(text, 16):016X}"
    if text.startswith("0x"):
        word = int(text, 16)
        if (word >> 23) & 0xFF == 0xFF:  # inf and NaN: move the bits, do not compute
            wide = (word >> 31) << 63 | 0x7FF << 52 | (word & 0x7FFFFF) << 29
            return f"0x{wide:016X}"
    return float_text("float" if elem == "f32" else "double", parse_float(text, elem))


def _lazy(lo: Lowering, ctx: Context, bound: Lazy, value: Value, index: Index) -> Form:
    op = bound.op
    name = op.name
    if name in ELEMENTWISE:
        forms = [evaluate(lo, ctx, operand, index) for operand in op.operands]
        return lower_elementwise.apply(lo.em, ctx.lanes, op, forms, value.ty)
    if name == "arith.constant":
        return constant(op)
    if name == "tt.splat":
        return evaluate(lo, ctx, op.operands[0], ())
    if name == "tt.make_range":
        return _range(lo, ctx, op, index[0])
    if name == "tt.load":
        return _load(lo, ctx, op, index)
    if name == "ub.poison":
        return Form("U", value.ty.elem, "0.0" if value.ty.elem in ("f32", "f64") else 0, 0)
    return _shape(lo, ctx, op, value, index)


def _range(lo: Lowering, ctx: Context, op: Op, at: Form) -> Form:
    start = op.attrs["start"]
    assert isinstance(start, int)
    if at.kind == "V":
        narrow = lo.em.op(at.level, f"trunc <{ctx.lanes} x i64> {at.val} to <{ctx.lanes} x i32>")
        form = Form("V", "i32", narrow, at.level)
        if start == 0:
            return form
        kind = f"<{ctx.lanes} x i32>"
        return Form("V", "i32", lo.em.op(at.level, f"add {kind} {narrow}, splat (i32 {start})"),
                    at.level)
    val: str | int = at.val
    if isinstance(val, str):
        val = lo.em.op(at.level, f"trunc nuw nsw i64 {val} to i32")
    form = Form(at.kind, "i32", val, at.level, at.step)
    moved = affine(lo.em, "add", form, const(start, "i32"))
    assert moved is not None
    return moved


def _load(lo: Lowering, ctx: Context, op: Op, index: Index) -> Form:
    forms = [evaluate(lo, ctx, operand, index) for operand in op.operands]
    pointer = forms[0]
    mask = forms[1] if len(forms) > 1 and not ctx.unmasked else None
    other = forms[2] if len(forms) > 2 else None
    level = max(ctx.base, *(f.level for f in forms))
    elem = op.results[0].ty.elem
    return lower_memory.load(lo.em, ctx.lanes, pointer, mask, other, elem, level)


def moved(
    lo: Lowering, ctx: Context, op: Op, value: Value, index: Index
) -> tuple[Value, Index] | None:
    """Where a shape op takes an element from: operand and index; None for join and cat."""
    name, source = op.name, op.operands[0]
    if name == "tt.broadcast":
        return source, index
    if name == "tt.expand_dims":
        axis = op.attrs["axis"]
        assert isinstance(axis, int)
        return source, index[:axis] + index[axis + 1 :]
    if name == "tt.trans":
        order = op.attrs["order"]
        assert isinstance(order, tuple)
        at: list[Form] = [index_const(0)] * len(order)
        for position, axis in enumerate(order):
            at[axis] = index[position]
        return source, tuple(at)
    if name == "tt.reshape":
        return source, reshape(lo, ctx, value.ty.shape, source.ty.shape, index)
    if name == "tt.split":
        return source, (*index, index_const(op.results.index(value)))
    return None


def _shape(lo: Lowering, ctx: Context, op: Op, value: Value, index: Index) -> Form:
    name = op.name
    if name == "tt.split":
        pair = lower_pairs.pair(lo, ctx, op, index)
        if pair is not None:
            return pair[op.results.index(value)]
    place = moved(lo, ctx, op, value, index)
    if place is not None:
        return evaluate(lo, ctx, *place)
    if name == "tt.join":
        last = index[-1]
        a, b = op.operands
        if last.is_const:
            return evaluate(lo, ctx, b if last.val else a, index[:-1])
        forms = [evaluate(lo, ctx, x, index[:-1]) for x in (a, b)]
        return _either(lo, ctx, _nonzero(lo, ctx, last), forms[1], forms[0])
    if name == "tt.cat":
        return _cat(lo, ctx, op, index)
    raise refuse(name, op.line)


def _nonzero(lo: Lowering, ctx: Context, at: Form) -> Form:
    if at.kind == "U":
        return Form("U", "i1", lo.em.op(at.level, f"icmp ne i64 {at.val}, 0"), at.level)
    many = f"<{ctx.lanes} x i64>"
    bits = lo.em.op(at.level, f"icmp ne {many} {as_vector(lo.em, at, ctx.lanes)}, zeroinitializer")
    return Form("V", "i1", bits, at.level)


def _either(lo: Lowering, ctx: Context, cond: Form, a: Form, b: Form) -> Form:
    """``cond ? a : b`` through the select op's rules."""
    level = max(cond.level, a.level, b.level)
    fake = Op("arith.select", (), ())
    forms = [cond, a, b]
    scalar = all(f.kind == "U" for f in forms)
    s = Asm(lo.em, level, 0 if scalar else ctx.lanes)
    return lower_elementwise._select(lo.em, ctx.lanes, s, fake, forms)


def _cat(lo: Lowering, ctx: Context, op: Op, index: Index) -> Form:
    """Along dimension 0: the first operand's elements, then the second's."""
    a, b = op.operands
    size = a.ty.shape[0]
    at = index[0]
    level = at.level
    if at.kind == "U":
        first = lo.em.op(level, f"icmp slt i64 {at.val}, {size}")
        low = lo.em.op(level, f"and i64 {at.val}, {size - 1}")
        side, local = Form("U", "i1", first, level), Form("U", "i64", low, level)
    elif at.kind == "A" and at.align >= ctx.lanes and size >= ctx.lanes:
        first = lo.em.op(level, f"icmp slt i64 {at.val}, {size}")
        low = lo.em.op(level, f"and i64 {at.val}, {size - 1}")
        side = Form("U", "i1", first, level)
        local = Form("A", "i64", low, level, 1, False, at.align)
    else:
        many, wide = f"<{ctx.lanes} x i64>", as_vector(lo.em, at, ctx.lanes)
        first = lo.em.op(level, f"icmp slt {many} {wide}, splat (i64 {size})")
        low = lo.em.op(level, f"and {many} {wide}, splat (i64 {size - 1})")
        side, local = Form("V", "i1", first, level), Form("V", "i64", low, level)
    forms = [evaluate(lo, ctx, x, (local, *index[1:])) for x in (a, b)]
    return _either(lo, ctx, side, forms[0], forms[1])


def reshape(
    lo: Lowering, ctx: Context, outer: tuple[int, ...], inner: tuple[int, ...], index: Index
) -> Index:
    """Index into shape ``inner`` of the element at ``index`` of shape ``outer``.

    Dimensions are matched in groups of equal size, so that an unchanged dimension keeps its
    form."""
    out: list[Form] = []
    i = j = 0
    while i < len(outer) or j < len(inner):
        start_i, start_j = i, j
        size_i = size_j = 1
        if i < len(outer):
            size_i, i = outer[i], i + 1
        if j < len(inner):
            size_j, j = inner[j], j + 1
        while size_i != size_j:
            if size_i < size_j:
                size_i, i = size_i * outer[i], i + 1
            else:
                size_j, j = size_j * inner[j], j + 1
        out += _regroup(lo, ctx, outer[start_i:i], inner[start_j:j], index[start_i:i])
    return tuple(out)


def _regroup(
    lo: Lowering, ctx: Context, outer: tuple[int, ...], inner: tuple[int, ...], index: Index
) -> list[Form]:
    live = [(d, at) for d, at in zip(outer, index, strict=True) if d != 1]
    wanted = [d for d in inner if d != 1]
    if len(live) == 1 and len(wanted) == 1:
        it = iter([live[0][1]])
        return [index_const(0) if d == 1 else next(it) for d in inner]
    linear = index_const(0)
    stride = 1
    for dim, at in reversed(live):
        linear = _add(lo, ctx, linear, _scale(lo, ctx, at, stride))
        stride *= dim
    out: list[Form] = []
    for dim in reversed(inner):
        if dim == 1:
            out.append(index_const(0))
            continue
        out.append(_low_bits(lo, ctx, linear, dim))
        linear = _high_bits(lo, ctx, linear, dim)
    return out[::-1]


def _scale(lo: Lowering, ctx: Context, at: Form, by: int) -> Form:
    form = affine(lo.em, "mul", at, const(by, "i64"))
    if form is None:
        many = f"<{ctx.lanes} x i64>"
        got = lo.em.op(at.level, f"mul {many} {at.val}, splat (i64 {by})")
        form = Form("V", "i64", got, at.level)
    return Form(form.kind, "i64", form.val, form.level, form.step, False, at.align * by)


def _add(lo: Lowering, ctx: Context, a: Form, b: Form) -> Form:
    form = affine(lo.em, "add", a, b)
    if form is None:
        level = max(a.level, b.level)
        x, y = (vector_form(lo.em, f, ctx.lanes).val for f in (a, b))
        form = Form("V", "i64", lo.em.op(level, f"add <{ctx.lanes} x i64> {x}, {y}"), level)
    align = min(a.align, b.align)
    if a.is_const and a.val == 0:
        align = b.align
    if b.is_const and b.val == 0:
        align = a.align
    return Form(form.kind, "i64", form.val, form.level, form.step, False, align)


def _low_bits(lo: Lowering, ctx: Context, at: Form, dim: int) -> Form:
    """``at % dim`` for a power of two."""
    if isinstance(at.val, int) and at.kind == "U":
        return index_const(at.val % dim)
    if at.kind == "U" or (at.kind == "A" and at.step == 1 and _whole(ctx, at, dim)):
        val = at.val % dim if isinstance(at.val, int) else (
            lo.em.op(at.level, f"and i64 {at.val}, {dim - 1}"))
        return Form(at.kind, "i64", val, at.level, at.step, False, min(at.align, dim))
    many = f"<{ctx.lanes} x i64>"
    wide = as_vector(lo.em, at, ctx.lanes)
    return Form("V", "i64", lo.em.op(at.level, f"and {many} {wide}, splat (i64 {dim - 1})"),
                at.level)


def _high_bits(lo: Lowering, ctx: Context, at: Form, dim: int) -> Form:
    """``at // dim`` for a power of two."""
    shift = dim.bit_length() - 1
    if isinstance(at.val, int) and at.kind == "U":
        return index_const(at.val >> shift)
    if at.kind == "U" or (at.kind == "A" and at.step == 1 and _whole(ctx, at, dim)):
        val = at.val >> shift if isinstance(at.val, int) else (
            lo.em.op(at.level, f"lshr i64 {at.val}, {shift}"))
        return Form("U", "i64", val, at.level, 0, False, max(1, at.align // dim))
    many = f"<{ctx.lanes} x i64>"
    wide = as_vector(lo.em, at, ctx.lanes)
    return Form("V", "i64", lo.em.op(at.level, f"lshr {many} {wide}, splat (i64 {shift})"),
                at.level)


def _whole(ctx: Context, at: Form, dim: int) -> bool:
    """Whether all lanes of a step-1 form lie in one block of ``dim``."""
    return at.align >= ctx.lanes and dim >= ctx.lanes


