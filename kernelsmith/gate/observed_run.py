"""Asks a launcher for observed runs."""

import math
from collections.abc import Mapping, Sequence

from kernelsmith.errors import EvidenceError
from kernelsmith.gate import plans
from kernelsmith.gate.bench import Bench, expect, output_bytes
from kernelsmith.gate.subject import Ask, Observed, Outcome, Subject, failed
from kernelsmith.model import ObjectInfo, Run, RunJob, RunsResult


def observe(
    bench: Bench,
    subject: Subject,
    asks: Sequence[Ask],
    *,
    seconds_expected: float = 0.0,
    patience_s: float = math.inf,
) -> list[Observed] | Outcome:
    """Runs prepared cases in their observing builds, in order: what each touches.

    Builds of the seed's texts are kept, as candidates often have some of its kernels; a build
    belongs to a text with its lines. After ``patience_s``, or the time that runs have, a loop under
    way is stopped and named.

    Raises:
        EvidenceError: the launcher answered with other runs than were asked for.
        SandboxError: a case is too large to be observed.
    """
    runs = tuple(Run(key=a.key, plan=subject.plans[a.case.id], inputs=a.inputs) for a in asks)
    texts = {
        class_id: subject.classes[class_id].ttir
        for class_id in sorted(plans.classes_of(run.plan for run in runs))
    }
    names = {class_id: plans.text_id(text) for class_id, text in texts.items()}
    built = _built(bench, subject, {names[class_id]: text for class_id, text in texts.items()})
    if isinstance(built, Outcome):
        return built
    job = RunJob(
        runs=runs,
        objects={name: info for name, (info, _) in built.items()},
        object_of=names,
        device=bench.device.target,
        timeout_s=min(patience_s, bench.limits.run_timeout_s + 50.0 * seconds_expected),
        observed=True,
    )
    files = {f"{name}.obj": code for name, (_, code) in built.items()}
    reply = bench.workers.submit(subject.role, job, files)
    try:
        result = expect(reply.result, RunsResult)
        if result.failure is not None:
            return failed(result.failure)
        if [run.key for run in result.runs] != [ask.key for ask in asks]:
            raise EvidenceError(f"{len(asks)} runs to observe, {len(result.runs)} answered")
        return [
            Observed(
                case=ask.case,
                findings=run.findings,
                outputs=output_bytes(reply, run),
                seconds=run.seconds,
            )
            for ask, run in zip(asks, result.runs, strict=True)
        ]
    finally:
        reply.close()


def _built(
    bench: Bench, subject: Subject, texts: Mapping[str, str]
) -> dict[str, tuple[ObjectInfo, bytes]] | Outcome:
    todo = {name: text for name, text in texts.items() if name not in bench.observing}
    fresh = bench.build(subject, todo, observed=True) if todo else {}
    if isinstance(fresh, Outcome):
        return fresh
    built = {**bench.observing, **fresh}
    of_seed = {plans.text_id(one.ttir) for one in bench.trusted.values()}
    bench.observing = {name: one for name, one in built.items() if name in of_seed}
    return {name: built[name] for name in texts}
