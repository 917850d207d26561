"""Two versions of a vector's code: one for "every mask is true in every lane", one for the rest.

Nearly all vectors of a kernel lie inside its bounds. For those, masks cost nothing: whether they
are all true follows from the scalar bounds, and the masks themselves are not even computed.
"""

from collections.abc import Callable

from kernelsmith.devices.cpu.lower_elementwise import (
    REMAINDERS,
    below_divisor,
    is_line,
    nowhere,
    whole,
)
from kernelsmith.devices.cpu.lower_evaluate import evaluate, moved
from kernelsmith.devices.cpu.lower_forms import Form, as_vector, vec
from kernelsmith.devices.cpu.lower_state import Buffer, Context, Index, Lazy, Lowering, Shifted
from kernelsmith.devices.cpu.ttir import Op, Value
from kernelsmith.devices.cpu.ttir_ops import ELEMENTWISE

Body = Callable[[Context], list[Form]]


class Masks:
    """The masks that an evaluation will meet; ``known`` is false once one cannot be told.
    ``lines``: whether each remainder of an index that it meets is the index itself."""

    def __init__(self, lo: Lowering, ctx: Context) -> None:
        self._lo, self._ctx = lo, ctx
        self._seen: set[tuple[object, ...]] = set()
        self.forms: list[Form] = []
        self.lines: list[Form] = []
        self.known = True

    def visit(self, value: Value, index: Index) -> None:
        """Adds the masks of all loads that evaluating ``value`` runs."""
        key = (value, *(at.key for at in index))
        bound = self._lo.env.get(value)
        if not self.known or key in self._seen:
            return
        self._seen.add(key)
        if isinstance(bound, Shifted):
            self.visit(bound.init, index)
        if not isinstance(bound, Lazy):
            return
        op = bound.op
        if op.name == "tt.load":
            self.add(op, index)
        elif op.name in ELEMENTWISE:
            for operand in op.operands:
                self.visit(operand, index)
            if op.name in REMAINDERS and self._ctx.lanes > 1:
                self._remainder(op, index)
        elif op.name == "tt.splat":
            self.visit(op.operands[0], ())
        elif op.name == "tt.reshape" and isinstance(self._lo.env.get(op.operands[0]), Buffer):
            return
        elif op.operands:
            place = None
            if op.name not in ("tt.reshape", "tt.split"):
                place = moved(self._lo, self._ctx, op, value, index)
            if place is None:
                self.known = False
            else:
                self.visit(*place)

    def _remainder(self, op: Op, index: Index) -> None:
        forms = [evaluate(self._lo, self._ctx, operand, index) for operand in op.operands]
        if is_line(forms):
            self.lines.append(below_divisor(self._lo.em, self._ctx.lanes, forms))

    def add(self, op: Op, index: Index) -> None:
        """Adds the mask of a load or store at ``index`` and those behind its operands."""
        first = 2 if op.name == "tt.store" else 1
        for operand in op.operands:
            self.visit(operand, index)
        if len(op.operands) > first and self.known:
            self.forms.append(evaluate(self._lo, self._ctx, op.operands[first], index))


def versioned(
    lo: Lowering, ctx: Context, masks: Masks, body: Body, *, dead: bool = False
) -> list[Form]:
    """``body`` once for all masks true and no remainder that wraps around, and once for anything;
    results meet in phis. ``dead``: also once for all masks false, as in what a block has beyond the
    end of a row.

    Without masks, or if their truth is not a cheap scalar, ``body`` runs as it is."""
    truths = [(whole(f), f.level) for f in masks.forms if not (f.is_const and f.val)]
    truths += [(str(f.val), f.level) for f in masks.lines]
    if lo.plain or not masks.known or not truths or not all(text for text, _ in truths):
        return body(ctx)
    em, level = lo.em, lo.em.depth
    cond = _all(lo, truths)
    name = em.fresh("mask")
    none = _none(lo, masks.forms) if dead and masks.forms else ""
    rest = f"{name}.rest" if none else f"{name}.some"
    em.do(level, f"br i1 {cond}, label %{name}.all, label %{rest}")
    versions: list[tuple[str, int | None, int | None]] = [("all", level, None)]
    if none:
        em.block(level, rest)
        em.do(level, f"br i1 {none}, label %{name}.none, label %{name}.some")
        versions.append(("none", None, level))
    sides = []
    for side, unmasked, off in (*versions, ("some", None, None)):
        em.block(level, f"{name}.{side}")
        inner = ctx.fork(unmasked, off)
        forms = body(inner)
        if off is None:
            _share(lo, inner, ctx, level)
        texts = [_text(lo, f, ctx.lanes, level) for f in forms]
        sides.append((em.label(level), texts, forms))
        em.do(level, f"br label %{name}.end")
    em.block(level, f"{name}.end")
    merged = []
    for i, form in enumerate(sides[0][2]):
        kind = vec(form.elem, ctx.lanes)
        pairs = ", ".join(f"[{texts[i]}, %{label}]" for label, texts, _ in sides)
        dirty = any(forms[i].dirty for *_, forms in sides)
        merged.append(Form("V", form.elem, em.op(level, f"phi {kind} {pairs}"), level, 0, dirty))
    return merged


def _share(lo: Lowering, side: Context, ctx: Context, level: int) -> None:
    """Loads that one side placed ahead of the branch keep their masks there and serve both."""
    for key, form in side.memo.items():
        bound = lo.env.get(key[0]) if isinstance(key[0], Value) else None
        if isinstance(bound, Lazy) and bound.op.name == "tt.load" and form.level < level:
            ctx.memo.setdefault(key, form)


def _none(lo: Lowering, forms: list[Form]) -> str:
    """Whether all masks are false in all lanes, "" if that is not cheap or cannot be."""
    if any(f.is_const for f in forms):
        return ""
    found = [(nowhere(lo.em, f), f.level) for f in forms]
    return _all(lo, found) if all(text for text, _ in found) else ""


def _all(lo: Lowering, truths: list[tuple[str, int]]) -> str:
    """Conjunction of scalars, given with their levels: those of outer loops first, where they
    belong."""
    cond, at = "", 0
    seen: set[str] = set()
    for text, level in sorted(truths, key=lambda truth: truth[1]):
        if text in seen:
            continue
        seen.add(text)
        at = max(at, level)
        cond = lo.em.op(at, f"and i1 {cond}, {text}") if cond else text
    return cond


def _text(lo: Lowering, form: Form, lanes: int, level: int) -> str:
    return as_vector(lo.em, Form(form.kind, form.elem, form.val, level, form.step), lanes)
