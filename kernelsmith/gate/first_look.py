"""A first look before all is traced and compiled: one telling case of each entry.

Most wrong candidates are wrong everywhere. Tracing, compiling and running one case an entry finds
them in a fraction of the time that all cases take. It proves nothing: what passes here goes through
trace, compile and parity in full, and leaves no trace of this look in the verdict. What fails is
recorded under the check that it failed.
"""

from kernelsmith import cases as forms
from kernelsmith.gate import observed
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.parity import compare_cases
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Outcome, Subject
from kernelsmith.model import Case

FEW_TOKENS = 5


def check(bench: Bench, reference: Reference, subject: Subject) -> tuple[str, Outcome]:
    """Compares one case of each entry; returns the check that it stands for, and the outcome."""
    cases = telling_cases(reference)
    found = bench.plan(subject, cases)
    if found.status is not None:
        return "trace", found
    found = bench.compile(subject, cases)
    if found.status is not None:
        return "compile", found
    case, found = observed.before_running(bench, reference, subject, cases)
    if case is not None:
        return f"parity.{bench.task.call(case.call).path}", found
    for path in ("train", "infer"):
        own = [case for case in cases if bench.task.call(case.call).path == path]
        found = compare_cases(bench, reference, subject, own)
        if found.status is not None:
            return f"parity.{path}", found
    return "trace", Outcome()


def telling_cases(reference: Reference) -> list[Case]:
    """For each entry the cheapest case in float32 (coarser dtypes hide differences) that has more
    than a few tokens, or what comes nearest to that."""
    task = reference.task
    best: dict[str, Case] = {}

    def rank(case: Case) -> tuple[bool, bool, bool, int, str]:
        tokens = case.dim(task.token_dim)
        return (
            tokens == 0,
            case.dtype != "float32",
            tokens < FEW_TOKENS,
            forms.cost(task, case),
            case.id,
        )

    for case in task.cases:
        entry = task.call(case.call).entry
        if entry not in best or rank(case) < rank(best[entry]):
            best[entry] = case
    return list(best.values())
