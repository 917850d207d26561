"""One-spot mutants of the shipped seeds: each changes an order, a rounding, a mask or a constant.

All are within the language and right to a few ulps or in all but one element; the gate must see
every one of them in the bits.
"""

from kernelsmith.errors import EvidenceError
from kernelsmith.gate.probes.mutant import Mutant
from kernelsmith.gate.probes.mutants_logprob import LOGPROB
from kernelsmith.gate.probes.mutants_swiglu import SWIGLU
from kernelsmith.model import Task

RMS_NORM = (
    Mutant(name="eps left out", old="mean + eps", new="mean"),
    Mutant(
        name="last column not squared",
        old="inside = cols < n_cols",
        new="inside = cols < n_cols - 1",
    ),
    Mutant(
        name="sum of squares in the device's order",
        old="tree_sum(squares)",
        new="tl.sum(squares, axis=0)",
        order=True,
    ),
    Mutant(
        name="squares added by fma", old="squares += h * h", new="squares = tl.fma(h, h, squares)"
    ),
    Mutant(
        name="residual not rounded before it is squared",
        old="h = (h + residual).to(x_ptr.dtype.element_ty).to(tl.float32)",
        new="h = h + residual",
    ),
    Mutant(
        name="scale by rstd * weight", old="y = (h * rstd) * weight", new="y = h * (rstd * weight)"
    ),
    Mutant(
        name="backward: rstd * mean first",
        old="dy * weight - (x * rstd) * mean",
        new="dy * weight - x * (rstd * mean)",
    ),
    Mutant(
        name="backward: weight gradient held in bfloat16",
        old="acc += dy * (x * rstd)",
        new="acc = (acc + dy * (x * rstd)).to(tl.bfloat16).to(tl.float32)",
    ),
    Mutant(
        name="backward: blocks of tokens in descending order",
        old="partial_ptr + block.to(tl.int64) * n_cols + cols, mask=inside",
        new="partial_ptr + (n_blocks - 1 - block).to(tl.int64) * n_cols + cols, mask=inside",
        order=True,
    ),
    Mutant(
        name="half as many lanes", old="BLOCK=1024", new="BLOCK=512", everywhere=True, order=True
    ),
)

LINEAR = (
    Mutant(
        name="blocks of K summed apart",
        old='tl.dot(a, b, acc, input_precision="ieee")',
        # Without the two factors the compiler folds the sum back into the dot's accumulator.
        new='acc + (tl.dot(a, b, input_precision="ieee") * 2.0) * 0.5',
        order=True,
    ),
    Mutant(
        name="K in descending blocks",
        old="ks = start + tl.arange(0, BLOCK_K)",
        new="ks = (tl.cdiv(k_size, BLOCK_K) - 1) * BLOCK_K - start + tl.arange(0, BLOCK_K)",
        order=True,
    ),
    Mutant(name="last k left out", old="k_inside = ks < k_size", new="k_inside = ks < k_size - 1"),
    Mutant(
        name="last row left out",
        old="row_inside = rows < m_size",
        new="row_inside = rows < m_size - 1",
    ),
    Mutant(
        name="last column left out",
        old="col_inside = cols < n_size",
        new="col_inside = cols < n_size - 1",
    ),
    Mutant(
        name="accumulator rounded in every block",
        old='acc = tl.dot(a, b, acc, input_precision="ieee")',
        new='acc = tl.dot(a, b, acc, input_precision="ieee").to(tl.bfloat16).to(tl.float32)',
    ),
    Mutant(
        name="product rounded before the bias is added",
        old="acc = acc + bias[None, :]",
        new="acc = acc.to(tl.bfloat16).to(tl.float32) + bias[None, :]",
    ),
    Mutant(
        name="bias twice", old="acc = acc + bias[None, :]", new="acc = acc + bias[None, :] * 2.0"
    ),
    Mutant(
        name="carry of the weight gradient dropped",
        old="HAS_CARRY=dw_carry is not None",
        new="HAS_CARRY=False",
    ),
    Mutant(
        name="bias gradient in the device's order",
        old="acc += tree_sum(a)",
        new="acc += tl.sum(a, axis=1)",
        order=True,
    ),
)

SHIPPED = {"rms_norm": RMS_NORM, "linear": LINEAR, "swiglu": SWIGLU, "logprob": LOGPROB}


def mutants(task: Task, *, order: bool = False) -> tuple[tuple[str, str], ...]:
    """(name, source) of the mutants of a shipped task; none for a task of the user's own.

    Args:
        order: only those that sum in another order.

    Raises:
        EvidenceError: the seed no longer has the text that a mutant changes.
    """
    if not task.shipped:
        return ()
    if task.name not in SHIPPED:
        raise EvidenceError(f"shipped task {task.name} has no mutants to prove the gate with")
    made = []
    for mutant in SHIPPED[task.name]:
        if mutant.old not in task.seed_source:
            raise EvidenceError(
                f"the seed of {task.name} has no text {mutant.old!r} (mutant: {mutant.name})"
            )
        count = -1 if mutant.everywhere else 1
        if mutant.order or not order:
            made.append((mutant.name, task.seed_source.replace(mutant.old, mutant.new, count)))
    return tuple(made)
