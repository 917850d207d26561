"""Index arithmetic of ``tt.reshape``: shapes are powers of two."""

from kernelsmith.devices.cpu.lower_forms import Form, affine, as_vector, const, vector_form
from kernelsmith.devices.cpu.lower_state import Context, Index, Lowering, index_const


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
        val = (
            at.val % dim
            if isinstance(at.val, int)
            else (lo.em.op(at.level, f"and i64 {at.val}, {dim - 1}"))
        )
        return Form(at.kind, "i64", val, at.level, at.step, False, min(at.align, dim))
    many = f"<{ctx.lanes} x i64>"
    wide = as_vector(lo.em, at, ctx.lanes)
    return Form(
        "V", "i64", lo.em.op(at.level, f"and {many} {wide}, splat (i64 {dim - 1})"), at.level
    )


def _high_bits(lo: Lowering, ctx: Context, at: Form, dim: int) -> Form:
    """``at // dim`` for a power of two."""
    shift = dim.bit_length() - 1
    if isinstance(at.val, int) and at.kind == "U":
        return index_const(at.val >> shift)
    if at.kind == "U" or (at.kind == "A" and at.step == 1 and _whole(ctx, at, dim)):
        val = (
            at.val >> shift
            if isinstance(at.val, int)
            else (lo.em.op(at.level, f"lshr i64 {at.val}, {shift}"))
        )
        return Form("U", "i64", val, at.level, 0, False, max(1, at.align // dim))
    many = f"<{ctx.lanes} x i64>"
    wide = as_vector(lo.em, at, ctx.lanes)
    return Form(
        "V", "i64", lo.em.op(at.level, f"lshr {many} {wide}, splat (i64 {shift})"), at.level
    )


def _whole(ctx: Context, at: Form, dim: int) -> bool:
    """Whether all lanes of a step-1 form lie in one block of ``dim``."""
    return at.align >= ctx.lanes and dim >= ctx.lanes
