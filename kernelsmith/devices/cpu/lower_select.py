"""Branches without branching: a scalar function with ``if``, early returns and calls on vectors.

Both sides of a branch are computed and a select chooses; every op here is defined on all inputs, so
the side that is not taken does no harm. Loops, loads and checks are left to one lane at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelsmith.devices.cpu import lower_elementwise
from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.lower_carry import is_dirty
from kernelsmith.devices.cpu.lower_constant import constant
from kernelsmith.devices.cpu.lower_forms import Form, const
from kernelsmith.devices.cpu.lower_memory import zero
from kernelsmith.devices.cpu.lower_state import Lowering, Scalar
from kernelsmith.devices.cpu.ttir import Block, Op, Ty, Value
from kernelsmith.devices.cpu.ttir_branch import ordered, targets
from kernelsmith.devices.cpu.ttir_ops import ELEMENTWISE

Forms = list[Form]
Region = tuple[Block, ...]

#: Ops, calls written out, beyond which a function runs one lane at a time.
MAX_OPS = 200
_MAX_CALLS = 8
_PLAIN = ELEMENTWISE | {"arith.constant", "ub.poison"}
_BIT = Ty("i1")


def selectable(lo: Lowering, region: Region) -> bool:
    """Whether a function can be computed without branching."""
    return _count(lo, region, 0) <= MAX_OPS


def _count(lo: Lowering, region: Region, depth: int) -> int:
    """Ops of a function; more than :data:`MAX_OPS` if it loops, or does more than compute."""
    total = 0
    for op in (op for block in region for op in block.ops[:-1]):
        inner: Region = op.regions if op.name == "scf.if" else ()
        callee = lo.callees.get(str(op.attrs.get("callee"))) if op.name == "tt.call" else None
        if callee is not None and depth < _MAX_CALLS:
            inner = callee.blocks
        if not inner and op.name not in _PLAIN:
            return MAX_OPS + 1
        total += _count(lo, inner, depth + 1) if inner else 1
        if total > MAX_OPS:
            return total
    return total


def select_all(lo: Lowering, lanes: int, region: Region, inputs: Sequence[Form]) -> Forms:
    """Results of a :func:`selectable` function for vectors of arguments, in any form."""
    return _Function(lo, lanes, dict(zip(region[0].args, inputs, strict=True))).results(region)


@dataclass(slots=True)
class _Way:
    """One way into a block: when it is taken (None: always) and what it passes."""

    when: Form | None
    passed: Forms


@dataclass(slots=True)
class _Function:
    """One function call while it is written out."""

    lo: Lowering
    lanes: int
    known: dict[Value, Form] = field(default_factory=dict)

    def results(self, region: Region) -> Forms:
        """What its returns give."""
        if len(region) == 1:
            self._run(region[0].ops[:-1])
            return [self._form(value) for value in region[0].ops[-1].operands]
        ways: dict[str, list[_Way]] = {block.label: [] for block in region}
        ways[region[0].label].append(_Way(None, [self.known[arg] for arg in region[0].args]))
        ends: list[_Way] = []
        for block in ordered(region):
            taken = ways[block.label]
            self.known.update(zip(block.args, self._met(taken), strict=True))
            self._run(block.ops[:-1])
            last = block.ops[-1]
            when = self._any([way.when for way in taken])
            if not targets(last):
                ends.append(_Way(when, [self._form(value) for value in last.operands]))
            for side, (label, values) in enumerate(targets(last)):
                edge = when
                if last.name == "cf.cond_br":
                    edge = self._both(when, self._form(last.operands[0]), negated=side == 1)
                ways[label].append(_Way(edge, [self._form(value) for value in values]))
        return self._met(ends)

    def _run(self, ops: Sequence[Op]) -> None:
        for op in ops:
            if op.name == "arith.constant":
                forms = [constant(op)]
            elif op.name == "ub.poison":
                elem = op.results[0].ty.elem
                forms = [Form("U", elem, zero(elem), 0)]
            elif op.name == "scf.if":
                forms = self._if(op)
            elif op.name == "tt.call":
                callee = self.lo.callees[str(op.attrs["callee"])]
                given = [self._form(value) for value in op.operands]
                inner = _Function(self.lo, self.lanes, dict(zip(callee.args, given, strict=True)))
                forms = inner.results(callee.blocks)
            else:
                forms = [self._apply(op, [self._form(value) for value in op.operands])]
            self.known.update(zip(op.results, forms, strict=True))

    def _form(self, value: Value) -> Form:
        if value in self.known:
            return self.known[value]
        bound = self.lo.env[value]
        assert isinstance(bound, Scalar)
        return bound.form

    def _apply(self, op: Op, forms: Forms) -> Form:
        return lower_elementwise.apply(self.lo.em, self.lanes, op, forms, op.results[0].ty)

    def _if(self, op: Op) -> Forms:
        sides = []
        for region in op.regions:
            self._run(region.ops[:-1])
            sides.append([self._form(value) for value in region.ops[-1].operands])
        when = self._form(op.operands[0])
        pairs = zip(*sides, strict=True) if op.results else ()
        return [self._choose(when, a, b) for a, b in pairs]

    def _met(self, ways: list[_Way]) -> Forms:
        """What arrives by the one of the ways that is taken."""
        forms = ways[0].passed
        for way in ways[1:]:
            assert way.when is not None
            pairs = zip(way.passed, forms, strict=True)
            forms = [self._choose(way.when, new, old) for new, old in pairs]
        return forms

    def _choose(self, when: Form, a: Form, b: Form) -> Form:
        """A select. Like a value that a branch passes, it counts as an arithmetic result."""
        level = max(when.level, a.level, b.level)
        scalar = all(form.kind == "U" for form in (when, a, b))
        s = Asm(self.lo.em, level, 0 if scalar else self.lanes)
        op = Op("arith.select", (), ())
        got = lower_elementwise.select(self.lo.em, self.lanes, s, op, [when, a, b])
        dirty = got.dirty or is_dirty(Value("", Ty(got.elem)))
        return Form(got.kind, got.elem, got.val, got.level, got.step, dirty)

    def _any(self, masks: Sequence[Form | None]) -> Form | None:
        out = masks[0]
        for mask in masks[1:]:
            if out is None or mask is None:
                return None
            out = self._bits("arith.ori", out, mask)
        return out

    def _both(self, when: Form | None, cond: Form, *, negated: bool) -> Form:
        if negated:
            cond = self._bits("arith.xori", cond, const(1, "i1"))
        return cond if when is None else self._bits("arith.andi", when, cond)

    def _bits(self, name: str, a: Form, b: Form) -> Form:
        bit = Value("", _BIT)
        return self._apply(Op(name, (bit, bit), (bit,)), [a, b])
