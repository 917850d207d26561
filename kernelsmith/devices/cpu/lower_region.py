"""The region of a reduction, scan or map: a scalar function, applied to vectors.

Arithmetic runs on whole vectors, with selects where the region branches. A region that loops, or
does more than compute, runs on one lane after another. Bits are those of the scalar function either
way.
"""

from collections.abc import Sequence

from kernelsmith.devices.cpu.lower_blocks import Run, run_blocks
from kernelsmith.devices.cpu.lower_evaluate import read_buffer, write_buffer
from kernelsmith.devices.cpu.lower_forms import Form
from kernelsmith.devices.cpu.lower_select import Forms, Region, select_all, selectable
from kernelsmith.devices.cpu.lower_state import Context, Index, Lowering, Scalar
from kernelsmith.devices.cpu.ttir import Ty, Value
from kernelsmith.devices.cpu.ttir_ops import ELEMENTWISE


def straight(region: Region) -> bool:
    """Whether the region is arithmetic alone, without branches, loops, calls and loads."""
    simple = ELEMENTWISE | {"arith.constant"}
    return len(region) == 1 and all(op.name in simple for op in region[0].ops[:-1])


def apply_region(
    lo: Lowering, run: Run, lanes: int, region: Region, inputs: Sequence[Form]
) -> Forms:
    """The region's results for its arguments: scalars for ``lanes`` 1, else in any form."""
    if straight(region) or (lanes > 1 and in_vectors(lo, region)):
        return select_all(lo, lanes, region, inputs)
    if lanes == 1:
        return _scalars(lo, run, region, inputs)
    return _lane_by_lane(lo, run, lanes, region, inputs)


def in_vectors(lo: Lowering, region: Region) -> bool:
    """Whether the region runs on whole vectors."""
    return straight(region) or (not lo.plain and selectable(lo, region))


def _lane_by_lane(
    lo: Lowering, run: Run, lanes: int, region: Region, inputs: Sequence[Form]
) -> Forms:
    """Vectors pass through the arena: lanes of a register cannot be counted through."""
    em = lo.em
    whole: Index = (Form("A", "i64", 0, 0, 1, False, lanes),)
    given = [lo.new_buffer(Ty(form.elem, (lanes,)), form.dirty) for form in inputs]
    for buffer, form in zip(given, inputs, strict=True):
        write_buffer(lo, Context(lanes, em.depth), buffer, whole, form)
    types = [value.ty for value in _returned(region)]
    outs = [lo.new_buffer(Ty(t.elem, (lanes,), t.pointee), t.elem in ("f32", "f64")) for t in types]
    with em.loop(lanes) as loop:
        at: Index = (Form("U", "i64", loop.index, em.depth),)
        ones = [read_buffer(lo, Context(1, em.depth), buffer, at) for buffer in given]
        for buffer, form in zip(outs, _scalars(lo, run, region, ones), strict=True):
            write_buffer(lo, Context(1, em.depth), buffer, at, form)
    return [read_buffer(lo, Context(lanes, em.depth), buffer, whole) for buffer in outs]


def _returned(region: Region) -> tuple[Value, ...]:
    return next(b.ops[-1].operands for b in region if not b.ops[-1].name.startswith("cf."))


def _scalars(lo: Lowering, run: Run, region: Region, inputs: Sequence[Form]) -> Forms:
    for arg, form in zip(region[0].args, inputs, strict=True):
        lo.env[arg] = Scalar(form)
    forms = []
    for bound in run_blocks(lo, region, run):
        assert isinstance(bound, Scalar)
        forms.append(bound.form)
    return forms
