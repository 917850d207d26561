"""witness: what the IR of the candidate says beside the seed's, before any of it is run.

Differences are evidence; what breaks a rule rejects. Of the rules about what a loaded float may
decide, those that the seed itself breaks bind no candidate: they are named in the evidence.
"""

from typing import Any

from kernelsmith.devices.cuda import lint
from kernelsmith.errors import TaskError
from kernelsmith.gate import code
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Outcome, Subject
from kernelsmith.gate.witness import allowed
from kernelsmith.gate.witness.facts import broken, differences
from kernelsmith.gate.witness.plans import Account, Broken, account
from kernelsmith.gate.witness.reading import read
from kernelsmith.gate.witness.rules import SAYS, UNORDERED
from kernelsmith.model import Case, Status

OWN_FILE = "candidate.py"
REFUSED_MACHINE_CODE = ("float_atomics", "ftz", "approx")
"""What PTX may not hold unless the seed's does; of the rest bits decide."""


def check(bench: Bench, reference: Reference, subject: Subject) -> Outcome:
    """Compares what the IR says, over all plans known by now.

    Raises:
        TaskError: the seed's IR cannot be read.
    """
    seed = _seeds(bench, reference)
    if seed.faults:
        kernel, fault = seed.faults[0]
        raise TaskError(
            f"the seed of task {bench.task.name}: kernel {kernel}: {fault}",
            hint="write the seed without it",
        )
    for plan_class in subject.classes.values():
        fault = allowed.option_offence(plan_class.options)
        if fault:
            return Outcome(status="COMPILE", message=f"kernel {plan_class.kernel}: {fault}")
    found = account(bench.said, bench.task, subject)
    subject.witnessed = (len(subject.plans), len(subject.classes))
    outcome = _judged(bench, found, seed)
    if outcome.status is None:
        outcome = _machine_code(bench, reference, subject, outcome)
    return outcome


def _seeds(bench: Bench, reference: Reference) -> Account:
    size = (len(reference.seed.plans), len(reference.seed.classes))
    known = bench.said.seed
    if known is None or known[0] != size:
        known = bench.said.seed = (size, account(bench.said, bench.task, reference.seed))
    return known[1]


def again(bench: Bench, reference: Reference, subject: Subject) -> Outcome:
    """The same for what a later check met: classes of other shapes, plans with other buffers."""
    if subject.witnessed in (None, (len(subject.plans), len(subject.classes))):
        return Outcome()
    planned = {launch.plan_class for plan in subject.plans.values() for launch in plan.launches}
    first: dict[str, Case] = {}
    for class_id in sorted(subject.beyond.keys() - planned):
        case = subject.beyond[class_id][0]
        first[case.id] = case
    met = bench.plan(subject, first.values())
    return met if met.status is not None else check(bench, reference, subject)


def _judged(bench: Bench, found: Account, seed: Account) -> Outcome:
    if found.faults:
        kernel, fault = found.faults[0]
        return Outcome(status="COMPILE", message=f"kernel {kernel}: {fault}")
    whole = seed.whole
    for kernel, facts in found.facts.items():
        wrong = broken(facts, whole, bench.task.device)
        if wrong:
            return Outcome(status="POLICY", message=f"kernel {kernel} {wrong}")
    for kind in [kind for kind in SAYS if kind in found.broken]:
        if kind == "atomic" or kind not in seed.broken:
            return _decided(found.broken[kind])
    evidence: dict[str, Any] = {
        "texts": found.texts,
        "kernels": sorted(found.facts),
        "accumulators": {
            "seed": _words(whole.accumulators),
            "candidate": _words(found.whole.accumulators),
        },
        "differences": differences(found.whole, whole),
    }
    as_seed = [SAYS[kind] for kind in SAYS if kind in found.broken]
    if as_seed:
        evidence["as_the_seed"] = as_seed
    return Outcome(evidence=evidence)


def _decided(one: Broken) -> Outcome:
    """The rejection of a launch that breaks a rule, with its source line."""
    kind = one.decision.kind
    located = read(one.plan_class.ttir, one.params)
    line = next((d.line for d in located.decided if d.kind == kind and d.line), "")
    status: Status = "NONDETERMINISTIC" if kind in UNORDERED else "POLICY"
    file, _, number = line.rpartition("/")[2].rpartition(":")
    place = f"line {number}" if file == OWN_FILE else f"{file}:{number}"
    where = f" at {place}" if line else ""
    why = "" if kind in UNORDERED else "; it could sum in one order for probes and in another later"
    return Outcome(
        status=status,
        message=f"kernel {one.plan_class.kernel}{where} {SAYS[kind]}{why}",
        evidence={"kernel": one.plan_class.kernel, "rule": kind, "line": line},
    )


def _machine_code(
    bench: Bench, reference: Reference, subject: Subject, outcome: Outcome
) -> Outcome:
    """The same question to PTX, where there is any: on a GPU."""
    used = [info for info in bench.code_of(subject) if "lint" in info.stats]
    known = [code.counts(info.stats) for info in bench.code_of(reference.seed)]
    told: dict[str, dict[str, str]] = {}
    for info in used:
        beyond = lint.beyond(code.counts(info.stats), known)
        for name in REFUSED_MACHINE_CODE:
            if name in beyond:
                status: Status = "NONDETERMINISTIC" if name == "float_atomics" else "POLICY"
                return Outcome(
                    status=status,
                    message=f"kernel {info.symbol} in PTX {beyond[name]}; the seed's does not",
                )
        if beyond:
            told[info.symbol] = beyond
    if used:
        outcome.evidence["machine_code_beyond_seed"] = told
    return outcome


def _words(accumulators: frozenset[tuple[str, str]]) -> list[str]:
    return sorted(f"{kind} {elem}" for kind, elem in accumulators)
