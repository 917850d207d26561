"""What a judge by tolerance makes of the same mutants: ``torch.allclose`` on the same outputs.

Two rules of comparison. ``torch.testing``: the defaults of ``torch.testing.assert_close`` for the
output's dtype. ``KernelBench``: rtol = atol = 1e-4 where the case is float32, 1e-2 where it is of
16 bits, as ``get_tolerance_for_precision`` in KernelBench's ``eval.py`` has it (its version 0.1
had 1e-2 for float32 too). NaN equals NaN, or the seed itself would fail.

Two sets of inputs. ``declared``: the task's cases, the very inputs that the gate compares.
``public``: one shape, normal inputs, five draws, every entry (forward alone would be usual), in
float32 and in 16 bits, as public judges draw them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from mutant_items import DRAWS, RULES, SETS

from kernelsmith import cases as forms
from kernelsmith.gate import plans
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.parity import growing
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Ask, Outcome, Subject
from kernelsmith.model import Case, Task

TORCH_TESTING = {
    "float32": (1.3e-6, 1e-5),
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float64": (1e-7, 1e-7),
}
KERNEL_BENCH = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}

Outputs = Sequence[bytes]


def close(rule: str, task: Task, case: Case, expected: Outputs, actual: Outputs) -> bool:
    """Whether all outputs of a case are close by this rule."""
    for spec, want, have in zip(task.call(case.call).outputs, expected, actual, strict=True):
        meta = plans.output_meta(spec, case)
        if want == have:
            continue
        dtype = getattr(torch, meta.dtype)
        a, b = (torch.frombuffer(bytearray(data), dtype=dtype) for data in (want, have))
        if not dtype.is_floating_point:
            if not torch.equal(a, b):
                return False
            continue
        rtol, atol = TORCH_TESTING[meta.dtype]
        if rule == "KernelBench":
            rtol = atol = KERNEL_BENCH[case.dtype]
        if not torch.allclose(b, a, rtol=rtol, atol=atol, equal_nan=True):
            return False
    return True


def public_cases(task: Task) -> list[Case]:
    """One shape, that of the costliest timed case; each entry's first call form; each dtype."""
    timed = max((c for c in task.cases if c.weight > 0), key=lambda c: forms.cost(task, c))
    dtypes = sorted({case.dtype for case in task.cases})
    calls = {}
    for call in task.calls:
        calls.setdefault(call.entry, call.name)
    return [
        forms.call_for(task, call, dtype, dict(timed.dims))
        for call in calls.values()
        for dtype in dtypes
    ]


@dataclass(slots=True, kw_only=True)
class Tolerance:
    """Compares outputs of a subject with the seed's. Keeps the seed's outputs on public inputs."""

    bench: Bench
    reference: Reference
    public: dict[str, tuple[bytes, ...]] = field(default_factory=dict)

    def judge(self, subject: Subject) -> dict[str, dict[str, bool]]:
        """``{set: {rule: seen}}``. What does not build, crashes or hangs in a case is seen."""
        return {"declared": self._declared(subject), "public": self._public(subject)}

    def nothing(self) -> dict[str, dict[str, bool]]:
        """The answer for what runs its parent's code."""
        return {name: dict.fromkeys(RULES, False) for name in SETS}

    def _declared(self, subject: Subject) -> dict[str, bool]:
        task = self.bench.task
        seen = dict.fromkeys(RULES, False)
        cases = sorted(task.cases, key=lambda case: (forms.cost(task, case), case.id))
        self.reference.compute(cases)
        for part in growing(cases):
            asks = [
                Ask(key=case.id, case=case, inputs=self.reference.inputs(case)) for case in part
            ]
            expected = {case.id: self.reference.outputs(case) for case in part}
            self._compare(seen, subject, asks, expected)
            if all(seen.values()):
                break
        return seen

    def _public(self, subject: Subject) -> dict[str, bool]:
        seen = dict.fromkeys(RULES, False)
        for case in public_cases(self.bench.task):
            keys = [f"{case.id} {number}" for number in range(DRAWS)]
            asks = [Ask(key=k, case=case, inputs=self.reference.inputs(case, k)) for k in keys]
            if keys[0] not in self.public:
                done = self.reference.fresh(asks)
                self.public.update({one.key: one.outputs for one in done})
            self._compare(seen, subject, asks, self.public)
            if all(seen.values()):
                break
        return seen

    def _compare(
        self,
        seen: dict[str, bool],
        subject: Subject,
        asks: Sequence[Ask],
        expected: Mapping[str, Outputs],
    ) -> None:
        """Marks the rules that see a difference in these runs."""
        found = self.bench.prepare(subject, [ask.case for ask in asks])
        done = found if found.status is not None else self.bench.execute(subject, asks)
        if isinstance(done, Outcome):
            seen.update(dict.fromkeys(RULES, True))
            return
        for ask, one in zip(asks, done, strict=True):
            for rule in RULES:
                want = expected[ask.key]
                seen[rule] = seen[rule] or not close(
                    rule, self.bench.task, ask.case, want, one.outputs
                )
