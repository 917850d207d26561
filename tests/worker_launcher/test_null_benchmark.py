"""The null benchmark's own parts: variants that differ in text alone, a report that counts."""

import ast
import importlib.util
import random
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
null_report = load("null_report")


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


def trial(number, gain, planted=0, accepted=False):
    rng = random.Random(number)
    sessions = [
        {
            "warm": gain + rng.gauss(0, 0.004),
            "cold": gain + rng.gauss(0, 0.006),
            "cases": {"one": gain + rng.gauss(0, 0.004), "two": gain + rng.gauss(0, 0.004)},
            "seconds": 1.0,
            "processor_share": None,
        }
        for _ in range(10)
    ]
    return {
        "task": "rms_norm",
        "planted_percent": planted,
        "planted": {"one": planted / 100},
        "accepted": accepted,
        "seconds": 12.0,
        "sessions": sessions,
    }


def test_the_report_counts_null_trials_apart_from_planted_ones_and_bounds_them():
    rule = {"min_gain": 0.01, "max_regress": 0.03, "alpha": 0.03}
    trials = [trial(n, 0.0, accepted=n == 0) for n in range(20)]
    trials.append(trial(99, 0.05, planted=5, accepted=True))
    found = null_report.report(trials, rule, resampled_null=40, resampled_power=20)
    assert found["null_sessions"] == 200
    assert found["end_to_end"]["trials"] == 20
    assert found["end_to_end"]["accepted"] == 1
    assert found["end_to_end_by_task"]["rms_norm"]["trials"] == 20
    low, high = found["end_to_end"]["clopper_pearson_95"]
    assert low < 0.05 < high
    planted = found["end_to_end_planted"]["about 5 % of the programs run twice"]
    assert (planted["trials"], planted["accepted"]) == (1, 1)
    assert found["resampled"]["null"]["accepted"] == 0
    assert found["resampled"]["gain 5 %"]["accepted"] == 20
    assert 0.2 < found["session_sd_percent"]["rms_norm"]["one"]["sd"] < 0.6
    assert found["processor_share"] == {}
