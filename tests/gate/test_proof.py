"""The self-proof refuses a gate that lets something through or rejects for a wrong reason."""

import threading
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kernelsmith import catalog
from kernelsmith.errors import EvidenceError, InfrastructureError, TaskError
from kernelsmith.gate import policy, proof
from kernelsmith.gate.judge import BITS
from kernelsmith.gate.probes.cheats import cheats
from kernelsmith.gate.probes.drawn import drawn
from kernelsmith.gate.probes.mutants import mutants
from kernelsmith.model import Candidate, CheckResult, Share, Status, Task, Verdict, seed_candidate
from kernelsmith.proving import proof_line, prove_all

TASKS = ("rms_norm", "linear", "swiglu", "logprob")


@dataclass
class ScriptedGate:
    """Answers as a right gate would, but for the sources named in ``wrongly``."""

    task: Task
    wrongly: dict[str, tuple[Status, str]] = field(default_factory=dict)
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    @property
    def seed(self) -> Candidate:
        return seed_candidate(self.task)

    def judge_bits(self, candidate: Candidate, names: Any) -> Verdict:
        self.asked.append((candidate.source, tuple(names)))
        answers: dict[str, tuple[Status, str]] = {self.task.seed_source: ("ACCEPTED", "memory")}
        for cheat in cheats(self.task):
            if (cheat.walk or BITS) == tuple(names):
                answers[cheat.source] = (cheat.status, cheat.checks[0])
        answers |= {source: ("BITS_DIFFER", "parity.train") for _, source in mutants(self.task)}
        if "order" in names:
            known = mutants(self.task, order=True)
            answers |= {source: ("ORDER_DIFFERS", "order") for _, source in known}
        if not self.task.shipped:
            for _, source in drawn(self.task.seed_source, self.task.entries):
                answers.setdefault(source, ("BITS_DIFFER", "parity.train"))
        status, check = {**answers, **self.wrongly}[candidate.source]
        passed = status == "ACCEPTED"
        last = CheckResult(
            name=check, status="pass" if passed else "fail", seconds=0.0, message="says why"
        )
        return Verdict(
            candidate=candidate.id,
            task=self.task.name,
            status=status,
            checks=(last,),
            gain=None,
            unchecked=(),
            epoch="",
            device={},
        )


ORDERS = {"rms_norm": 3, "linear": 3, "logprob": 3, "swiglu": 0}
"""Mutants that sum in another order."""


@pytest.mark.parametrize("name", TASKS)
def test_ten_cheats_ten_mutants_those_of_order_and_the_seed(name: str) -> None:
    gate = ScriptedGate(catalog.load_task(name, "cpu"))
    found = proof.prove(gate)
    assert found["cheats"] == {"tried": 10, "rejected": 10}
    assert found["mutants"]["tried"] == found["mutants"]["rejected"] == 10 + ORDERS[name]
    assert found["seed"] == "pass"
    assert found["unchecked"] == []
    assert len(set(gate.asked)) == 21 + ORDERS[name]


@pytest.mark.parametrize("name", TASKS)
def test_every_check_about_bits_has_something_that_only_it_can_stop(name: str) -> None:
    task = catalog.load_task(name, "cpu")
    found = proof.prove(ScriptedGate(task))["checks"]
    own = {"policy", "trace", "witness", "cross_path", "determinism", "memory"}
    own |= {"order"} if task.reductions else set()
    assert own <= set(found)
    for cheat in cheats(task):
        if cheat.walk:
            assert cheat.checks == (cheat.walk[-1],)
            assert not {"cross_path", "determinism", "memory"} & set(cheat.walk[:-1])


def test_the_shares_of_a_runs_tasks_cover_all_cheats_and_each_task_has_mutants() -> None:
    gates = [ScriptedGate(catalog.load_task(name, "cpu")) for name in TASKS]
    found = [
        proof.prove(gate, Share(draw=7, number=number, of=len(gates), mutants=4))
        for number, gate in enumerate(gates)
    ]
    names = {each["name"] for one in found for each in one["rejections"]}
    assert {cheat.name for cheat in cheats(gates[0].task)} <= names
    # Four on every task, which cost no run; each of the six others on one.
    before = [cheat for cheat in cheats(gates[0].task) if cheat.status in proof.NEVER_RAN]
    assert [cheat.checks[0] for cheat in before] == ["policy", "policy", "trace", "witness"]
    assert sum(one["cheats"]["tried"] for one in found) == 4 * 4 + 6
    assert [one["mutants"]["tried"] for one in found] == [5, 5, 4, 5]
    assert all(gate.task.seed_source in dict(gate.asked) for gate in gates)
    alone = proof.prove(gates[0], Share(draw=7, number=0, of=1))
    assert alone["cheats"]["tried"] == 10
    again = proof.prove(gates[0], Share(draw=8, number=0, of=1))
    assert [e["name"] for e in again["rejections"]] != [e["name"] for e in alone["rejections"]]


@pytest.mark.parametrize("name", TASKS)
def test_probes_are_within_the_language_but_for_the_two_of_policy(name: str) -> None:
    task = catalog.load_task(name, "cpu")
    refused = {cheat.name: policy.check(cheat.source, task.entries) for cheat in cheats(task)}
    assert [bool(found) for found in refused.values()] == [True, True, *[False] * 8]
    shell, meta = list(refused.values())[:2]
    assert "os.system" in shell[0].construct
    assert "is_meta" in meta[0].construct
    assert not [n for n, source in mutants(task) if policy.check(source, task.entries)]


def test_what_gets_through_or_fails_otherwise_stops_the_run() -> None:
    task = catalog.load_task("rms_norm", "cpu")
    name, source = mutants(task)[3]
    with pytest.raises(EvidenceError, match=f"let '{name}' through") as raised:
        proof.prove(ScriptedGate(task, {source: ("ACCEPTED", "memory")}))
    assert raised.value.exit_code == 5
    with pytest.raises(EvidenceError, match="with CRASH in parity"):
        proof.prove(ScriptedGate(task, {source: ("CRASH", "parity.train")}))
    late = next(each for each in cheats(task) if each.name == "inference differs from training")
    with pytest.raises(EvidenceError, match="in memory, not with BITS_DIFFER in parity"):
        proof.prove(ScriptedGate(task, {late.source: ("BITS_DIFFER", "memory")}))
    with pytest.raises(EvidenceError, match="rejects the seed itself"):
        proof.prove(ScriptedGate(task, {task.seed_source: ("MEMORY", "memory")}))


def test_a_seed_that_lost_a_mutants_text_is_told() -> None:
    task = catalog.load_task("linear", "cpu")
    other = replace(task, seed_source=task.seed_source.replace("tree_sum(a)", "tree_sum( a )"))
    with pytest.raises(EvidenceError, match="has no text 'acc \\+= tree_sum"):
        mutants(other)


def test_a_users_own_task_is_proved_by_cheats_and_by_mutants_drawn_from_its_seed() -> None:
    task = replace(catalog.load_task("linear", "cpu"), shipped=False, name="mine")
    found = proof.prove(ScriptedGate(task))
    assert found["mutants"] == {"tried": 6, "rejected": 6}
    assert (found["unchecked"], found["survived"]) == ([], [])
    names = dict(drawn(task.seed_source, task.entries))
    first, second = list(names)[:2]
    wrongly: dict[str, tuple[Status, str]] = {
        names[first]: ("ACCEPTED", "memory"),
        names[second]: ("COMPILE", "compile"),  # says nothing: the next one is tried instead
    }
    found = proof.prove(ScriptedGate(task, wrongly))
    assert found["mutants"] == {"tried": 6, "rejected": 5}
    assert proof_line({"mine": found}) == (
        f"10 of 10 cheats rejected, 5 of 6 mutants rejected, not told from mine: {first} (it "
        "changes nothing, or no case sees it), the seed passes every bit check"
    )
    none: dict[str, tuple[Status, str]] = dict.fromkeys(names.values(), ("ACCEPTED", "memory"))
    assert proof.prove(ScriptedGate(task, none))["unchecked"] == ["mutants"]


@pytest.mark.parametrize("name", TASKS)
def test_drawn_mutants_are_of_many_kinds_and_within_the_language(name: str) -> None:
    task = catalog.load_task(name, "cpu")
    found = dict(drawn(task.seed_source, task.entries))
    assert len(found) >= 6
    assert len({*found.values(), task.seed_source}) == len(found) + 1
    assert all(each.startswith("line ") for each in found)
    assert any(" - 1" in each for each in list(found)[:6])
    sums = "tree_sum(" in task.seed_source
    assert any("tl.sum(" in each for each in list(found)[:6]) is sums


def test_a_task_that_cheats_cannot_hang_on_is_the_users_to_mend() -> None:
    task = catalog.load_task("linear", "cpu")
    train = tuple(call for call in task.calls if call.path != "infer")
    with pytest.raises(TaskError, match="no inference call that returns a tensor"):
        proof.prove(ScriptedGate(replace(task, calls=train, shipped=False)))


@dataclass
class Closing:
    """A judge that waits until it is closed, as one whose worker runs."""

    closed: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        self.closed.set()


def test_a_gate_that_fails_ends_the_proofs_beside_it() -> None:
    judges: dict[str, Any] = {name: Closing() for name in ("waits", "fails", "never starts")}
    asked = []

    def prove(judge: Any, share: Share | None) -> dict[str, Any]:
        name = next(each for each, known in judges.items() if known is judge)
        asked.append((name, share))
        if name == "fails":
            raise EvidenceError("a cheat got through")
        judge.closed.wait()
        raise InfrastructureError("this gate is closed")

    with pytest.raises((EvidenceError, InfrastructureError)):
        prove_all(prove, {name: judges[name] for name in ("fails", "waits", "never starts")})
    assert all(judge.closed.is_set() for judge in judges.values())
    assert asked[0] == ("fails", Share(draw=asked[0][1].draw, number=0, of=3, mutants=3))


def test_who_asks_for_the_whole_proof_gets_every_mutant_and_each_cheat_on_two_tasks() -> None:
    judges: dict[str, Any] = {str(number): Closing() for number in range(4)}
    shares = prove_all(lambda judge, share: {"share": share}, judges, whole=True)
    assert [one["share"].number for one in shares.values()] == [0, 1, 0, 1]
    assert {(one["share"].of, one["share"].mutants) for one in shares.values()} == {(2, None)}
    (alone,) = prove_all(
        lambda judge, share: {"share": share}, {"0": Closing()}, whole=True
    ).values()
    assert (alone["share"].number, alone["share"].of) == (0, 1)
