"""After a pause: do the workers answer, and does the seed still give the bits it gave before?

Nothing of a candidate runs here. A worker that thaws wrongly (a driver that lost its context,
memory that came back otherwise, another processor) shows in what it makes of the seed.
"""

from dataclasses import replace
from typing import Any

from kernelsmith.errors import EvidenceError, KernelsmithError
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.reference import Reference, compare
from kernelsmith.gate.subject import Ask, Outcome
from kernelsmith.model import Case
from kernelsmith.pauses import Pauses


def recheck(bench: Bench, reference: Reference | None, nonce: str) -> dict[str, Any]:
    """Asks each of the three workers for the cheapest case of the seed that has any bits, under the
    name ``nonce``.

    Args:
        reference: what the seed gave before; None: it has not run yet, and nothing is asked.

    Returns:
        ``case``, ``workers`` (which answered), ``started_anew`` (why; "" if the first try held).

    Raises:
        EvidenceError: workers that were started anew do not give the recorded answers either.
    """
    if reference is None or not reference.seconds:
        return {"case": None, "workers": [], "started_anew": ""}
    seconds = reference.seconds
    known = [case for case in bench.task.cases if case.id in seconds]
    # An empty batch has nothing that could differ.
    telling = [case for case in known if any(reference.outputs(case))] or known
    case = min(telling, key=lambda case: (seconds[case.id], case.id))
    with bench.beside(Pauses()) as plain:  # which does not wait for the end of this pause
        plain.objects, plain.trusted = bench.objects, bench.trusted
        workers = ["frontend", "seed", "launcher"]
        problem = _problem(plain, reference, case, nonce)
        if problem:
            plain.workers.renew()
            again = _problem(plain, reference, case, nonce)
            if again:
                raise EvidenceError(
                    f"after a pause the workers of task {bench.task.name} are not what they were: "
                    f"{problem}; started anew: {again}",
                    hint="did the machine, its driver or its processor change meanwhile? "
                    "`kernelsmith doctor --gate` tries the gate",
                )
    return {"case": case.id, "workers": workers, "started_anew": problem}


def _problem(bench: Bench, reference: Reference, case: Case, nonce: str) -> str:
    """What is not as on record; "" if all is."""
    name = f"{case.id} {nonce}"
    try:
        traced = bench.trace(reference.seed, [replace(case, id=name)])
        if traced.failure is not None:
            return f"the front end: {traced.failure.status}: {traced.failure.message}"
        if traced.plans.get(name) != reference.seed.plans[case.id]:
            return f"the front end traces another plan of case {case.id}"
        ask = Ask(key=name, case=case, inputs=reference.inputs(case))
        for subject in (reference.seed, replace(reference.seed, role="launcher")):
            done = bench.execute(subject, [ask])
            if isinstance(done, Outcome):
                return f"the {subject.role} worker: {done.status}: {done.message}"
            expected, actual = reference.outputs(case), done[0].outputs
            found = compare(bench.task, case, expected, actual, status="BITS_DIFFER")
            if found.status is not None:
                return f"the {subject.role} worker: {found.message}"
    except KernelsmithError as error:
        return error.message
    return ""
