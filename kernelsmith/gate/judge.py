"""The gate: judges one candidate. The order of its checks is the list in :meth:`Gate._checks`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kernelsmith.errors import EvidenceError, InputError
from kernelsmith.gate import (
    confirm,
    cross_path,
    declared_range,
    determinism,
    first_look,
    health,
    keeping,
    latency,
    look,
    memory,
    observed,
    parity,
    policy_check,
    recheck,
)
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.epoch import epoch
from kernelsmith.gate.order import check as order
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.sessions import slowed
from kernelsmith.gate.subject import (
    Limits,
    Outcome,
    Subject,
    check_result,
    limits_on,
    undeclared,
)
from kernelsmith.gate.witness import check as witness
from kernelsmith.model import (
    Candidate,
    CheckResult,
    Gain,
    Look,
    LookKind,
    Status,
    Task,
    Verdict,
    seed_candidate,
)
from kernelsmith.numerics import statistics
from kernelsmith.pauses import Pauses
from kernelsmith.ports import Device, Sandbox

Check = Callable[[], Outcome]
BITS = (
    "policy",
    "trace",
    "compile",
    "witness",
    "parity.train",
    "parity.infer",
    "cross_path",
    "determinism",
    "memory",
)
"""The checks that decide about bits, which the seed itself must pass."""
BEGUN_BY_CONFIRMS = 1_000_000
"""A judgement's number is unique in its run, over all processes of it: a gate counts its own from
1, and whatever one cut off has raised the count of confirms. Else a candidate whose judgement was
cut off would meet the same hidden shapes and placements again."""
BITS_OF_CASES = frozenset(("compile", "parity.train", "parity.infer"))
RUN_CHECKS = BITS[BITS.index("parity.train") :]
"""Those that run kernels: what they find may have a cause that an observed run names."""


@dataclass(slots=True, kw_only=True)
class Judging:
    """One judgement under way. Not frozen: confirm leaves its gain here."""

    subject: Subject
    incumbent: Candidate
    k: int
    label: str
    gain: Gain | None = None


class Gate:
    """Judges candidates of one task on one device, in one run.

    Args:
        task: what is to be made faster.
        device: compiles and names objects; only its hashes are used on the host.
        sandbox: starts the three workers when they are first needed.
        secret_seed: drawn with ``secrets`` by the caller, once a run, below 2**256. Inputs, hidden
            shapes and placements follow from it; proposers never see it.
        limits: time-outs and, for tests, fewer sessions.
        pauses: the run's; None: nobody pauses this gate.

    Deterministic in (task, device, secret_seed) but for what is measured.
    """

    def __init__(
        self,
        task: Task,
        device: Device,
        sandbox: Sandbox,
        secret_seed: int,
        limits: Limits | None = None,
        pauses: Pauses | None = None,
    ) -> None:
        if task.device != device.name:
            raise InputError(f"task {task.name} is for {task.device}, not for {device.name}")
        self.task = task
        self.device_facts = device.describe()
        self.epoch = epoch(task, self.device_facts)
        self.limits = limits or limits_on(device.name)
        self.bench = Bench(task, device, sandbox, self.limits, self.machine_fault, pauses)
        self._clock_s = self.bench.workers.pauses.clock
        self.seed = seed_candidate(task)
        self._known: dict[str, Subject] = {}
        self._reference: Reference | None = None
        self._secret = secret_seed
        self._judged = 0
        self._looks = 0
        self._looked_at: look.Known = {}

    @property
    def reference(self) -> Reference:
        """The seed, made ready at first use: traced, compiled, run, and held to its own claims.

        Raises:
            TaskError: the seed fails them.
        """
        if self._reference is None:
            subject = Subject(candidate=self.seed, role="seed")
            reference = Reference(self.bench, subject, self._secret)
            reference.prepare(self.task.cases)
            reference.compute(self.task.cases)
            cross_path.require_seed(self.bench, reference)
            self._reference = reference
        return self._reference

    def judge(
        self,
        candidate: Candidate,
        incumbent: Candidate,
        confirms: int,
        number: int | None = None,
    ) -> Verdict:
        """Judges one candidate against the incumbent.

        Args:
            candidate: of this task.
            incumbent: accepted in this run, or the seed.
            confirms: candidates that reached confirm in this run before.
            number: of this judgement, to repeat one; hidden shapes, placements and inputs of
                sessions follow from it.

        Raises:
            EvidenceError: the gate's own evidence cannot be trusted.
            TaskError: the seed does not keep what its task claims.
            InfrastructureError: the machine failed.
        """
        if candidate.task != self.task.name:
            raise InputError(f"candidate {candidate.id} is of task {candidate.task}")
        if number is None:
            self._judged += 1
            number = confirms * BEGUN_BY_CONFIRMS + self._judged
        judging = Judging(
            subject=Subject(candidate=candidate, role="launcher"),
            incumbent=incumbent,
            k=confirms + 1,
            label=f"{candidate.id} {number}",
        )
        verdict = self._walk(judging, [name for name, _ in self._checks(judging)])
        if verdict.accepted:
            self._known[candidate.id] = judging.subject
        self._keep()
        return verdict

    def judge_bits(self, candidate: Candidate, names: Sequence[str] = BITS) -> Verdict:
        """Only these checks about bits, in the gate's order. ACCEPTED here means "kept its bits".

        For the self-proof and for verifying; nothing is timed, no gain is given.
        """
        judging = Judging(
            subject=Subject(candidate=candidate, role="launcher"),
            incumbent=self.seed,
            k=1,
            label=f"{candidate.id} bits",
        )
        verdict = self._walk(judging, names)
        self._keep()
        return verdict

    def look(self, candidate: Candidate, incumbent: Candidate, kind: LookKind) -> Look:
        """See :meth:`kernelsmith.ports.Judge.look`; no verdict hangs on it."""
        if candidate.task != self.task.name:
            raise InputError(f"candidate {candidate.id} is of task {candidate.task}")
        self._looks += 1
        judging = Judging(
            subject=Subject(candidate=candidate, role="launcher"),
            incumbent=incumbent,
            k=1,
            label=f"{candidate.id} look {self._looks}",
        )
        asked = look.Asked(
            subject=judging.subject,
            against=incumbent.id,
            label=judging.label,
            walk=partial(self._walk, judging),
            reference=lambda: self.reference,
            incumbent=lambda: self._incumbent(incumbent),
        )
        found = look.look(self.bench, asked, kind, self._looked_at)
        self._keep()
        return found

    def _checks(self, judging: Judging) -> tuple[tuple[str, Check | None], ...]:
        """The order, cheapest first; None is a check that the task gives nothing to do.

        What the seed must be ready for is asked for when a check is reached: a source outside
        the language costs no run of the seed.
        """
        bench, subject = self.bench, judging.subject

        def against_seed(check: Callable[..., Outcome], *rest: Any) -> Check:
            return lambda: check(bench, self.reference, subject, *rest)

        def screen() -> Outcome:
            incumbent = self._incumbent(judging.incumbent)
            return latency.check(bench, self.reference, subject, incumbent, judging.label)

        return (
            ("policy", partial(policy_check.check, self.task, subject.candidate)),
            ("trace", partial(bench.plan, subject, self.task.cases)),
            ("compile", partial(bench.compile, subject)),
            ("witness", against_seed(witness.check)),
            ("parity.train", against_seed(parity.check, "train")),
            ("parity.infer", against_seed(parity.check, "infer")),
            ("cross_path", against_seed(cross_path.check)),
            ("determinism", against_seed(determinism.check)),
            ("memory", against_seed(memory.check)),
            ("order", against_seed(order.check) if self.task.reductions else None),
            ("latency", screen),
            ("declared_range", against_seed(declared_range.check)),
            ("confirm", partial(self._confirm, judging)),
        )

    def _walk(self, judging: Judging, names: Sequence[str]) -> Verdict:
        """Runs the named checks in order and stops at the first failure."""
        results: list[CheckResult] = []
        status: Status = "ACCEPTED"
        checks = dict(self._checks(judging))
        unchecked = [name for name in checks if checks[name] is None]
        unknown = sorted(set(names) - set(checks))
        if unknown or not names:
            raise EvidenceError(f"unknown checks {unknown}" if unknown else "no check to run")
        with self.bench.workers.allowed(self.limits.candidate_s):
            for name in [known for known in checks if known in names]:
                check = checks[name]
                if check is None:
                    results.append(undeclared(self.task, name))
                    continue
                begun = self._clock_s()
                looks_first = name == "trace" and set(names) >= BITS_OF_CASES
                name, found = self._check(judging.subject, name, check, looks_first)
                results.append(check_result(name, found, self._clock_s() - begun))
                unchecked += found.unchecked
                if found.status is not None:
                    status = found.status
                    break
        return Verdict(
            candidate=judging.subject.candidate.id,
            task=self.task.name,
            status=status,
            checks=tuple(results),
            gain=judging.gain,
            unchecked=tuple(unchecked),
            epoch=self.epoch,
            device=self.device_facts,
            samples=tuple(judging.subject.timing),
        )

    def _check(
        self, subject: Subject, name: str, check: Check, looks_first: bool
    ) -> tuple[str, Outcome]:
        """One check, and under which name its outcome belongs."""
        deaths, timed = self.bench.workers.deaths, len(subject.timing)
        deaths.clear()
        found = Outcome()
        if looks_first:
            name, found = first_look.check(self.bench, self.reference, subject)
        if found.status is None:
            found = check()
        if found.status is not None and name in RUN_CHECKS:
            name, found = observed.explain(self.bench, self.reference, subject, name, found)
        if found.status is None and subject.witnessed is not None:
            met = witness.again(self.bench, self.reference, subject)
            found = found if met.status is None else met
        more = slowed(subject.timing[timed:])
        if deaths:
            more["workers_died"] = list(deaths)
        return name, replace(found, evidence={**found.evidence, **more}) if more else found

    def _confirm(self, judging: Judging) -> Outcome:
        found, gain = confirm.check(
            self.bench,
            self.reference,
            judging.subject,
            self._incumbent(judging.incumbent),
            k=judging.k,
            label=judging.label,
        )
        judging.gain = gain
        return found

    def retime(
        self, candidate: Candidate, sessions: int, timings: int
    ) -> tuple[bool, Gain, dict[str, Any]]:
        """Times a winner against the seed at the end of a run, by the same rule per case.

        All sessions are run, whatever they show; the gain is over all of them.

        Args:
            timings: how many such timings of this task were begun in this run before: where one
                fails the next ancestor is timed, and all of them together may err in 5 % of runs.

        Returns:
            Whether the rule is won, the gain against the seed, and JSON-able evidence with the
            raw sessions under "samples".

        Raises:
            EvidenceError: the candidate cannot be told from the seed, or failed while timed.
        """
        subject = self._incumbent(candidate)
        subject = replace(subject, timing=[])
        seed = self._incumbent(self.seed)
        alpha = statistics.alpha_k(timings + 1)
        outcome, rule = confirm.run_rule(
            self.bench,
            self.reference,
            subject,
            seed,
            alpha=alpha,
            label=f"{candidate.id} against the seed {timings + 1}",
            sessions_min=sessions,
            sessions_max=sessions,
        )
        if rule is None:
            raise EvidenceError(f"candidate {candidate.id} cannot be re-timed: {outcome.message}")
        gain = confirm.report(self.bench, subject, seed, rule)
        evidence = {
            **outcome.evidence,
            **slowed(subject.timing),
            "k": timings + 1,
            "alpha": alpha,
            "message": outcome.message,
            "samples": subject.timing,
        }
        return outcome.status is None, gain, evidence

    def recheck(self, nonce: str) -> dict[str, Any]:
        """See :meth:`kernelsmith.ports.Rechecked.recheck`."""
        return recheck.recheck(self.bench, self._reference, nonce)

    def machine_fault(self) -> str:
        """See :meth:`kernelsmith.ports.Judge.machine_fault`."""
        return health.fault_of_machine(self.bench)

    def close(self) -> None:
        """Ends the workers."""
        self.bench.close()

    def _keep(self) -> None:
        if self._reference is not None:
            looked_at = [subject for subject, _ in self._looked_at.values()]
            keeping.keep(self.bench, self._reference, self._known, looked_at)

    def _incumbent(self, candidate: Candidate) -> Subject:
        """A subject with plans and objects, accepted in this run or traced again.

        Raises:
            EvidenceError: an accepted candidate no longer traces or compiles.
        """
        if candidate.id not in self._known:
            reference = self.reference
            subject = Subject(candidate=candidate, role="launcher")
            if candidate.id == self.seed.id:
                subject = replace(reference.seed, role="launcher")
            with self.bench.workers.allowed(None):
                found = self.bench.prepare(subject, self.task.cases)
            if found.status is not None:
                raise EvidenceError(
                    f"incumbent {candidate.id} fails: {found.status}: {found.message}",
                    hint="it was accepted before; did the compiler or the device change?",
                )
            self._known[candidate.id] = subject
        return self._known[candidate.id]
