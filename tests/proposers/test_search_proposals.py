"""The search proposes what is new, learns from verdicts, and resumes where it was."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kernelsmith.catalog import load_task
from kernelsmith.gate.policy import check
from kernelsmith.model import Candidate, Task, candidate_id
from kernelsmith.proposers.search import Search, normalised_hash
from kernelsmith.proposers.search.record import read_history


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    candidate: Candidate
    status: str
    gain_vs_seed: float | None = None
    message: str = ""


@pytest.fixture(params=["rms_norm", "linear", "swiglu", "logprob"])
def task(request: pytest.FixtureRequest) -> Task:
    return load_task(request.param, "cpu")


def propose(search: Search, task: Task, history: Sequence[Seen]) -> Candidate:
    candidate = search.propose(task, history)
    assert candidate is not None
    return candidate


def judged(candidate: Candidate, rng: random.Random) -> Seen:
    status = rng.choice(["ACCEPTED", "NOT_FASTER", "BITS_DIFFER", "COMPILE", "REGRESSES"])
    gain = rng.uniform(0.8, 1.5) if status in ("ACCEPTED", "NOT_FASTER", "REGRESSES") else None
    return Seen(candidate=candidate, status=status, gain_vs_seed=gain)


def test_proposals_are_valid_new_and_described(task: Task) -> None:
    search, rng, history = Search(3), random.Random(0), list[Seen]()
    seen = {normalised_hash(task.seed_source)}
    ids = {candidate_id(task.seed_source)}
    for _ in range(16):
        candidate = propose(search, task, history)
        assert check(candidate.source, task.entries) == []
        assert normalised_hash(candidate.source) not in seen
        assert candidate.id == candidate_id(candidate.source)
        assert candidate.parents
        assert set(candidate.parents) <= ids
        assert candidate.changes
        assert candidate.note
        assert "\n" not in candidate.note
        assert candidate.author == "search"
        assert candidate.task == task.name
        seen.add(normalised_hash(candidate.source))
        ids.add(candidate.id)
        history.append(judged(candidate, rng))


def test_a_resumed_run_continues_as_if_never_stopped(task: Task) -> None:
    search, rng, history = Search(5), random.Random(1), list[Seen]()
    for _ in range(6):
        history.append(judged(propose(search, task, history), rng))
    for cut in (0, 3, 5):
        assert Search(5).propose(task, history[:cut]) == history[cut].candidate


def test_the_seed_of_the_search_decides_exploration_only(task: Task) -> None:
    assert Search(1).propose(task, []) == Search(2).propose(task, [])


def test_the_opening_changes_several_knobs_at_once(task: Task) -> None:
    first = propose(Search(0), task, [])
    assert first.note.startswith("opening")
    assert len(first.changes) > 1


def test_an_accepted_candidate_is_built_upon(task: Task) -> None:
    search = Search(0)
    first = propose(search, task, [])
    history = [Seen(candidate=first, status="ACCEPTED", gain_vs_seed=1.4)]
    second = propose(search, task, history)
    assert second.parents == (first.id,)
    assert set(first.changes) & set(second.changes)


def test_when_all_at_once_breaks_its_parts_are_tried(task: Task) -> None:
    search = Search(0)
    first = propose(search, task, [])
    second = propose(search, task, [Seen(candidate=first, status="BITS_DIFFER")])
    assert set(second.changes) < set(first.changes)


def test_a_setting_that_broke_bits_alone_is_not_proposed_again(task: Task) -> None:
    search, history = Search(0), list[Seen]()
    broken: set[str] = set()
    for _ in range(14):
        candidate = propose(search, task, history)
        lone = len(candidate.changes) == 1
        if lone:
            broken.add(candidate.changes[0].split(" for ")[0])
        history.append(Seen(candidate=candidate, status="BITS_DIFFER" if lone else "NOT_FASTER"))
        sound = {c.split(" for ")[0] for c in candidate.changes}
        if not lone:
            assert not sound & broken


def test_an_accepted_candidate_of_another_author_is_built_upon() -> None:
    task = load_task("linear", "cpu")
    source = task.seed_source.replace("BLOCK_M=128", "BLOCK_M=64").replace(
        "cdiv(m_size, 128)", "cdiv(m_size, 64)"
    )
    other = Candidate(
        id=candidate_id(source),
        task=task.name,
        source=source,
        parents=(candidate_id(task.seed_source),),
        author="agent",
        changes=("smaller tiles",),
    )
    history = [Seen(candidate=other, status="ACCEPTED", gain_vs_seed=1.2)]
    candidate = propose(Search(0), task, history)
    assert candidate.parents == (other.id,)
    assert check(candidate.source, task.entries) == []


def test_a_winner_that_the_search_cannot_read_does_not_stop_it() -> None:
    task = load_task("linear", "cpu")
    own = propose(Search(0), task, [])
    source = "import torch\n\n\ndef forward_infer(x):\n    return x\n"
    other = Candidate(
        id=candidate_id(source), task=task.name, source=source, parents=(), author="agent"
    )
    history = [
        Seen(candidate=own, status="ACCEPTED", gain_vs_seed=1.1),
        Seen(candidate=other, status="ACCEPTED", gain_vs_seed=1.9),
    ]
    candidate = propose(Search(0), task, history)
    assert candidate.parents == (own.id,)
    assert candidate.changes


@pytest.mark.parametrize("status", ["DUPLICATE", "UNJUDGED"])
def test_what_was_never_judged_teaches_nothing_about_its_settings(status: str) -> None:
    task = load_task("linear", "cpu")
    source = task.seed_source + "#"
    alone = Candidate(
        id=candidate_id(source),
        task=task.name,
        source=source,
        parents=(candidate_id(task.seed_source),),
        author="search",
        changes=("_matmul(m_size,n_size,k_size) num_warps 4→8",),
    )
    assert read_history(task, [Seen(candidate=alone, status="BITS_DIFFER")]).banned
    assert not read_history(task, [Seen(candidate=alone, status=status)]).banned


def test_the_search_never_waits() -> None:
    search = Search(0)
    assert search.choose({"b": [], "a": []}, 0.0) == "b"
    assert search.choose({}, 0.0) is None
    assert search.standing() == ""
    search.close()


@pytest.mark.parametrize("name", ["scale", "matmul"])
def test_an_unknown_kernel_gets_proposals(name: str) -> None:
    source = (Path(__file__).parent / f"stranger_{name}.py").read_text()
    task = load_task("rms_norm", "cpu")
    task = replace(task, name=name, seed_source=source, entries=("forward_infer",))
    search, history = Search(0), list[Seen]()
    while (candidate := search.propose(task, history)) is not None and len(history) < 8:
        assert check(candidate.source, task.entries) == []
        history.append(Seen(candidate=candidate, status="NOT_FASTER"))
    assert len(history) >= 5


def test_a_source_without_launches_gets_none() -> None:
    task = replace(load_task("rms_norm", "cpu"), seed_source="import torch\n")
    assert Search(0).propose(task, []) is None


def test_kernels_with_two_sums_keep_one_row_and_elementwise_ones_get_short_blocks() -> None:
    first = Search(1).propose(load_task("logprob", "cpu"), [])
    assert first is not None
    assert not [line for line in first.changes if " rows " in line]
    assert "_forward(n_cols)[1024] columns off→single for n_cols≤1024" in first.changes
    assert "_backward(n_cols)[1024] BLOCK 1024→256" in first.changes
    gpu = Search(1).propose(load_task("swiglu", "cuda"), [])
    assert gpu is not None
    assert not [line for line in gpu.changes if "BLOCK 4096→256" in line]
