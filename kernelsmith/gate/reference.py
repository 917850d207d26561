"""What the seed computes: the bytes every candidate is compared with.

The seed runs in a worker of its own. Its bytes stay on the host; they are never sent to a process
that holds a candidate.
"""

import math
from collections.abc import Iterable, Sequence

from kernelsmith import cases as forms
from kernelsmith.errors import EvidenceError, TaskError
from kernelsmith.gate import plans
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.compare import difference
from kernelsmith.gate.order.trees import Trees
from kernelsmith.gate.subject import Ask, Execution, Outcome, Subject, draw_seed
from kernelsmith.model import Case, Inputs, Status, Task

PERIODS = (1021, 509, 251, 127)
DRAWN_ELEMENTS = 1 << 22
"""Of each tensor with a row a token, about as many are drawn on a GPU; primes, see below."""


class Reference:
    """The seed's outputs for the task's cases (kept for the run) and for fresh ones (not kept).

    ``seconds`` is how long the seed took in each case: what a candidate may take hangs on it.
    ``trees`` is what probing the seed has shown of its order.
    """

    def __init__(self, bench: Bench, seed: Subject, secret: int) -> None:
        self.bench = bench
        self.task: Task = bench.task
        self.seed = seed
        self.secret = secret
        bench.trusted = seed.classes
        self.seconds: dict[str, float] = {}
        self.trees = Trees()
        self._outputs: dict[str, tuple[bytes, ...]] = {}

    def inputs(
        self,
        case: Case,
        *labels: object,
        of: Case | None = None,
        rows: tuple[int, ...] | None = None,
    ) -> Inputs:
        """The inputs of a case in this run.

        Args:
            labels: other values of the same kind, one set for each tuple of labels.
            of: take the values of this case, laid out as ``case`` has them.
            rows: only these tokens of ``of``'s batch, in this order; -1 is a padding row.

        Of a GPU's large batches a part is drawn and its tokens repeat; see :func:`drawn_tokens`.
        """
        base = of or case
        seed = draw_seed(self.secret, base.id, *labels)
        tokens = dict(base.dims).get(self.task.token_dim, 0)
        period = drawn_tokens(self.task, base)
        if period is not None:
            whole = range(tokens) if rows is None else rows
            rows = tuple(row if row < 0 else row % period for row in whole)
            tokens = period
        base_tokens = None if rows is None else tokens
        return forms.inputs_for(self.task, case, seed, rows=rows, base_tokens=base_tokens)

    def outputs(self, case: Case) -> tuple[bytes, ...]:
        """The seed's outputs of one of the task's cases on :meth:`inputs` (without labels)."""
        if case.id not in self._outputs:
            self.compute([case])
        return self._outputs[case.id]

    def compute(self, cases: Iterable[Case]) -> None:
        """Runs the seed on those cases that it has not run yet.

        Raises:
            TaskError: the seed does not trace, compile or run, or writes outside its outputs.
        """
        todo = [case for case in cases if case.id not in self._outputs]
        for part in chunks(todo, 16):
            asks = [Ask(key=case.id, case=case, inputs=self.inputs(case)) for case in part]
            for case, done in zip(part, self.fresh(asks), strict=True):
                self._outputs[case.id] = done.outputs
                self.seconds[case.id] = done.seconds

    def fresh(self, asks: Sequence[Ask]) -> list[Execution]:
        """Runs the seed; nothing is kept."""
        self.prepare([ask.case for ask in asks])
        return self.bench.execute_seed(self.seed, asks)

    def prepare(self, cases: Iterable[Case]) -> None:
        """Plans and objects of the seed.

        Raises:
            TaskError: the seed itself is rejected.
        """
        found = self.bench.prepare(self.seed, cases)
        if found.status is not None:
            raise TaskError(
                f"the seed of task {self.task.name} fails: {found.status}: {found.message}"
            )


def drawn_tokens(task: Task, case: Case) -> int | None:
    """How many tokens of a case's batch are drawn; None: all of them.

    A training batch for a GPU has hundreds of millions of numbers, which take longer to draw than
    a session lasts, in every process that needs them. So a part of it is drawn and repeated, a
    prime number of tokens long, so that no block of a kernel sees the repetition in step.
    """
    if task.device != "cuda":
        return None
    tokens = dict(case.dims).get(task.token_dim, 0)
    widest = 1
    for index, arg in enumerate(task.call(case.call).args):
        if arg.kind == "tensor" and forms.token_axis(task, arg) is not None and tokens:
            meta = forms.tensor_meta(arg, case, index)
            widest = max(widest, math.prod(meta.shape) // tokens)
    fit = [period for period in PERIODS if period * widest <= DRAWN_ELEMENTS]
    period = fit[0] if fit else PERIODS[-1]
    return period if tokens > period else None


def chunks(cases: Sequence[Case], size: int) -> Iterable[Sequence[Case]]:
    """Slices of at most ``size``."""
    for begin in range(0, len(cases), size):
        yield cases[begin : begin + size]


def compare(
    task: Task,
    case: Case,
    expected: tuple[bytes, ...],
    actual: tuple[bytes, ...],
    *,
    status: Status,
    how: str = "",
) -> Outcome:
    """Compares all outputs of a case; the first that differs is the outcome.

    Args:
        status: what a difference means to the check that asks.
        how: said after the case's name, such as ``, program order descending``.

    Raises:
        EvidenceError: an output is missing or has the wrong size.
    """
    specs = task.call(case.call).outputs
    if not len(specs) == len(expected) == len(actual):
        raise EvidenceError(
            f"case {case.id}{how}: {len(specs)} outputs, the reference has {len(expected)}, "
            f"the other {len(actual)}"
        )
    for spec, want, have in zip(specs, expected, actual, strict=True):
        meta = plans.output_meta(spec, case)
        found = difference(want, have, shape=meta.shape, dtype=meta.dtype)
        if found is not None:
            return Outcome(
                status=status,
                message=f"case {case.id}{how}, output {spec.name}: {found.line()}",
                evidence={"case": case.id, "output": spec.name, **found.evidence()},
            )
    return Outcome()
