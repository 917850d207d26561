"""A seeded sample of the one-spot mutants through the real gate, on the smaller cases of each
task. ``python benchmarks/mutants.py`` judges all of them on all cases."""

import dataclasses
import importlib.util
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kernelsmith import catalog, devices
from kernelsmith.gate.judge import Gate
from kernelsmith.model import Task
from kernelsmith.sandbox.process import open_process

ROOT = Path(__file__).parents[2]
SAMPLE = 3
MOST_ELEMENTS = 26_200


def _load_benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "benchmarks" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


bench = _load_benchmark()


def smaller(task: Task) -> Task:
    """The task with its smaller cases only, one of each form and regime."""
    forms = {}
    for case in task.cases:
        if case.dim("M") * case.dim("N") <= MOST_ELEMENTS and case.dim("M") > 3:
            forms.setdefault((case.call, case.dtype, case.regime), case)
    kept = list(forms.values())
    kept[0] = dataclasses.replace(kept[0], weight=1.0)
    return dataclasses.replace(task, cases=tuple(kept), token_range=(0, 48), ranges=())


@pytest.fixture(scope="module", params=bench.TASKS)
def gate(request: pytest.FixtureRequest) -> Iterator[Gate]:
    sandbox = open_process()
    made = Gate(
        smaller(catalog.load_task(request.param, "cpu")),
        devices.get("cpu"),
        sandbox,
        secret_seed=20_261_129,
    )
    yield made
    made.close()
    sandbox.close()


def drawn(name: str) -> list[Any]:
    """Mutants that parity must see, of as many kinds as the sample has room for."""
    candidates = [m for m in bench.table(name) if (m.check or "").startswith("parity")]
    candidates = [m for m in candidates if m.kind != "dispatch"]
    random.Random(11).shuffle(candidates)
    kinds = {mutant.kind: mutant for mutant in reversed(candidates)}
    return [m for m in candidates if kinds[m.kind] is m][:SAMPLE]


def test_the_sampled_mutants_are_rejected_at_a_named_element(gate: Gate) -> None:
    for mutant in drawn(gate.task.name):
        judged = bench.judge(gate, mutant)
        assert judged.as_expected, (mutant.name, judged.found, judged.message)
        assert "first at [" in judged.message, mutant.name


@pytest.mark.parametrize("name", bench.TASKS)
def test_every_mutant_has_its_spot_and_a_check_that_must_see_it(name: str) -> None:
    source = catalog.load_task(name, "cpu").seed_source
    mutants = bench.table(name)
    texts = {bench.mutated(source, mutant) for mutant in mutants}
    assert len(texts) == len(mutants)
    assert source not in texts
    for text in texts:
        compile(text, name, "exec")
    for mutant in mutants:
        assert (mutant.status == "ACCEPTED") == (mutant.check is None) == bool(mutant.reason)


def test_there_are_at_least_forty_mutants() -> None:
    assert sum(m.check is not None for n in bench.TASKS for m in bench.table(n)) >= 40
