"""A seeded sample of the mutants through the real gate, on the smaller cases of each task.
``make proof-mutants`` judges all of them on all cases."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelsmith import catalog, devices
from kernelsmith.gate.judge import Gate
from kernelsmith.model import Task, new_candidate
from kernelsmith.sandbox.process import open_process

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import mutant_items  # noqa: E402
import mutants  # noqa: E402

from tests.smaller import smaller  # noqa: E402

TASKS = mutant_items.TASKS
SAMPLE = 3
MOST_ELEMENTS = 26_200


@pytest.fixture(scope="module", params=TASKS)
def gate(request: pytest.FixtureRequest) -> Iterator[Gate]:
    sandbox = open_process()
    made = Gate(
        smaller(catalog.load_task(request.param, "cpu"), MOST_ELEMENTS),
        devices.get("cpu"),
        sandbox,
        secret_seed=20_261_129,
    )
    yield made
    made.close()
    sandbox.close()


def stratified(task: Task) -> list[mutant_items.Item]:
    """Mutants that parity must see, of as many kinds as the sample has room for."""
    own = [m for m in mutant_items.hand(task) if (m.check or "").startswith("parity")]
    own = [m for m in own if m.operator != "dispatch"]
    random.Random(11).shuffle(own)
    kinds = {mutant.operator: mutant for mutant in reversed(own)}
    return [m for m in own if kinds[m.operator] is m][:SAMPLE]


def test_the_sampled_mutants_are_rejected_at_a_named_element(gate: Gate) -> None:
    task = catalog.load_task(gate.task.name, "cpu")
    for item in stratified(task):
        candidate = new_candidate(item.source, task.name, author="mutant", parents=(gate.seed.id,))
        verdict = gate.judge_bits(candidate)
        last = verdict.checks[-1]
        assert verdict.status == item.status, (item.name, last.message)
        assert item.check in (last.name, last.name.partition(".")[0]), (item.name, last.message)
        assert "first at [" in last.message, item.name


@pytest.mark.parametrize("name", TASKS)
def test_every_mutant_by_hand_has_its_spot_and_a_check_or_a_reason(name: str) -> None:
    task = catalog.load_task(name, "cpu")
    mutants = mutant_items.hand(task)
    texts = {item.source for item in mutants}
    assert len(texts) == len(mutants)
    assert task.seed_source not in texts
    for text in texts:
        compile(text, name, "exec")
    for item in mutants:
        assert (item.status == "ACCEPTED") == (item.check is None) == bool(item.reason)


@pytest.mark.parametrize("name", ["swiglu", "logprob"])
def test_the_proof_draws_five_of_each_kind_from_the_seed_and_from_the_winner(name: str) -> None:
    task = catalog.load_task(name, "cpu")
    drawn = [item for item in mutant_items.items(task) if item.origin == "drawn"]
    kinds = 8 if name == "swiglu" else 9  # nothing is summed in swiglu
    by_hand = {item.id for item in mutant_items.hand(task)}
    found = {(item.parent, item.kind): 0 for item in drawn}
    assert len(found) == 2 * kinds
    assert len({item.id for item in drawn} - by_hand) == len(drawn) > 2 * 5 * kinds - 6


def test_a_record_that_was_cut_or_is_of_another_epoch_is_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants, "KEPT", tmp_path)
    assert mutants.kept("linear", "now") == {}
    lines = ['{"id": "a", "key": "now"}', "", '{"id": "b", "key": "before"}', '{"id": "c", "k']
    (tmp_path / "linear.jsonl").write_text("\n".join(lines))
    assert list(mutants.kept("linear", "now")) == ["a"]
