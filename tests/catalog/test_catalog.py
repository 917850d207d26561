"""Finding and checking tasks: what is shipped loads, what is broken says so in one line."""

from pathlib import Path

import pytest

from kernelsmith import catalog
from kernelsmith.authoring import checks
from kernelsmith.errors import TaskError
from kernelsmith.model import Task

ROOT = Path(__file__).parents[2]
SHIPPED = ["linear", "logprob", "rms_norm", "swiglu"]
TOML = (ROOT / "tasks" / "rms_norm.toml").read_text(encoding="utf-8")
SEED = (ROOT / "seed_kernels" / "rms_norm.py").read_text(encoding="utf-8")


def written(folder: Path, toml: str, seed: str = SEED) -> Path:
    (folder / "rms_norm.toml").write_text(toml, encoding="utf-8")
    (folder / "rms_norm.py").write_text(seed, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_shipped_tasks_load_without_a_finding(name: str, device: str) -> None:
    task = catalog.load_task(name, device)
    assert task.shipped
    assert 1 <= sum(case.weight > 0 for case in task.cases) <= 12
    assert [f.message for f in checks.check(name) if f.level != "ok"] == []


@pytest.mark.parametrize("name", SHIPPED)
def test_cpu_cases_cover_both_paths_and_the_shapes_that_serving_meets(name: str) -> None:
    task = catalog.load_task(name, "cpu")

    def tokens(path: str) -> set[int]:
        return {c.dim("M") for c in task.cases if task.call(c.call).path == path}

    assert {1, 2, 7, 16, 33} <= tokens("infer")
    assert 0 in tokens("infer")
    assert 0 in tokens("train")
    assert {case.dtype for case in task.cases} == {"bfloat16", "float32"}
    assert any(case.row_stride_pad for case in task.cases)
    assert max(case.dim("M") for case in task.cases) <= task.token_range[1]


def test_loading_runs_none_of_the_seed(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    seed = f"open({str(mark)!r}, 'w').close()\n" + SEED
    catalog.load_task("rms_norm", "cpu", [written(tmp_path, TOML, seed)])
    assert not mark.exists()


def test_a_named_folder_goes_before_the_shipped_tasks(tmp_path: Path) -> None:
    written(tmp_path, TOML.replace("RMS norm, plain", "Mine, plain", 1))
    task = catalog.load_task("rms_norm", "cpu", [tmp_path])
    assert task.summary.startswith("Mine")
    assert not task.shipped
    assert set(catalog.tasks([tmp_path])) == set(SHIPPED)


def test_listing_shows_broken_tasks_with_their_problem(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("name = ", encoding="utf-8")
    listed = {listing.name: listing for listing in catalog.list_tasks([tmp_path])}
    assert "not TOML" in listed["broken"].problem
    assert listed["linear"].problem == ""
    assert dict(listed["linear"].cases).keys() == {"cpu", "cuda"}


BROKEN = {
    "not toml": (("[limits]", "[limits"), "not TOML"),
    "unknown key": (("[limits]", "[limits]\nfast = 1"), "limits.fast"),
    "wrong type": (('token_dim = "M"', "token_dim = 3"), "token_dim"),
    "name of another file": (('name = "rms_norm"', 'name = "other"'), "'other'"),
    "no such seed": (('seed = "rms_norm.py"', 'seed = "gone.py"'), "'gone.py' is not there"),
    "seed elsewhere": (('seed = "rms_norm.py"', 'seed = "../x.py"'), "leaves the task's folder"),
    "unknown recipe": (('recipe = "norm_x"', 'recipe = "random"'), "unknown recipe 'random'"),
    "unknown regime": (('regimes = ["normal"]', 'regimes = ["odd"]'), "unknown regime 'odd'"),
    "unknown call": (('calls = ["residual_train"]', 'calls = ["gone"]'), "no call 'gone'"),
    "unknown entry": (('entry = "forward_infer"', 'entry = "infer"'), "uses the entry 'infer'"),
    "missing size": (("dims = { M = 257, N = 1024 }", "dims = { M = 257 }"), "'N' has no size"),
    "weights": (("weight = 0.25", "weight = 0.35"), "sum to 1.1"),
    "declared twice": (
        ("dims = { M = 10, N = 1024 }", "dims = { M = [10, 10], N = 1024 }"),
        "twice",
    ),
    "parameters": (
        ('  { name = "residual", kind = "none" },\n', ""),
        "takes (x, weight, eps, residual)",
    ),
    "carry": (('carry_call = "backward_carry"', 'carry_call = "train"'), "no tensor argument"),
    "range": (("token_range = [0, 300]", "token_range = [300, 0]"), "token_range"),
    "row without tokens": (
        (
            '{ name = "rstd", class = "row", shape = ["M"]',
            '{ name = "rstd", class = "row", shape = ["N"]',
        ),
        "without the token dimension",
    ),
    "float without value": (
        ('kind = "float", value = 1e-6', 'kind = "float"'),
        "0 of value and dim",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_task_is_one_line_with_a_hint(tmp_path: Path, name: str) -> None:
    (old, new), expected = BROKEN[name]
    assert old in TOML
    written(tmp_path, TOML.replace(old, new, 1))
    with pytest.raises(TaskError) as caught:
        catalog.load_task("rms_norm", "cpu", [tmp_path])
    assert expected in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint
    found = checks.check("rms_norm", [tmp_path])  # of another device it may still say what is well
    assert [f.level for f in found if f.level != "ok"] == ["error"]


def test_seed_that_is_not_python_or_not_utf8(tmp_path: Path) -> None:
    written(tmp_path, TOML, "def forward_train(:\n")
    with pytest.raises(TaskError, match="is not Python: line 1"):
        catalog.load_task("rms_norm", "cpu", [tmp_path])
    (tmp_path / "rms_norm.py").write_bytes(b"\xff\xfe")
    with pytest.raises(TaskError, match="is not UTF-8"):
        catalog.load_task("rms_norm", "cpu", [tmp_path])


def test_unknown_names_say_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no task named 'gone'") as caught:
        catalog.load_task("gone", "cpu")
    assert "linear, logprob, rms_norm, swiglu" in (caught.value.hint or "")
    with pytest.raises(TaskError, match="no cases for device 'tpu'"):
        catalog.load_task("linear", "tpu")
    with pytest.raises(TaskError, match="no folder of tasks"):
        catalog.load_task("linear", "cpu", [tmp_path / "gone"])


def test_findings_name_what_is_never_compared(tmp_path: Path) -> None:
    train_only = TOML.replace('path = "infer"', 'path = "train"').replace("M = [0, ", "M = [")
    written(tmp_path, train_only)
    messages = [f.message for f in checks.check("rms_norm", [tmp_path])]
    assert any("no case on the path infer" in message for message in messages)
    assert any("no empty batch" in message for message in messages)


def test_a_task_is_a_frozen_value() -> None:
    first = catalog.load_task("linear", "cpu")
    assert first == catalog.load_task("linear", "cpu")
    assert isinstance(first, Task)
    with pytest.raises(AttributeError):
        first.name = "x"  # type: ignore[misc]


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_tasks_have_cases_of_every_call_in_every_dtype(name: str) -> None:
    assert not [f for f in checks.check(name) if "no case uses" in f.message]
