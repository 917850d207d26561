"""The region of a reduction, scan or map: a scalar function, applied to vectors.

Straight-line arithmetic runs on whole vectors. A region that branches, loops or calls runs on one
lane after another. Bits are those of the scalar function either way.
"""

from collections.abc import Sequence

from kernelsmith.devices.cpu import lower_elementwise
from kernelsmith.devices.cpu.lower_blocks import Run, run_blocks
from kernelsmith.devices.cpu.lower_constant import constant
from kernelsmith.devices.cpu.lower_forms import Form, as_vector, llvm, vec
from kernelsmith.devices.cpu.lower_state import Lowering, Scalar
from kernelsmith.devices.cpu.ttir import Block, Value
from kernelsmith.devices.cpu.ttir_ops import ELEMENTWISE

Forms = list[Form]
Region = tuple[Block, ...]


def straight(region: Region) -> bool:
    """Whether the region is arithmetic alone, without branches, loops, calls and loads."""
    simple = ELEMENTWISE | {"arith.constant"}
    return len(region) == 1 and all(op.name in simple for op in region[0].ops[:-1])


def apply_region(
    lo: Lowering, run: Run, lanes: int, region: Region, inputs: Sequence[Form]
) -> Forms:
    """The region's results for its arguments: scalars for ``lanes`` 1, else in any form."""
    if straight(region):
        return _whole(lo, lanes, region[0], inputs)
    if lanes == 1:
        return _scalars(lo, run, region, inputs)
    em = lo.em
    vectors = [as_vector(em, form, lanes) for form in inputs]
    results = [value.ty.elem for value in _returned(region)]
    with em.loop(lanes) as loop:
        depth = em.depth
        outs = [loop.carry(vec(elem, lanes), "poison") for elem in results]
        ones = []
        for form, vector in zip(inputs, vectors, strict=True):
            kind = vec(form.elem, lanes)
            one = em.op(depth, f"extractelement {kind} {vector}, i64 {loop.index}")
            ones.append(Form("U", form.elem, one, depth, 0, form.dirty))
        forms = _scalars(lo, run, region, ones)
        for out, form in zip(outs, forms, strict=True):
            kind = vec(form.elem, lanes)
            item = f"{llvm(form.elem)} {form.val}"
            new = em.op(depth, f"insertelement {kind} {out}, {item}, i64 {loop.index}")
            loop.update(out, new)
        news = [phi[3] for phi in loop.phis]
    level = em.depth
    return [
        Form("V", form.elem, new, level, 0, form.elem in ("f32", "f64"))
        for form, new in zip(forms, news, strict=True)
    ]


def _returned(region: Region) -> tuple[Value, ...]:
    return next(b.ops[-1].operands for b in region if not b.ops[-1].name.startswith("cf."))


def _whole(lo: Lowering, lanes: int, block: Block, inputs: Sequence[Form]) -> Forms:
    known: dict[Value, Form] = dict(zip(block.args, inputs, strict=True))

    def form(value: Value) -> Form:
        if value in known:
            return known[value]
        bound = lo.env[value]
        assert isinstance(bound, Scalar)
        return bound.form

    for op in block.ops[:-1]:
        if op.name == "arith.constant":
            known[op.results[0]] = constant(op)
            continue
        forms = [form(o) for o in op.operands]
        result = lower_elementwise.apply(lo.em, lanes, op, forms, op.results[0].ty)
        known[op.results[0]] = result
    return [form(o) for o in block.ops[-1].operands]


def _scalars(lo: Lowering, run: Run, region: Region, inputs: Sequence[Form]) -> Forms:
    for arg, form in zip(region[0].args, inputs, strict=True):
        lo.env[arg] = Scalar(form)
    forms = []
    for bound in run_blocks(lo, region, run):
        assert isinstance(bound, Scalar)
        forms.append(bound.form)
    return forms
