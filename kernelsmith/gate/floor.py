"""The roofline floor: a time that no machine of this kind reaches means the clock or the work is
wrong. The peaks are generous on purpose; a floor may only catch the impossible."""

import math

from kernelsmith.gate import plans
from kernelsmith.model import ITEMSIZE_BYTES, Case, Inputs, Task

PEAK_BYTES_PER_US = {"cpu": 1.0e6, "cuda": 2.0e7}
"""Per program slot on the CPU (1 TB/s: two 64-byte loads a cycle from the first cache at 8 GHz),
for the whole machine on CUDA (20 TB/s, above any cache's rate on one device)."""
PEAK_FLOPS_PER_US = {"cpu": 5.0e5, "cuda": 5.0e9}
"""Per program slot on the CPU (two 16-lane fused multiply-adds a cycle at 8 GHz), for the whole
machine on CUDA (5 PFLOP/s, dense, above what tensor cores of one device do in 16 bits)."""


def floor_us(task: Task, case: Case, inputs: Inputs) -> float:
    """Least time in microseconds to read every input and write every output once, or to do the
    operations that the call declares, whichever is longer.

    Args:
        inputs: of the case; the tensors count with their elements, not with gaps between rows.
    """
    call = task.call(case.call)
    moved = sum(plans.nbytes(plans.output_meta(spec, case)) for spec in call.outputs)
    moved += sum(
        math.prod(spec.meta.shape) * ITEMSIZE_BYTES[spec.meta.dtype] for spec in inputs.tensors
    )
    flops = sum(factor * math.prod(case.dim(dim) for dim in dims) for factor, dims in call.flops)
    slots = max(task.num_programs, 1) if task.device == "cpu" else 1
    return max(
        moved / (PEAK_BYTES_PER_US[task.device] * slots),
        flops / (PEAK_FLOPS_PER_US[task.device] * slots),
    )
