"""What the IR of a subject says over all its plans: what one launch leaves, the next one loads."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kernelsmith.gate.subject import Subject
from kernelsmith.gate.witness.facts import Facts, together
from kernelsmith.gate.witness.flow import Param
from kernelsmith.gate.witness.reading import Said, plain, read
from kernelsmith.gate.witness.rules import Decision
from kernelsmith.model import Case, Launch, Plan, PlanClass, Task

KEPT_MAX = 4096
Key = tuple[str, tuple[Param, ...] | None]


@dataclass(slots=True)
class Memory:
    """What texts were found to say, for one candidate and those that a gate keeps; the oldest are
    dropped. ``seed``: all that the
    seed's say, with how many plans and classes it had then."""

    plain: dict[str, str] = field(default_factory=dict)
    seed: "tuple[tuple[int, int], Account] | None" = None
    said: dict[Key, Said] = field(default_factory=dict)

    def text(self, plan_class: PlanClass) -> str:
        """The class's text without what changes no analysis."""
        found = self.plain.get(plan_class.ttir)
        if found is None:
            found = self.plain[plan_class.ttir] = plain(plan_class.ttir)
            _drop_oldest(self.plain)
        return found

    def keep(self, texts: set[str]) -> None:
        """Drops what other texts were found to say."""
        self.plain = {text: plain for text, plain in self.plain.items() if text in texts}
        kept = set(self.plain.values())
        self.said = {key: said for key, said in self.said.items() if key[0] in kept}

    def read(self, key: Key) -> Said:
        found = self.said.get(key)
        if found is None:
            found = self.said[key] = read(*key)
            _drop_oldest(self.said)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A rule that a launch of a class breaks, and how to find the line."""

    plan_class: PlanClass
    params: tuple[Param, ...] | None
    decision: Decision


@dataclass(slots=True, kw_only=True)
class Account:
    """``faults``: kernel and what of its text cannot be read. ``facts``: by kernel; of one with
    several classes the most that any says. ``broken``: the first of each rule."""

    texts: int = 0
    faults: list[tuple[str, str]] = field(default_factory=list)
    facts: dict[str, Facts] = field(default_factory=dict)
    broken: dict[str, Broken] = field(default_factory=dict)

    @property
    def whole(self) -> Facts:
        """All kernels together."""
        return together(self.facts.values(), most=False)


def account(memory: Memory, task: Task, subject: Subject) -> Account:
    """What the IR of all the subject's classes says, in all its plans; of a class that none of them
    takes, as if each pointer had a buffer of its own."""
    found = Account()
    used: dict[str, set[Key]] = {}
    seen: dict[object, None] = {}
    for case_id, plan in subject.plans.items():
        classes = _classes(subject, plan)
        floats = _declared(task, subject.cases[case_id], plan)
        key = (tuple((c, _buffers(launch)) for launch, c in classes), tuple(floats))
        if key not in seen:
            seen[key] = None
            _walk(memory, subject, classes, floats, found, used)
    for class_id, plan_class in subject.classes.items():
        if class_id not in used:
            _alone(memory, plan_class, found, used)
    said: dict[str, list[Facts]] = {}
    texts: dict[str, None] = {}
    for class_id, keys in used.items():
        for one in keys:
            if one[0] not in texts:
                texts[one[0]] = None
                said.setdefault(subject.classes[class_id].kernel, []).append(memory.read(one).facts)
    found.texts = len(texts)
    found.facts = {name: together(held, most=True) for name, held in sorted(said.items())}
    return found


def _classes(subject: Subject, plan: Plan) -> list[tuple[Launch, tuple[str, ...]]]:
    return [
        (launch, tuple(dict.fromkeys((launch.plan_class, launch.plan_class_unaligned))))
        for launch in plan.launches
    ]


def _buffers(launch: Launch) -> tuple[int, ...]:
    return tuple(arg.buffer for arg in launch.args if arg.kind == "ptr")


def _declared(task: Task, case: Case, plan: Plan) -> list[bool]:
    """For each buffer of a plan, whether it is an input of floats."""
    dtypes = {
        arg.name: case.dtype if arg.dtype == "T" else arg.dtype for arg in task.call(case.call).args
    }
    return ["float" in dtypes.get(buffer.arg, "") for buffer in plan.buffers]


def _walk(
    memory: Memory,
    subject: Subject,
    classes: Sequence[tuple[Launch, tuple[str, ...]]],
    floats: list[bool],
    found: Account,
    used: dict[str, set[Key]],
) -> None:
    """Goes over a plan's launches until no buffer is found to hold floats any more."""
    while True:
        before, loaded = list(floats), set[int]()
        told: list[tuple[str, Key, tuple[int, ...]]] = []
        for launch, ids in classes:
            buffers = _buffers(launch)
            for class_id in ids:
                key: Key = (memory.text(subject.classes[class_id]), _params(buffers, floats))
                said = memory.read(key)
                told.append((class_id, key, buffers))
                loaded |= {buffers[at] for at in said.loads}
                for at in said.stores:
                    floats[buffers[at]] = True
        if floats == before:
            break
    for class_id, key, buffers in told:
        used.setdefault(class_id, set()).add(key)
        _note(memory, subject.classes[class_id], key, found, {
            at for at, buffer in enumerate(buffers) if buffer in loaded
        })  # fmt: skip


def _params(buffers: tuple[int, ...], floats: Sequence[bool]) -> tuple[Param, ...]:
    return tuple(Param(buffer=buffers.index(b), floats=floats[b]) for b in buffers)


def _alone(
    memory: Memory, plan_class: PlanClass, found: Account, used: dict[str, set[Key]]
) -> None:
    key: Key = (memory.text(plan_class), None)
    used.setdefault(plan_class.id, set()).add(key)
    _note(memory, plan_class, key, found, memory.read(key).loads)


def _note(
    memory: Memory, plan_class: PlanClass, key: Key, found: Account, loaded: Iterable[int]
) -> None:
    said = memory.read(key)
    if said.fault:
        found.faults.append((plan_class.kernel, said.fault))
    for decision in said.decided:
        if not decision.if_read or decision.if_read & set(loaded):
            one = Broken(plan_class=plan_class, params=key[1], decision=decision)
            found.broken.setdefault(decision.kind, one)


def _drop_oldest(held: dict[Key, Said] | dict[str, str]) -> None:
    while len(held) > KEPT_MAX:
        del held[next(iter(held))]  # type: ignore[arg-type]
