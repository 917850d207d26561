"""Every cheat against policy, which runs nothing, and a seeded sample of what policy lets pass
through the real gate. ``python benchmarks/cheats.py`` judges all of them, also without policy."""

import json
import os
import random
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelsmith import catalog, devices
from kernelsmith.gate.judge import Gate
from kernelsmith.model import Task
from kernelsmith.ports import Sandbox
from kernelsmith.sandbox.choose import choose

ROOT = Path(__file__).parents[2]
SAMPLE = 2
MOST_ELEMENTS = 7_000
OF_SHAPES = {14, 25}
"""Mechanisms that the smaller tasks of this test may not meet."""
SAMPLED = ("parity", "parity.infer", "trace", "memory")
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import cheats as bench  # noqa: E402
import cheats_canaries  # noqa: E402

from tests.smaller import smaller  # noqa: E402

CHEATS = bench.load()


@pytest.fixture(scope="module")
def tasks() -> dict[str, Task]:
    return {name: catalog.load_task(name, "cpu") for name in bench.TASKS}


@pytest.mark.parametrize("cheat", CHEATS, ids=[cheat.name for cheat in CHEATS])
def test_policy_refuses_what_it_must_and_nothing_else(cheat: Any, tasks: dict[str, Task]) -> None:
    status, message = bench.by_policy(tasks[cheat.task], cheat)
    assert (status == "POLICY") == (cheat.expect[1] == "policy"), message
    if status:
        assert message.startswith("line ")
        assert " is not allowed; " in message


def test_every_mechanism_has_a_plain_and_a_disguised_file() -> None:
    for one in bench.mechanisms():
        own = [cheat for cheat in CHEATS if one["number"] in cheat.mechanisms]
        assert any(not cheat.disguise_of for cheat in own), one["title"]
        assert any(cheat.disguise_of for cheat in own), one["title"]
    assert [one["number"] for one in bench.mechanisms()] == list(range(1, 57))
    assert len(CHEATS) >= 100


def test_files_say_what_they_are() -> None:
    names = {cheat.name for cheat in CHEATS}
    assert len(names) == len(CHEATS)
    for cheat in CHEATS:
        assert cheat.disguise_of in ("", *names), cheat.name
        assert cheat.disguise_of != cheat.name
        assert (cheat.expect[0] == "ACCEPTED") == bool(cheat.gap), cheat.name
        assert len(cheat.exploits) > 40, cheat.name
    for name in bench.TASKS:
        own = [cheat for cheat in CHEATS if cheat.task == name]
        assert {"policy", "parity"} <= {cheat.expect[1] for cheat in own}, name


def test_results_and_table_are_of_these_files() -> None:
    held = bench.judged_before()
    lacking = {cheat.name for cheat in CHEATS} - {cheat.name for cheat in bench.current(held)}
    assert lacking == set(), "run make proof-cheats"
    for cheat in CHEATS:
        assert bench.faults(cheat, held[cheat.name]) == [], cheat.name
    document = json.loads(bench.RESULT.read_text(encoding="utf-8"))
    assert bench.TABLE.read_text(encoding="utf-8") == bench.render(document)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = choose("auto", trusted_origin=True)
    yield made
    made.close()


def drawn(name: str) -> list[Any]:
    """Cheats of a task that must fall at different walls, as far as the sample has room."""
    found = [
        cheat
        for cheat in CHEATS
        if cheat.task == name
        and cheat.walk == "bits"
        and cheat.expect[1] in SAMPLED
        and not OF_SHAPES & set(cheat.mechanisms)
    ]
    random.Random(5).shuffle(found)
    walls = {cheat.expect[1]: cheat for cheat in reversed(found)}
    return [cheat for cheat in found if walls[cheat.expect[1]] is cheat][:SAMPLE]


@pytest.mark.parametrize("name", bench.TASKS)
def test_the_sampled_cheats_fall_at_their_wall(
    name: str, tasks: dict[str, Task], sandbox: Sandbox
) -> None:
    gate = Gate(
        smaller(tasks[name], MOST_ELEMENTS), devices.get("cpu"), sandbox, secret_seed=20_261_130
    )
    try:
        for cheat in drawn(name):
            verdict = gate.judge_bits(bench.candidate(cheat, True))
            last = verdict.checks[-1]
            wall = (verdict.status, last.name.partition(".")[0])
            assert wall == (cheat.expect[0], cheat.expect[1].partition(".")[0]), (
                cheat.name,
                last.message,
            )
    finally:
        gate.close()


def test_canaries_notice_what_would_be_done_to_them(tmp_path: Path) -> None:
    """What the cheats try, done here outside of any wall."""
    folder = tmp_path / "canary"
    with cheats_canaries.Canaries(folder, port=0) as canaries:
        secret = (folder / "secret").read_text()
        assert canaries.touched("") == ()
        assert canaries.touched(f"ValueError: {secret}") == ("the secret came out",)
        assert os.environ[cheats_canaries.VARIABLE] == secret
        (folder / "made").touch()
        assert canaries.touched("") == ("a file was made or removed",)
        canaries.set_out()
        (folder / "victim").write_text("changed")
        assert canaries.touched("") == ("a file was changed",)
        canaries.set_out()
        socket.create_connection(("127.0.0.1", canaries.port), timeout=5).close()
        assert canaries.touched("") == ("somebody connected",)
        canaries.process.kill()
        canaries.process.wait(5)
        assert canaries.touched("") == ("a process was killed",)
        canaries.set_out()
        assert canaries.touched("") == ()
