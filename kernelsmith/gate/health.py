"""Whether this machine still runs the seed: who is to blame when a candidate's job fails."""

from kernelsmith import cases as forms
from kernelsmith.errors import InfrastructureError
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.subject import Ask, Outcome, Subject
from kernelsmith.model import seed_candidate


def fault_of_machine(bench: Bench) -> str:
    """What fails when the seed is traced, compiled and run, once, on the workers that hold
    candidates; "" if nothing does."""
    task = bench.task
    case = min(task.cases, key=lambda case: (forms.cost(task, case), case.id))
    subject = Subject(candidate=seed_candidate(task), role="launcher")
    try:
        with bench.beside() as plain:
            found = plain.prepare(subject, [case])
            if found.status is None:
                ask = Ask(key=case.id, case=case, inputs=forms.inputs_for(task, case, 1))
                done = plain.execute(subject, [ask])
                found = done if isinstance(done, Outcome) else found
    except InfrastructureError as error:
        return error.message
    return "" if found.status is None else f"{found.status}: {found.message}"
