"""``[[reductions]]`` of a task file: what is refused, and what is told when there are none."""

from pathlib import Path

import pytest

from kernelsmith import catalog
from kernelsmith.errors import TaskError
from tests.gate.conftest import make_kit

ROOT = Path(__file__).parents[2]


def edited(folder: Path, old: str, new: str, task: str = "linear") -> None:
    text = (ROOT / f"tasks/{task}.toml").read_text()
    assert old in text
    (folder / f"{task}.toml").write_text(text.replace(old, new, 1))
    (folder / f"{task}.py").write_text((ROOT / f"seed_kernels/{task}.py").read_text())


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('zeros = ["bias"]\n', "", "argument bias of bias_train is named 0 times"),
        ('zeros = ["bias"]', 'zeros = ["bias", "gone"]', "an argument 'gone'"),
        ('output = "y"\nover = "K"', 'output = "z"\nover = "K"', "train has no output 'z'"),
        (
            'over = "K"',
            'over = "M"',
            "carrier x has no single other dimension that the output y has",
        ),
        ('name = "dx_over_n"', 'name = "y_over_k"', "two reductions share a name"),
        ('carriers = ["x", "weight"]', 'carriers = ["y"]', "is named 0 times"),
        ('terms = "values"', 'terms = "cubes"', "reductions.0.terms"),
        ('terms = "values"', 'terms = "values"\nthen = "centred"', "beside = ''"),
        ('terms = "values"', 'terms = "squares"\nthen = "centred"', "terms = 'squares'"),
        ('calls = ["train", "infer", "bias', 'calls = ["prefill", "bias', "no call 'prefill'"),
    ],
)
def test_what_does_not_fit_is_one_line_with_a_hint(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    edited(tmp_path, old, new)
    with pytest.raises(TaskError) as caught:
        catalog.load_task("linear", "cpu", [tmp_path])
    assert says in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_shipped_tasks_declare_every_sum(device: str) -> None:
    for name in ("linear", "rms_norm", "logprob", "swiglu"):
        task = catalog.load_task(name, device)
        assert (task.reductions == ()) is (name == "swiglu")
        told = [one for one in catalog.findings(task) if one.level == "warning"]
        assert not [one for one in told if "reduction" in one.message]


def test_a_task_without_them_is_unchecked_and_says_why() -> None:
    for reductions, says in ((None, "declares no [[reductions]]"), ((), "nothing is summed")):
        verdict = make_kit(reductions=reductions).judge(gain=1.05)
        (order,) = [check for check in verdict.checks if check.name == "order"]
        assert (verdict.unchecked, order.status) == (("order",), "unchecked")
        assert says in order.message
