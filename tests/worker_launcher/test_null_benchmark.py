"""The null benchmark's own parts: variants that differ in text alone, and planted work."""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

from kernelsmith import catalog
from kernelsmith.gate.subject import Subject
from kernelsmith.model import Candidate

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def load(name):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


null_variants = load("null_variants")


@pytest.mark.parametrize("task", ["rms_norm", "linear", "swiglu", "logprob"])
def test_variants_are_distinct_modules_with_the_seeds_entries(task):
    seed = catalog.load_task(task, "cpu")
    sources = [null_variants.variant(seed.seed_source, number) for number in (1, 2, 3)]
    assert len({*sources, seed.seed_source}) == 4
    assert sources[0] == null_variants.variant(seed.seed_source, 1)
    for number, source in enumerate(sources, 1):
        functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
        assert set(seed.entries) <= {function.name for function in functions}
        kernels = [function.name for function in functions if function.decorator_list]
        assert all(name.endswith(f"_v{number}") for name in kernels)
        assert source.count("if n_") >= len(kernels)


def test_a_planted_subject_repeats_a_known_share_of_its_programs(bench):
    candidate = Candidate(id="v1", task="t", source="", parents=(), author="seed")
    case = type("Case", (), {"id": "case"})
    subject = Subject(candidate=candidate, role="launcher", plans={"case": bench.plan(6400)})
    copy, shares = null_variants.planted(subject, [case], 5.0)
    assert shares == {"case": 0.05}
    first, again = copy.plans["case"].launches
    assert (first.grid[0], again.grid[0]) == (100, 5)
    assert len(subject.plans["case"].launches) == 1
