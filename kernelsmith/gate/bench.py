"""The gate's three workers and what it may ask of them: trace, compile, execute, time.

The bench keeps compiled objects by object id, so that equal kernels are compiled once a run. It
turns a candidate's failures into outcomes; the machine's failures pass through as exceptions.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TypeVar

from kernelsmith import cases as forms
from kernelsmith.errors import EvidenceError, InfrastructureError, TaskError
from kernelsmith.gate import code, irregular, plans
from kernelsmith.gate.subject import Ask, Execution, Limits, Outcome, Subject, failed
from kernelsmith.gate.witness.plans import Memory
from kernelsmith.gate.workers import Workers
from kernelsmith.model import (
    ASSEMBLY_MAX_BYTES,
    Case,
    CompileJob,
    CompileResult,
    JobResult,
    ObjectInfo,
    PlanClass,
    Run,
    RunJob,
    RunResult,
    RunsResult,
    Task,
    TimedCase,
    TimeJob,
    TimeResult,
    TraceJob,
    TraceResult,
)
from kernelsmith.pauses import Pauses
from kernelsmith.ports import Device, Reply, Sandbox
from kernelsmith.watch.throttle import Throttle

R = TypeVar("R", TraceResult, CompileResult, RunsResult, TimeResult)


class Bench:
    """The workers, and the objects compiled so far."""

    def __init__(
        self,
        task: Task,
        device: Device,
        sandbox: Sandbox,
        limits: Limits,
        fault: Callable[[], str] | None = None,
        pauses: Pauses | None = None,
    ) -> None:
        """``fault``, ``pauses``: see :class:`Workers`."""
        self.task = task
        self.device = device
        self.limits = limits
        self.workers = Workers(device, sandbox, fault, pauses)
        self.objects: dict[str, tuple[ObjectInfo, bytes]] = {}
        # The seed's plan classes: their texts come from the seed, whoever else uses them.
        self.trusted: dict[str, PlanClass] = {}
        # Observing builds of the seed's texts, by text.
        self.observing: dict[str, tuple[ObjectInfo, bytes]] = {}
        # What was observed and found clean, by what it launches.
        self.clean: dict[str, None] = {}
        # What texts were found to say.
        self.said = Memory()
        self.throttle = Throttle()
        self.seed_ran = False

    def __enter__(self) -> "Bench":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers."""
        self.workers.close()

    def beside(self, pauses: Pauses | None = None) -> "Bench":
        """A bench on the same workers that has compiled nothing yet and judges no death.
        ``pauses``: others than this bench waits for."""
        return Bench(
            self.task,
            self.device,
            self.workers.sandbox,
            self.limits,
            pauses=pauses or self.workers.pauses,
        )

    # ------------------------------------------------------------------------- trace and compile

    def trace(self, subject: Subject, cases: Sequence[Case], *, real: bool = False) -> TraceResult:
        """Traces the subject's entries at these cases; what it answers is not yet checked."""
        job = TraceJob(
            source=subject.candidate.source,
            entries=self.task.entries,
            calls=tuple(forms.trace_call(self.task, case) for case in cases),
            device=self.device.target,
            emit=not real,
            known=tuple({**self.trusted, **subject.classes}),
            real=real,
            timeout_s=self.limits.trace_timeout_s,
        )
        reply = self.workers.submit("frontend", job)
        try:
            return expect(reply.result, TraceResult)
        finally:
            reply.close()

    def plan(self, subject: Subject, cases: Iterable[Case], *, keep_plans: bool = True) -> Outcome:
        """Traces those cases that the subject has no plan of yet, and checks the plans.

        Newly met classes are kept, each must bring its text; the plans only if ``keep_plans``,
        else it is noted where classes were met that no kept plan has.
        """
        wanted = [case for case in cases if case.id not in subject.plans]
        if not wanted:
            return Outcome()
        result = self.trace(subject, wanted)
        if result.failure is not None:
            return failed(result.failure)
        for case in wanted:
            found = plans.check(self.task, case, result, {**self.trusted, **subject.classes})
            if found.status is not None:
                return found
        if keep_plans:
            subject.plans.update({case.id: result.plans[case.id] for case in wanted})
            subject.cases.update({case.id: case for case in wanted})
        else:
            self._note_range(subject, wanted, result)
        for class_id in plans.classes_of(result.plans[case.id] for case in wanted):
            if class_id in subject.classes:
                continue
            plan_class = self.trusted.get(class_id) or result.classes[class_id]
            if not plan_class.ttir:
                return Outcome(status="TRACE", message=f"plan class {class_id} came without text")
            subject.classes[class_id] = plan_class
        return Outcome(
            evidence={
                "calls": len(subject.plans),
                "launches": sum(len(plan.launches) for plan in subject.plans.values()),
                "plan_classes": len(subject.classes),
            }
        )

    def compile(self, subject: Subject, cases: Iterable[Case] | None = None) -> Outcome:
        """Compiles the subject's classes that have no object yet: all, or those of ``cases``."""
        wanted = set(subject.classes)
        if cases is not None:
            wanted = plans.classes_of(subject.plans[case.id] for case in cases)
        object_of = {
            class_id: self.device.object_id(subject.classes[class_id].ttir)
            for class_id in sorted(wanted - set(subject.object_of))
        }
        names = {oid: subject.classes[class_id] for class_id, oid in object_of.items()}
        todo = {oid: one.ttir for oid, one in names.items() if oid not in self.objects}
        found = self._compile(subject, todo) if todo else Outcome()
        if found.status is not None:
            kernel = names.get(found.evidence["where"])
            where = f"kernel {kernel.kernel}: " if kernel else ""
            return replace(found, message=f"{where}{found.message}")
        subject.object_of.update(object_of)
        return Outcome(
            evidence={
                "plan_classes": len(subject.classes),
                "compiled_now": len(todo),
                **code.evidence(self.code_of(subject), self._seed_code),
            }
        )

    def _seed_code(self) -> list[ObjectInfo]:
        known = (self.objects.get(self.device.object_id(c.ttir)) for c in self.trusted.values())
        return [found[0] for found in known if found]

    def code_of(self, subject: Subject) -> list[ObjectInfo]:
        """What is known of the subject's compiled code, each object once, by symbol and id."""
        used = [self.objects[oid][0] for oid in set(subject.object_of.values())]
        return sorted(used, key=lambda info: (info.symbol, info.id))

    def _compile(self, subject: Subject, ttirs: dict[str, str]) -> Outcome:
        built = self.build(subject, ttirs)
        if isinstance(built, Outcome):
            return built
        self.objects.update(built)
        return Outcome()

    def build(
        self, subject: Subject, ttirs: dict[str, str], *, observed: bool = False
    ) -> dict[str, tuple[ObjectInfo, bytes]] | Outcome:
        """Objects of these texts, by id."""
        job = CompileJob(
            ttirs=ttirs,
            device=self.device.target,
            timeout_s=self.limits.compile_timeout_s,
            observed=observed,
        )
        reply = self.workers.submit(subject.role, job)
        built: dict[str, tuple[ObjectInfo, bytes]] = {}
        try:
            result = expect(reply.result, CompileResult)
            if result.failure is not None:
                found = failed(result.failure)
                return replace(found, message=result.failure.message)
            for object_id in ttirs:
                info = result.objects.get(object_id)
                if info is None or info.id != object_id:
                    raise EvidenceError(f"the compiler returned no object {object_id}")
                built[object_id] = (info, reply.read(f"{object_id}.obj"))
        finally:
            reply.close()
        return built

    def assembly(self, subject: Subject, ttirs: Mapping[str, str]) -> dict[str, str] | Outcome:
        """What the compiler makes of texts that it compiled before, by object id.

        Raises:
            EvidenceError: what came back is too large.
        """
        job = CompileJob(
            ttirs=dict(ttirs),
            device=self.device.target,
            timeout_s=self.limits.compile_timeout_s,
            assembly=True,
        )
        reply = self.workers.submit(subject.role, job)
        try:
            result = expect(reply.result, CompileResult)
            if result.failure is not None:
                return failed(result.failure)
            return {object_id: _text(reply.read(f"{object_id}.s")) for object_id in ttirs}
        finally:
            reply.close()

    def prepare(self, subject: Subject, cases: Iterable[Case]) -> Outcome:
        """Plans and objects for these cases, as far as the subject lacks them."""
        found = self.plan(subject, cases)
        return found if found.status is not None else self.compile(subject)

    # ------------------------------------------------------------------------------ run and time

    def execute(
        self, subject: Subject, asks: Sequence[Ask], *, seconds_expected: float = 0.0
    ) -> list[Execution] | Outcome:
        """Runs prepared cases in one job, in order.

        Raises:
            EvidenceError: the launcher answered with other runs than were asked for.
        """
        runs = tuple(
            Run(
                key=ask.key,
                plan=subject.plans[ask.case.id],
                inputs=ask.inputs,
                order=ask.order,
                misalign_bytes=ask.misalign_bytes,
                poison=ask.poison,
                stale=ask.stale,
            )
            for ask in asks
        )
        class_ids = plans.classes_of(run.plan for run in runs)
        object_of = {class_id: subject.object_of[class_id] for class_id in class_ids}
        job = RunJob(
            runs=runs,
            objects={oid: self.objects[oid][0] for oid in set(object_of.values())},
            object_of=object_of,
            device=self.device.target,
            timeout_s=self.limits.run_timeout_s + 50.0 * seconds_expected,
        )
        files = self._object_files(object_of.values())
        for ask in asks:
            files.update(dict(ask.files))
        reply = self.workers.submit(subject.role, job, files)
        try:
            result = expect(reply.result, RunsResult)
            if result.failure is not None:
                return failed(result.failure)
            if [run.key for run in result.runs] != [ask.key for ask in asks]:
                raise EvidenceError(
                    f"asked the launcher for {len(asks)} runs, it answered {len(result.runs)}"
                )
            return [
                Execution(
                    key=run.key,
                    outputs=output_bytes(reply, run),
                    canaries=run.canaries,
                    changed_inputs=run.changed_inputs,
                    seconds=run.seconds,
                )
                for run in result.runs
            ]
        finally:
            reply.close()

    @property
    def observes(self) -> bool:
        """Whether this device has an observing mode."""
        return self.task.device == "cpu"

    def execute_seed(self, subject: Subject, asks: Sequence[Ask]) -> list[Execution]:
        """As :meth:`execute` for the seed, whose failure is the task's fault.

        Raises:
            TaskError: the seed crashed, ran out of time, or wrote where it must not.
            InfrastructureError: it ran out of time although it has run before: the machine is slow.
        """
        done = self.execute(subject, asks)
        if isinstance(done, Outcome):
            told = f"the seed of task {self.task.name} fails: {done.message}"
            if done.status == "TIMEOUT" and self.seed_ran:
                raise InfrastructureError(told, hint="is something else using this machine?")
            raise TaskError(told)
        self.seed_ran = True
        for execution in done:
            if execution.canaries or execution.changed_inputs:
                touched = ", ".join((*execution.canaries, *execution.changed_inputs))
                raise TaskError(
                    f"the seed of task {self.task.name} writes outside its outputs in "
                    f"{execution.key}: {touched}"
                )
        return done

    def time(
        self,
        a: Subject,
        b: Subject,
        timed: Sequence[TimedCase],
        *,
        placement: int,
        verify: int,
    ) -> Reply:
        """One timing session of side a (to beat) against side b; the caller closes the reply."""
        object_of: dict[str, str] = {}
        for side, subject, side_plans in (
            ("a", a, [case.a for case in timed]),
            ("b", b, [case.b for case in timed]),
        ):
            for class_id in plans.classes_of(side_plans):
                object_of[f"{side}:{class_id}"] = subject.object_of[class_id]
        job = TimeJob(
            cases=tuple(timed),
            objects={oid: self.objects[oid][0] for oid in set(object_of.values())},
            object_of=object_of,
            device=self.device.target,
            placement=placement,
            verify=verify,
            timeout_s=self.limits.session_timeout_s,
        )
        reply = self.workers.submit("launcher", job, self._object_files(object_of.values()))
        expect(reply.result, TimeResult)
        return reply

    def _note_range(self, subject: Subject, cases: Sequence[Case], result: TraceResult) -> None:
        """Keeps what the declared range shows beyond the kept plans, not the plans."""
        kept = {launch.plan_class for plan in subject.plans.values() for launch in plan.launches}
        for case in cases:
            plan = result.plans[case.id]
            for class_id in {launch.plan_class for launch in plan.launches} - kept:
                subject.beyond.setdefault(class_id, []).append(case)
            others = tuple(pair for pair in case.dims if pair[0] != self.task.token_dim)
            steps = subject.steps.setdefault((case.call, case.dtype, others), [])
            steps.append((case, irregular.numbers(plan)))

    def _object_files(self, object_ids: Iterable[str]) -> dict[str, bytes]:
        return {f"{oid}.obj": self.objects[oid][1] for oid in set(object_ids)}


def output_bytes(reply: Reply, run: RunResult) -> tuple[bytes, ...]:
    """A run's outputs, in the entry's order."""
    return tuple(reply.read("out.bin", out.offset_bytes, out.nbytes) for out in run.outputs)


def _text(data: bytes) -> str:
    if len(data) > ASSEMBLY_MAX_BYTES:
        raise EvidenceError(f"assembly of {len(data)} bytes, at most {ASSEMBLY_MAX_BYTES}")
    return re.sub(r"[^\t\n\x20-\x7e]", "?", data.decode("utf-8", "replace"))


def expect(result: JobResult, kind: type[R]) -> R:
    """The result, of the kind that was asked for.

    Raises:
        EvidenceError: it is of another.
    """
    if not isinstance(result, kind):
        raise EvidenceError(f"a worker answered {type(result).__name__}, not {kind.__name__}")
    return result
