"""A first look before everything is compiled: one telling case of each entry.

Most wrong candidates are wrong everywhere. Compiling the classes of one case an entry and running
those finds them in a fraction of the time that all classes take. It proves nothing: what passes
here goes through compile and parity in full, and leaves no trace of this look in the verdict. What
fails is recorded under the check that it failed.
"""

from kernelsmith.gate.bench import Bench
from kernelsmith.gate.parity import compare_cases
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Outcome, Subject
from kernelsmith.model import Case

FEW_TOKENS = 5


def check(bench: Bench, reference: Reference, subject: Subject) -> tuple[str, Outcome]:
    """Compares one case of each entry; returns the check that it stands for, and the outcome."""
    cases = telling_cases(reference)
    found = bench.compile(subject, cases)
    if found.status is not None:
        return "compile", found
    for path in ("train", "infer"):
        own = [case for case in cases if bench.task.call(case.call).path == path]
        found = compare_cases(bench, reference, subject, own)
        if found.status is not None:
            return f"parity.{path}", found
    return "compile", Outcome()


def telling_cases(reference: Reference) -> list[Case]:
    """For each entry the cheapest case in float32 (coarser dtypes hide differences) that has more
    than a few tokens, or what comes nearest to that."""
    task = reference.task
    best: dict[str, Case] = {}

    def rank(case: Case) -> tuple[bool, bool, bool, float]:
        tokens = case.dim(task.token_dim)
        return (
            tokens == 0,
            case.dtype != "float32",
            tokens < FEW_TOKENS,
            reference.seconds[case.id],
        )

    for case in task.cases:
        entry = task.call(case.call).entry
        if entry not in best or rank(case) < rank(best[entry]):
            best[entry] = case
    return list(best.values())
