"""What the gate says of the played candidates, about their bits."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kernelsmith import catalog, devices
from kernelsmith.gate import policy
from kernelsmith.gate.judge import Gate
from kernelsmith.model import candidate_id, new_candidate
from kernelsmith.ports import Sandbox
from kernelsmith.proposers.search import normalised_hash
from kernelsmith.rehearsal import variants
from kernelsmith.sandbox.choose import choose

CHECKS = ("policy", "trace", "compile", "parity.train", "parity.infer")
NAMED = [(task, name) for task, found in variants.VARIANTS.items() for name in found]
# One small case a task that tells each broken variant, and one on each side of the host's branches.
CASES = {
    "rms_norm": (
        "train.fp32.M5-N128.normal.eps0.001",
        "residual_train.bf16.M10-N1024.logspace",
        "infer.bf16.M5-N2048.ties",
    ),
    "linear": (
        "bias_train.fp32.M10-N64-K128.logspace",
        "bias_train.bf16.M10-N64-K128.logspace",
        "infer.bf16.M3-N96-K128.cancel",
    ),
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = choose("auto", trusted_origin=True)
    yield made
    made.close()


@pytest.fixture(params=list(variants.VARIANTS))
def gate(request: pytest.FixtureRequest, sandbox: Sandbox) -> Iterator[Gate]:
    task = catalog.load_task(request.param, "cpu")
    cases = tuple(case for case in task.cases if case.id in CASES[task.name])
    assert len(cases) == 3
    small = replace(task, cases=cases, token_range=(0, 12), ranges=())
    made = Gate(small, devices.get("cpu"), sandbox, secret_seed=20_261_129)
    yield made
    made.close()


def test_broken_variants_break_bits_and_the_winner_keeps_them(gate: Gate) -> None:
    task = gate.task.name
    sources = {"winner": variants.winner(task)}
    for name, variant in variants.VARIANTS[task].items():
        if variant.status not in ("POLICY", "DUPLICATE"):
            sources[name] = variants.source(task, name)
    found = {}
    for name, source in sources.items():
        candidate = new_candidate(source, task, author="agent", parents=(gate.seed.id,))
        found[name] = gate.judge_bits(candidate, CHECKS).status
    assert found == {
        "winner": "ACCEPTED",
        "first": "BITS_DIFFER",
        "no_faster": "ACCEPTED",
        "plea_broken": "BITS_DIFFER",
        "plea_slow": "ACCEPTED",
    }


@pytest.mark.parametrize(("task", "name"), NAMED)
def test_only_the_forbidden_variant_leaves_the_language(task: str, name: str) -> None:
    entries = catalog.load_task(task, "cpu").entries
    found = policy.check(variants.source(task, name), entries)
    assert bool(found) == (variants.VARIANTS[task][name].status == "POLICY")


@pytest.mark.parametrize("task", list(variants.VARIANTS))
def test_a_plea_is_the_winners_program(task: str) -> None:
    hashes = {
        name: normalised_hash(variants.source(task, name)) for name in variants.VARIANTS[task]
    }
    winner = normalised_hash(variants.winner(task))
    assert [name for name, found in hashes.items() if found == winner] == ["plea"]


@pytest.mark.parametrize(("task", "name"), NAMED)
def test_mending_a_variant_gives_the_winner(task: str, name: str) -> None:
    mended = variants.edited(variants.source(task, name), variants.mending(task, name))
    assert mended == variants.winner(task)


def test_the_winners_are_the_recorded_ones() -> None:
    """Ids that committed results name; a changed seed needs its edits looked at again."""
    ids = {task: candidate_id(variants.winner(task)) for task in variants.VARIANTS}
    assert ids == {"rms_norm": "10844b097c19833d", "linear": "1015da978e99631b"}
