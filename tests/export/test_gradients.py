"""Gradients are wired only where the forward call moves as ``backward`` says."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from kernelsmith.cases import call_for
from kernelsmith.gate.subject import Ask, Execution, Outcome, Subject
from kernelsmith.library.gradients import derive
from kernelsmith.model import ArgSpec, Call, OutputSpec, Task, seed_candidate
from kernelsmith.numerics import recipes
from tests.export.lineages import small_task

ROWS = ("M", "N")
Values = dict[str, Any]


def tensor(name: str, recipe: str = "token") -> ArgSpec:
    return ArgSpec(name=name, kind="tensor", shape=ROWS, dtype="T", recipe=recipe)


def output(name: str) -> OutputSpec:
    return OutputSpec(name=name, cls="row", shape=ROWS, dtype="T")


def toy(args: Sequence[str], back: Sequence[str], gives: Sequence[str]) -> Task:
    """y of ``args``, and a backward that takes ``back`` and returns ``gives``."""
    ahead = Call(
        name="train",
        variant="plain",
        entry="forward_train",
        path="train",
        args=tuple(map(tensor, args)),
        outputs=(output("y"),),
    )
    after = replace(
        ahead,
        name="backward",
        entry="backward",
        args=tuple(map(tensor, back)),
        outputs=tuple(map(output, gives)),
    )
    task = replace(small_task(), calls=(ahead, after), cases=())
    cases = tuple(
        call_for(task, name, "float32", {"M": 7, "N": 8}) for name in ("train", "backward")
    )
    return replace(task, cases=cases)


@dataclass
class NumpyBench:
    """Runs entries that are NumPy functions of float32 arrays."""

    task: Task
    entries: dict[str, Callable[[Values], Sequence[Any]]]
    failing: str = ""

    def prepare(self, subject: Subject, cases: Iterable[Any]) -> Outcome:
        return Outcome()

    def execute(self, subject: Subject, asks: Sequence[Ask]) -> list[Execution] | Outcome:
        if self.failing:
            return Outcome(status="CRASH", message=self.failing)
        return [self.one(ask) for ask in asks]

    def one(self, ask: Ask) -> Execution:
        files = dict(ask.files)
        values: Values = dict(recipes.draw(ask.inputs))
        for spec in ask.inputs.tensors:
            if spec.file is not None:
                data = np.frombuffer(files[spec.file], np.float32)
                values[spec.name] = data.reshape(spec.meta.shape)
        found = self.entries[self.task.call(ask.case.call).entry](values)
        outputs = tuple(np.asarray(each, np.float32).tobytes() for each in found)
        return Execution(key=ask.key, outputs=outputs, canaries=(), changed_inputs=(), seconds=0.0)


def wired(task: Task, ahead: Any, back: Any, failing: str = "") -> dict[str, Any] | str:
    entries = {"forward_train": ahead, "backward": back}
    bench: Any = NumpyBench(task, entries, failing)
    return derive(bench, Subject(candidate=seed_candidate(task), role="seed"))


PRODUCT = toy(["a", "b"], ["dy", "a", "b"], ["da", "db"])


def times(v: Values) -> list[Any]:
    return [v["a"] * v["b"]]


def test_a_product_gives_each_factor_the_other_one() -> None:
    found = wired(PRODUCT, times, lambda v: [v["dy"] * v["b"], v["dy"] * v["a"]])
    assert isinstance(found, dict)
    (variant,) = found["variants"]
    assert variant["gives"] == {"a": "da", "b": "db"}
    assert variant["takes"] == {
        "dy": ["gradient", "y"],
        "a": ["saved", "a"],
        "b": ["saved", "b"],
    }


def test_names_do_not_decide_what_is_whose_gradient() -> None:
    found = wired(PRODUCT, times, lambda v: [v["dy"] * v["a"], v["dy"] * v["b"]])
    assert isinstance(found, dict)
    assert found["variants"][0]["gives"] == {"a": "db", "b": "da"}


def test_what_backward_keeps_may_have_another_name() -> None:
    task = toy(["a", "b"], ["dy", "left", "right"], ["da", "db"])
    back = lambda v: [v["dy"] * v["right"], v["dy"] * v["left"]]  # noqa: E731
    found = wired(task, times, back)
    assert isinstance(found, dict)
    variant = found["variants"][0]
    kept = {name: source for name, (_, source) in variant["takes"].items()}
    # Either way round is right, as long as each factor gets the other one.
    assert {kept["left"], kept["right"]} == {"a", "b"}
    assert {variant["gives"][kept["left"]], variant["gives"][kept["right"]]} == {"da", "db"}


@pytest.mark.parametrize(
    "back",
    [
        lambda v: [v["dy"] * v["b"], v["dy"] * v["a"] * 1.1],
        lambda v: [v["dy"] * v["b"], -v["dy"] * v["a"]],
        lambda v: [v["dy"], v["dy"]],
        lambda v: [v["dy"] * v["b"], np.full_like(v["a"], np.nan)],
    ],
    ids=["a tenth too much", "wrong sign", "no factor", "no number"],
)
def test_a_backward_that_is_wrong_is_not_wired(back: Any) -> None:
    found = wired(PRODUCT, times, back)
    assert isinstance(found, str)
    assert found.startswith("what backward returns is not how the outputs of train move")


def test_a_gradient_that_backward_does_not_return_is_missed() -> None:
    task = toy(["a", "b"], ["dy", "a", "b"], ["da"])
    assert isinstance(wired(task, times, lambda v: [v["dy"] * v["b"]]), str)


def test_an_argument_that_nothing_hangs_on_has_no_gradient() -> None:
    task = toy(["a", "b"], ["dy"], ["da"])
    found = wired(task, lambda v: [v["a"] * 2], lambda v: [v["dy"] * 2])
    assert isinstance(found, dict)
    assert found["variants"][0]["gives"] == {"a": "da"}


def test_forms_without_gradients_by_name_are_left_alone() -> None:
    task = toy(["a", "b"], ["g", "a", "b"], ["da", "db"])
    found = wired(task, times, lambda v: [v["g"] * v["b"], v["g"] * v["a"]])
    assert found == "no call form takes dNAME, the gradient of an output NAME of another"


def test_a_seed_that_fails_says_so() -> None:
    found = wired(PRODUCT, times, times, failing="out of memory")
    assert found == "the seed fails while its gradients are tried: out of memory"
