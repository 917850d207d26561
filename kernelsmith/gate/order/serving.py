"""Which launches and which machine code may have a part in a reduction."""

from dataclasses import replace

from kernelsmith.gate.bench import Bench
from kernelsmith.gate.subject import Subject
from kernelsmith.model import Case, Launch, Plan, Reduction, Task

MISALIGN_BYTES = 8


def serving(task: Task, plan: Plan, case: Case, reduction: Reduction) -> tuple[Launch, ...]:
    """The launches of a plan that may have a part in a reduction: those that touch the output,
    and those that touch scratch that such a launch touches."""
    names = [output.name for output in task.call(case.call).outputs]
    wanted = {plan.outputs[names.index(reduction.output)].buffer}
    while True:
        found = tuple(launch for launch in plan.launches if _own(plan, launch) & wanted)
        more = set().union(*(_own(plan, launch) for launch in found))
        if more <= wanted:
            return found
        wanted |= more


def _own(plan: Plan, launch: Launch) -> set[int]:
    """Buffers of a launch that are no input."""
    touched = {arg.buffer for arg in launch.args if arg.kind == "ptr"}
    return {index for index in touched if not plan.buffers[index].arg}


def served_by(
    task: Task, subject: Subject, case: Case, reduction: Reduction, shift: int
) -> frozenset[str]:
    """Ids of the objects that may have a part in a reduction, pointers aligned or shifted."""
    return frozenset(
        subject.object_of[launch.plan_class_unaligned if shift else launch.plan_class]
        for launch in serving(task, subject.plans[case.id], case, reduction)
    )


def serving_code(bench: Bench, subject: Subject, case: Case, reduction: Reduction) -> str:
    """What is executed for a reduction: equal texts, equal instructions on equal buffers."""
    plan = subject.plans[case.id]
    launches = serving(bench.task, plan, case, reduction)
    used = dict.fromkeys(a.buffer for one in launches for a in one.args if a.kind == "ptr")
    name = {buffer: number for number, buffer in enumerate(used)}

    def code(class_id: str) -> str:
        return bench.objects[subject.object_of[class_id]][0].code_hash

    return repr(
        [
            [plan.buffers[buffer] for buffer in used],
            [
                (
                    code(one.plan_class),
                    code(one.plan_class_unaligned),
                    one.grid,
                    [replace(a, buffer=name.get(a.buffer, -1)) for a in one.args],
                )
                for one in launches
            ],
        ]
    )


def shifts(task: Task, subject: Subject, case: Case, reduction: Reduction) -> tuple[int, ...]:
    """Pointers 16-byte aligned, and where that runs other code, not aligned."""
    both = [served_by(task, subject, case, reduction, shift) for shift in (0, MISALIGN_BYTES)]
    return (0,) if both[0] == both[1] else (0, MISALIGN_BYTES)
