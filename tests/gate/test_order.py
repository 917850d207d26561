"""Cases go from cheap to dear by what they move and compute: which of several wrong ones a verdict
names is the same in every run, whatever the clock said."""

from dataclasses import dataclass, replace
from typing import Any

from kernelsmith import cases as forms
from kernelsmith import catalog
from kernelsmith.gate.judge import Gate
from kernelsmith.gate.subject import Limits
from kernelsmith.model import Candidate, RunsResult, Verdict, candidate_id
from tests.gate.conftest import make_task
from tests.gate.fake_workers import FakeDevice, FakeReply, FakeSandbox, source_of


@dataclass
class Clock:
    """A worker whose runs take as long as they are told, the dearest the least."""

    worker: Any
    factor: float

    def submit(self, job: Any, files: Any = None) -> FakeReply:
        reply: FakeReply = self.worker.submit(job, files)
        if isinstance(reply.result, RunsResult):
            runs = tuple(
                replace(run, seconds=run.seconds**self.factor) for run in reply.result.runs
            )
            reply.result = replace(reply.result, runs=runs)
        return reply

    def close(self) -> None:
        self.worker.close()


class Timed(FakeSandbox):
    """Its workers keep another time than the fake ones."""

    factor = -1.0

    def start(self, role: str) -> Any:
        return Clock(super().start(role), self.factor)


def judged(sandbox: FakeSandbox, **faults: Any) -> Verdict:
    text = source_of(**faults)
    gate = Gate(make_task(), FakeDevice(), sandbox, secret_seed=7, limits=Limits())
    candidate = Candidate(
        id=candidate_id(text), task="toy", source=text, parents=(gate.seed.id,), author="search"
    )
    return gate.judge_bits(candidate)


def test_the_case_that_a_verdict_names_does_not_hang_on_the_clock() -> None:
    for fault in ({"adds": 1.0}, {"wrong_misaligned": True}, {"wrong_stale": True}):
        one, other = judged(FakeSandbox(), **fault), judged(Timed(), **fault)
        assert one.status == other.status != "ACCEPTED"
        assert one.checks[-1].message == other.checks[-1].message


def test_what_a_case_costs_grows_with_what_it_moves_and_computes() -> None:
    task = catalog.load_task("linear", "cpu")
    case = next(case for case in task.cases if case.dim("M") > 1)
    wider = replace(case, dims=tuple((n, 2 * v if n == "M" else v) for n, v in case.dims))
    assert 0 < forms.cost(task, case) < forms.cost(task, wider)
    call = task.call(case.call)
    bare = replace(task, calls=tuple(replace(each, flops=()) for each in task.calls))
    assert call.flops
    assert forms.cost(bare, case) < forms.cost(task, case)
