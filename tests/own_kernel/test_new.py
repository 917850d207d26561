"""``tasks new``: what a file says of itself, what has to be said, what is written."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelsmith import catalog
from kernelsmith.authoring import draft
from kernelsmith.authoring.facts import read_seed
from kernelsmith.authoring.questions import Inquiry, Question
from kernelsmith.authoring.writing import task_text
from kernelsmith.errors import InputError
from tests.own_kernel.kernels import KERNEL, SCALE, SUMMED, WILD

Kernelsmith = Callable[..., tuple[int, str, str]]
CARRIED = "--output backward:dw=", "batch:float32[N]:block=32:carry=dw_carry"
SAID = {
    "--arg weight=": "T[N]",
    "--arg forward_train:bias=": "T[N]?",
    "--arg backward:dw_carry=": "float32[N]?",
    CARRIED[0]: CARRIED[1],
}


def drafted(source: str, given: dict[str, str], asker: object = None) -> draft.Draft:
    facts = read_seed(source, "mine.py")
    entries = draft.choose_entries(facts, (), "mine.py")
    inquiry = Inquiry(given=given, asker=asker)  # type: ignore[arg-type]
    return draft.make_draft("mine", "mine.py", facts, entries, inquiry)


def test_a_file_that_says_all_needs_no_flag_and_its_task_is_sound(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    code, out, _ = kernelsmith("tasks", "new", "scale", "--from", "scale.py")
    assert code == 0
    assert "assumed --arg forward:weight=T[N]  (its docstring says so)" in out
    assert "assumed --arg forward:factor=2.0  (its default)" in out
    assert (tmp_path / "tasks/scale.py").read_text() == SCALE
    code, out, _ = kernelsmith("tasks", "check", "scale", "--tasks", "tasks")
    assert code == 0
    assert "warning" not in out
    for device in ("cpu", "cuda"):
        task = catalog.load_task("scale", device, [tmp_path / "tasks"])
        assert [(call.name, call.path) for call in task.calls] == [
            ("train", "train"),
            ("infer", "infer"),
        ]
        assert {case.regime for case in task.cases} >= {"cancel", "ties", "special", "normal"}
        assert any(case.dim("M") == 0 for case in task.cases)
        assert any(case.row_stride_pad for case in task.cases)


def test_nothing_of_the_file_is_run(kernelsmith: Kernelsmith, tmp_path: Path) -> None:
    (tmp_path / "wild.py").write_text(WILD)
    code, out, _ = kernelsmith("tasks", "new", "wild", "--from", "wild.py", "--arg", "y=T[M,N]")
    assert code == 0
    assert not (tmp_path / "ran").exists()
    assert "outside the language" in out
    assert "kernelsmith run" not in out  # it would not start


def test_what_nobody_says_is_asked_for_by_its_flag_and_nothing_is_written(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    (tmp_path / "bare.py").write_text(
        SCALE.replace("weight: [N]", "weight: a row").replace("=2.0", "")
    )
    code, _, err = kernelsmith("tasks", "new", "bare", "--from", "bare.py")
    assert code == 2
    assert "--arg forward:weight=… (shape and dtype of weight in forward)" in err
    assert "--arg forward:factor=…" in err
    assert not (tmp_path / "tasks").exists()
    said = ["--arg", "weight=T[N]", "--arg", "forward:factor=0.5"]
    assert kernelsmith("tasks", "new", "bare", "--from", "bare.py", *said)[0] == 0


def test_entries_paths_variants_and_carries_are_read_from_the_code() -> None:
    made = drafted(SUMMED, SAID)
    assert made.entries == ("forward_train", "forward_infer", "backward")
    calls = {call.name: call for call in made.calls}
    assert list(calls) == ["train", "bias_train", "infer", "backward", "backward_carry"]
    assert [o.name for o in calls["train"].outputs] == ["y"]
    assert [(o.name, o.shape, o.dtype) for o in calls["bias_train"].outputs] == [
        ("y", ("M", "N"), "T"),
        ("row_max", ("M",), "float32"),
    ]
    assert calls["infer"].path == "infer"
    assert calls["infer"].args[1].shape == ("N",)  # as in forward_train
    gradient = calls["backward"].outputs[1]
    assert (gradient.name, gradient.block, gradient.carry_call) == ("dw", 32, "backward_carry")
    assert [arg.kind for arg in calls["backward"].args] == ["tensor", "tensor", "none"]
    assert calls["backward_carry"].args[2].recipe == "carry"
    assert made.strided is False  # backward never steps x by its stride


def test_docstrings_give_shapes_and_dtypes() -> None:
    seed = catalog.tasks()["rms_norm"].path.parent.parent / "seed_kernels" / "rms_norm.py"
    entries = {entry.name: entry for entry in read_seed(seed.read_text(), seed.name).entries}
    told = {each.name: each.said for each in entries["backward"].parameters}
    assert {name: (said.shape, said.dtype) for name, said in told.items() if said} == {
        "dy": (("M", "N"), "T"),
        "x": (("M", "N"), "T"),
        "weight": (("N",), "T"),
        "rstd": (("M",), "float32"),
        "dh": (("M", "N"), "T"),
        "dw_carry": (("N",), "float32"),
    }
    optional = [each.name for each in entries["backward"].parameters if each.optional]
    assert optional == ["dh", "dw_carry"]


def test_what_a_function_hands_on_is_followed() -> None:
    entries = {entry.name: entry for entry in read_seed(SUMMED, "mine.py").entries}
    carry = entries["backward"].parameter("dw_carry")
    weight = entries["forward_infer"].parameter("weight")
    x = entries["forward_infer"].parameter("x")
    assert carry is not None
    assert (carry.optional, carry.tensor) == (True, True)  # _gradient asks, _sum loads from it
    assert weight is not None
    assert (weight.tensor, weight.strided) == (True, False)
    assert x is not None
    assert (x.strided, x.axes) == (True, (0, 1))
    assert "cost" not in entries


def test_the_written_task_of_every_form_loads() -> None:
    text = task_text(drafted(SUMMED, SAID), SUMMED)
    assert 'carry = "dw_carry", carry_call = "backward_carry"' in text
    assert "row_stride_pad" not in text
    assert all(len(line) <= 100 for line in text.splitlines() if line.startswith("#"))


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def f(:\n", "is not Python"),
        ("import torch\n\n\ndef plain(x):\n    return x\n", "other public functions: plain"),
        (
            SCALE.replace("def forward(x, weight, factor=2.0)", "def forward(*x)"),
            "plain parameters",
        ),
        (SCALE.replace("forward(x,", "forward(X,"), "cannot name 'X'"),
        (SCALE.replace("return (y,)", "return y, y"), "two outputs of one name"),
    ],
)
def test_a_file_that_cannot_be_a_seed_is_one_line(
    kernelsmith: Kernelsmith, tmp_path: Path, source: str, says: str
) -> None:
    (tmp_path / "odd.py").write_text(source)
    code, _, err = kernelsmith("tasks", "new", "odd", "--from", "odd.py")
    assert code == 2
    assert says in err
    assert [line[:6] for line in err.splitlines()] == ["error:", "hint: "]
    assert not (tmp_path / "tasks").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--arg", "forward:nobody=T[M]"], "--arg forward:nobody= fits nothing"),
        (["--arg", "x=T[m]"], "'m' in [m] is no dimension"),
        (["--arg", "x=T[M,N]@nothing"], "no recipe 'nothing'"),
        (["--arg", "x"], "has no NAME="),
        (["--output", "y=rows:T[M,N]"], "is no output"),
        (["--output", "y=sequence:T[M,N]"], "cannot be judged yet"),
        (["--output", "y=batch:T[N]:block=32"], "block and carry come together"),
        (["--path", "forward=both ways"], "is no path"),
        (["--dim", "N=big"], "no list of sizes"),
        (["--tokens", "9:2"], "no range of tokens"),
        (["--token-dim", "K"], "no argument has a dimension 'K'"),
        (["--dtype", "int8"], "cases in 'int8'"),
        (["--device", "tpu"], "is no device"),
        (["--entry", "backward"], "no public function 'backward'"),
    ],
)
def test_an_answer_that_fits_nothing_is_named(
    kernelsmith: Kernelsmith, tmp_path: Path, words: list[str], says: str
) -> None:
    code, out, err = kernelsmith("tasks", "new", "scale", "--from", "scale.py", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert not (tmp_path / "tasks").exists()


def test_nothing_is_overwritten_without_force(kernelsmith: Kernelsmith, tmp_path: Path) -> None:
    words = ("tasks", "new", "scale", "--from", "scale.py", "--to", "mine")
    assert kernelsmith(*words)[0] == 0
    (tmp_path / "mine/scale.toml").write_text("edited")
    code, _, err = kernelsmith(*words)
    assert code == 2
    assert "is there already" in err
    assert (tmp_path / "mine/scale.toml").read_text() == "edited"
    assert kernelsmith(*words, "--force")[0] == 0
    assert (tmp_path / "mine/scale.toml").read_text() != "edited"
    (tmp_path / "mine/other.py").write_text(SCALE)  # a seed that lies there already is its copy
    again = ("tasks", "new", "other", "--from", "mine/other.py", "--to", "mine")
    assert kernelsmith(*again)[0] == 0
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == [
        "other.py", "other.toml", "scale.py", "scale.toml",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["rms_norm", "Mine", "../x", "a" * 65])
def test_names_that_no_task_of_yours_can_have(kernelsmith: Kernelsmith, name: str) -> None:
    assert kernelsmith("tasks", "new", name, "--from", "scale.py")[0] == 2


def test_the_folder_of_shipped_tasks_is_not_written_to(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    shipped = next(iter(catalog.tasks().values())).path.parent
    code, _, err = kernelsmith("tasks", "new", "scale", "--from", "scale.py", "--to", str(shipped))
    assert code == 2
    assert "kernelsmith ships" in err
    assert not (shipped / "scale.toml").exists()


def test_json_says_what_was_written_and_assumed(kernelsmith: Kernelsmith) -> None:
    code, out, _ = kernelsmith("tasks", "new", "scale", "--from", "scale.py", "--json")
    shown = json.loads(out)
    assert (code, shown["schema"]) == (0, "kernelsmith.tasks_new/1")
    assert shown["files"] == {"task": "tasks/scale.toml", "seed": "tasks/scale.py"}
    assert any(line.startswith("--dim N=1024") for line in shown["assumed"])


def test_a_person_is_asked_until_the_answer_reads() -> None:
    asked: list[tuple[str, str]] = []

    def ask(question: Question, trouble: str) -> str:
        asked.append((question.flag, trouble))
        if question.flag == "--dim N=":
            return "some" if not trouble else "512"
        return question.proposal

    made = drafted(SCALE, {"--device ": "cpu"}, ask)
    assert made.sizes == {"N": (512,)}
    flags = [flag for flag, _ in asked]
    assert flags.count("--dim N=") == 2
    assert "no list of sizes" in next(trouble for _, trouble in asked if trouble)
    assert "--device " not in flags  # a flag has said it


def test_on_a_terminal_it_asks(tmp_path: Path) -> None:
    (tmp_path / "scale.py").write_text(SCALE)
    main_end, other_end = pty.openpty()
    words = ["tasks", "new", "scale", "--from", "scale.py", "--device", "cpu"]
    code = "import sys; from kernelsmith.cli.main import main; sys.exit(main(sys.argv[1:]))"
    with subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=tmp_path,
        stdin=other_end,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        os.close(other_end)
        os.write(main_end, b"\n" * 6 + b"256\n" + b"\n" * 2)
        out, _ = process.communicate(timeout=60)
    os.close(main_end)
    assert process.returncode == 0, out.decode()
    assert b"path of forward" in out
    assert "N = [256]" in (tmp_path / "tasks/scale.toml").read_text()


def test_a_walk_that_is_not_sure_asks_for_names() -> None:
    unsure = KERNEL + (
        "def forward(x, weight):\n"
        "    y = x.new_empty((x.shape[0], x.shape[1]))\n"
        "    _rows[(x.shape[0],)](x, weight, y, x.stride(0), 0, 8, 1.0, BLOCK=8)\n"
        "    if x.shape[0] > 8:\n        return (y,)\n    return (y,)\n"
    )
    with pytest.raises(InputError, match="--returns forward="):
        drafted(unsure, {"--arg weight=": "T[N]"})
    made = drafted(
        unsure,
        {"--arg weight=": "T[N]", "--returns forward=": "y", "--output y=": "row:T[M,N]"},
    )
    assert [output.name for output in made.calls[0].outputs] == ["y"]


TWICE = f"""{KERNEL}
def forward(x):
    return _run(x)


def _run(x):
    rows, cols = x.shape
    y = x.new_empty((rows, cols))
    top = x.new_empty((rows,), dtype=torch.float32)
    _rows[(rows,)](x, x, y, x.stride(0), y.stride(0), cols, 1.0, BLOCK=1024)
    return y, top
"""


@pytest.mark.parametrize(
    "text",
    [
        "return _run(x)",
        "y, top = _run(x)\n    return y, top",
        "y, top = _run(x)\n    return [y, top]",
    ],
)
def test_outputs_are_followed_through_functions_of_the_file(text: str) -> None:
    made = drafted(TWICE.replace("return _run(x)", text, 1), {"--arg x=": "T[M,N]"})
    assert [(each.name, each.shape, each.dtype) for each in made.calls[0].outputs] == [
        ("y", ("M", "N"), "T"),
        ("top", ("M",), "float32"),
    ]
