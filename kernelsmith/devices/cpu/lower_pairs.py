"""Adjacent pairs: ``a, b = split(reshape(x, (..., N // 2, 2)))``, the step of a summation tree.

Evaluated lane by lane, each half would gather every other element of ``x`` and a tree of log2(N)
such steps would visit a leaf as often as there are paths to it. Here both halves come from one
reading of ``x`` in whole vectors: two vectors are taken apart into their even and odd lanes.
"""

from kernelsmith.devices.cpu.codegen_text import LANES
from kernelsmith.devices.cpu.lower_forms import Form, affine, as_vector, const, vec
from kernelsmith.devices.cpu.lower_state import Context, Lazy, Lowering
from kernelsmith.devices.cpu.ttir import Op, Value
from kernelsmith.devices.cpu.ttir_ops import ELEMENTWISE

#: Levels of a tree that are computed in registers before a level is kept in a buffer.
LEVELS_IN_REGISTERS = 4


def pair_source(definer: dict[Value, Op], split: Op) -> Value | None:
    """``x`` of ``split(reshape(x, (..., N // 2, 2)))``, None if the op is not of that form."""
    reshape = definer.get(split.operands[0])
    if reshape is None or reshape.name != "tt.reshape":
        return None
    source, paired = reshape.operands[0], split.operands[0].ty.shape
    shape = source.ty.shape
    if not shape or shape[:-1] != paired[:-2] or shape[-1] != 2 * paired[-2]:
        return None
    return source


def pair(
    lo: Lowering, ctx: Context, split: Op, index: tuple[Form, ...]
) -> tuple[Form, Form] | None:
    """Both results of the split at ``index``, None where the general path must serve."""
    from kernelsmith.devices.cpu.lower_evaluate import evaluate

    source = pair_source(lo.definer, split)
    if source is None or not isinstance(lo.env.get(split.operands[0]), Lazy):
        return None
    *outer, last = index
    if any(at.kind != "U" for at in outer) or (last.kind == "U") != (ctx.lanes == 1):
        return None
    if last.kind == "V" or (last.kind == "A" and last.step != 1):
        return None
    key = (split, *(at.key for at in index))
    if key in ctx.pairs:
        return ctx.pairs[key]
    lanes = ctx.lanes
    doubled = affine(lo.em, "mul", Form("U", "i64", last.val, last.level), const(2, "i64"))
    assert doubled is not None
    if 2 * lanes <= LANES:
        at = Form("A", "i64", doubled.val, doubled.level, 1, False, 2 * lanes)
        form = evaluate(lo, ctx.child(2 * lanes), source, (*outer, at))
        text = as_vector(lo.em, form, 2 * lanes)
        level, dirty = form.level, form.dirty
        halves = [_pick(lo, level, source.ty.elem, lanes, text, "poison", s) for s in (0, 1)]
    else:
        forms = []
        for part in (0, lanes):
            start = affine(lo.em, "add", doubled, const(part, "i64"))
            assert start is not None
            at = Form("A", "i64", start.val, start.level, 1, False, lanes)
            forms.append(evaluate(lo, ctx, source, (*outer, at)))
        level = max(f.level for f in forms)
        dirty = any(f.dirty for f in forms)
        a, b = (as_vector(lo.em, f, lanes) for f in forms)
        halves = [_pick(lo, level, source.ty.elem, lanes, a, b, s) for s in (0, 1)]
    kind = "V" if lanes > 1 else "U"
    even, odd = (Form(kind, source.ty.elem, h, level, 0, dirty) for h in halves)
    ctx.pairs[key] = (even, odd)
    return even, odd


def _pick(lo: Lowering, level: int, elem: str, lanes: int, a: str, b: str, side: int) -> str:
    """Even (side 0) or odd lanes of one vector of 2 * lanes, or of two vectors."""
    if lanes == 1:
        return lo.em.op(level, f"extractelement {vec(elem, 2)} {a}, i64 {side}")
    width = 2 * lanes if b == "poison" else lanes
    kind = vec(elem, width)
    mask = ", ".join(f"i32 {2 * i + side}" for i in range(lanes))
    return lo.em.op(level, f"shufflevector {kind} {a}, {kind} {b}, <{lanes} x i32> <{mask}>")


def kept_levels(definer: dict[Value, Op], values: list[Value]) -> set[Value]:
    """Tree levels to keep in buffers, so that code size does not grow with the tree: every
    :data:`LEVELS_IN_REGISTERS`-th one whose rows still fill a vector. ``values`` in order."""
    height: dict[Value, int] = {}
    kept = set()
    for value in values:
        op = definer[value]
        if op.name not in ELEMENTWISE or len(op.operands) != 2:
            continue
        split = definer.get(op.operands[0])
        if split is None or split.name != "tt.split" or definer.get(op.operands[1]) is not split:
            continue
        source = pair_source(definer, split)
        if source is None:
            continue
        height[value] = height.get(source, 0) + 1
        if height[value] % LEVELS_IN_REGISTERS == 0 and value.ty.shape[-1] >= LANES:
            kept.add(value)
    return kept
