"""The roofline floor: a time that no machine of this kind reaches means the clock or the work is
wrong. The peaks are generous on purpose; a floor may only catch the impossible."""

from kernelsmith.gate import plans
from kernelsmith.model import ITEMSIZE_BYTES, Case, Inputs, Task

PEAK_BYTES_PER_US = {"cpu": 1.0e6, "cuda": 2.0e7}
"""Per program slot on the CPU (1 TB/s: two 64-byte loads a cycle from the first cache at 8 GHz),
for the whole machine on CUDA (20 TB/s, above any cache's rate on one device)."""


def floor_us(task: Task, case: Case, inputs: Inputs) -> float:
    """Least time in microseconds to read every input and write every output once.

    Args:
        inputs: of the case; the tensors count with their elements, not with gaps between rows.
    """
    call = task.call(case.call)
    moved = sum(plans.nbytes(plans.output_meta(spec, case)) for spec in call.outputs)
    for spec in inputs.tensors:
        elements = 1
        for size in spec.meta.shape:
            elements *= size
        moved += elements * ITEMSIZE_BYTES[spec.meta.dtype]
    slots = task.num_programs if task.device == "cpu" else 1
    return moved / (PEAK_BYTES_PER_US[task.device] * max(slots, 1))
