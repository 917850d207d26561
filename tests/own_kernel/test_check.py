"""``tasks check``: everything that is missing or unsound, at once, with what to do about it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelsmith import catalog
from kernelsmith.authoring.checks import check
from tests.own_kernel.kernels import SCALE, SUMMED, WILD

Kernelsmith = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(kernelsmith: Kernelsmith, tmp_path: Path) -> Path:
    """A folder with a sound task."""
    words = ("tasks", "new", "scale", "--from", "scale.py", "--device", "cpu")
    assert kernelsmith(*words)[0] == 0
    return tmp_path / "tasks"


def changed(folder: Path, *pairs: tuple[str, str], every: bool = False) -> list[tuple[str, str]]:
    """(level, message) of what is said of the task after these replacements."""
    path = folder / "scale.toml"
    text = path.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new) if every else text.replace(old, new, 1)
    path.write_text(text)
    found = check("scale", [folder])
    assert all(each.hint for each in found if each.level != "ok")
    return [(each.level, each.message) for each in found if each.level != "ok"]


AGAIN = """[[calls]]
name = "again"
variant = "plain"
entry = "again"
path = "train"
args = [{ name = "x", kind = "none" }]
outputs = [{ name = "y", class = "row", shape = ["M"], dtype = "T" }]

[[calls]]
name = "train"
"""
TIMED = ("weight = 0.3334", "weight = 0.0")
BROKEN = {
    "form: output class": (
        [('class = "row", ', "")],
        "call train, output y does not say its class",
    ),
    "form: class": (
        [('class = "row"', 'class = "rows"')],
        "call train, output y has class = 'rows'",
    ),
    "form: key": ([("regimes =", "regime =")], "device cpu, block 1 of cases"),
    "form: nothing": ([('path = "train"\n', "")], "call train does not say its path"),
    "form: toml": ([("[limits]", "[limits")], "is not TOML"),
    "no weight": (
        [("weight = 0.3334", ""), ("weight = 0.3333", ""), ("weight = 0.3333", "")],
        "cpu: no case is timed",
    ),
    "weights": ([TIMED], "sum to 0.6666, not to 1"),
    "many timed": (
        [("dims = { M = 257,", "dims = { M = [%s],")],
        "14 timed cases, 12 are the most",
    ),
    "entry without a call": (
        [('entries = ["forward"]', 'entries = ["forward", "backward"]')],
        "entry backward has no call",
    ),
    "entry without a case": (
        [
            ('entries = ["forward"]', 'entries = ["forward", "again"]'),
            ('[[calls]]\nname = "train"\n', AGAIN),
        ],
        "cpu: entry again has no case",
    ),
    "entry that is none": (
        [('entries = ["forward"]', 'entries = ["forward", "backward"]')],
        "entry backward: seed scale.py has no public function",
    ),
    "class sequence": ([('class = "row"', 'class = "sequence"')], "cannot judge yet"),
    "rows in the second place": (
        [('class = "row", shape = ["M", "N"]', 'class = "row", shape = ["N", "M"]')],
        "its first dimension is not M",
    ),
    "no training": ([('path = "train"', 'path = "infer"')], "no training call with a row output"),
    "range": ([("token_range = [0, 300]", "token_range = [300, 0]")], "token_range"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_a_run_would_fail_on_is_an_error(folder: Path, name: str) -> None:
    pairs, says = BROKEN[name]
    sizes = ", ".join(str(size) for size in range(257, 269))
    found = changed(folder, *[(old, new % sizes if "%s" in new else new) for old, new in pairs])
    assert [message for level, message in found if level == "error" and says in message], found


def test_all_of_it_is_said_at_once(folder: Path) -> None:
    found = changed(
        folder,
        ('entries = ["forward"]', 'entries = ["forward", "backward"]'),
        TIMED,
        ('class = "row"', 'class = "sequence"'),
    )
    assert len([level for level, _ in found if level == "error"]) >= 3


def test_a_kernel_on_one_path_only_would_start_no_run(kernelsmith: Kernelsmith) -> None:
    words = ["tasks", "new", "scale", "--from", "scale.py", "--path", "forward=train"]
    code, out, _ = kernelsmith(*words)
    assert code == 0
    assert "error: cpu: no case on the path infer: a run would not start" in out


def test_outputs_that_no_training_call_shares_are_a_warning(folder: Path) -> None:
    found = changed(folder, ('variant = "plain"', 'variant = "other"'))
    assert [level for level, message in found if "no row output of inference (y)" in message] == [
        "warning"
    ]


def test_only_bell_shaped_values_are_a_warning(folder: Path) -> None:
    text = (folder / "scale.toml").read_text()
    regimes = '["absorb", "ties", "logspace", "pairs", "constant", "special", "huge", "tiny"]'
    text = text.replace(regimes, '["normal"]').replace('["cancel"]', '["normal"]')
    text = text.replace("131, 200, 257]", "131, 200]").replace("7, 16, 33", "7, 33")
    (folder / "scale.toml").write_text(text)
    found = check("scale", [folder])
    assert [each.message for each in found if each.level == "error"] == []
    assert sum("only drawn in the regime normal" in each.message for each in found) == 2


def test_a_sum_over_tokens_without_block_and_carry_is_a_warning(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    source = SUMMED.replace("dw_carry", "start").replace(
        "dx = torch.empty_like(dy)", "dx = torch.empty_like(dy)\n    assert x.stride(0) > 0"
    )
    (tmp_path / "summed.py").write_text(source)
    said = ["--arg", "weight=T[N]", "--arg", "bias=T[N]?", "--arg", "start=float32[N]?"]
    code, out, _ = kernelsmith("tasks", "new", "summed", "--from", "summed.py", *said)
    assert code == 0
    assert "output dw is summed over the batch and has no block and carry" in out
    code, out, _ = kernelsmith("tasks", "check", "summed", "--tasks", "tasks")
    assert code == 0  # a warning: the gate lists it as not checked
    assert "carry_call" in out


def test_the_seed_is_held_against_the_language_with_what_to_use_instead(
    folder: Path, kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    (tmp_path / "wild.py").write_text(WILD)
    assert kernelsmith("tasks", "new", "wild", "--from", "wild.py", "--arg", "y=T[M,N]")[0] == 0
    code, out, err = kernelsmith("tasks", "check", "wild", "scale", "--tasks", "tasks")
    assert code == 2
    lines = [line for line in out.splitlines() if line.startswith("wild: error: seed wild.py")]
    for word in (
        "import os",
        "triton.autotune",
        "tl.device_print",
        "torch.zeros",
        ".close()",
    ):
        assert any(word in line and "(hint: " in line for line in lines), word
    assert "allocate with x.new_empty(...)" in out
    assert "scale: ok: cpu" in out
    assert err.startswith("error: 1 task(s) with errors: wild")


def test_an_entry_that_reads_no_stride_is_an_error(folder: Path) -> None:
    (folder / "scale.py").write_text(SCALE.replace("x.stride(0)", "x.size(1)"))
    (found,) = [each for each in check("scale", [folder]) if each.level != "ok"]
    assert (found.level, found.message[:34]) == ("error", "entry forward reads no stride of x")


def test_functions_that_launch_and_are_no_entries_are_named(folder: Path) -> None:
    (folder / "scale.py").write_text(
        SCALE + SCALE[SCALE.index("def forward") :].replace("def forward", "def again")
    )
    (found,) = [each for each in check("scale", [folder]) if each.level != "ok"]
    assert found.message.startswith("again of seed scale.py launches kernels")


def test_integers_drawn_as_floats_are_a_warning(folder: Path) -> None:
    found = changed(
        folder, ('dtype = "T", recipe = "vector"', 'dtype = "int64", recipe = "vector"')
    )
    assert any("holds integers" in message for _, message in found)
    found = changed(folder, ('recipe = "vector"', 'recipe = "zeros"'))
    assert any("weight is zero everywhere" in message for _, message in found)


def test_json_lists_every_finding(folder: Path, kernelsmith: Kernelsmith) -> None:
    changed(folder, TIMED)
    code, out, _ = kernelsmith("tasks", "check", "scale", "--tasks", "tasks", "--json")
    shown = json.loads(out)
    assert (code, shown["ok"]) == (2, False)
    assert {each["level"] for each in shown["tasks"][0]["findings"]} == {"error"}


@pytest.mark.parametrize("name", sorted(catalog.tasks()))
def test_shipped_tasks_are_sound(name: str) -> None:
    assert [each.message for each in check(name) if each.level != "ok"] == []


def test_recipes_that_do_not_go_together_are_an_error(folder: Path) -> None:
    found = changed(folder, ('recipe = "token"', 'recipe = "norm_gradient"'))
    assert any(
        level == "error" and "its inputs cannot be drawn" in message for level, message in found
    )


def test_orders_and_roundings_that_a_seed_leaves_open_are_named_once_each(folder: Path) -> None:
    path = folder / "scale.py"
    text = path.read_text()
    old = "    y = x * w * factor\n"
    assert old in text
    path.write_text(text.replace(old, f"    w = w / tl.sqrt(tl.sum(x, axis=0)) / x.sum()\n{old}"))
    found = changed(folder)
    line = 1 + text[: text.index(old)].count("\n")
    assert [message.partition("` ")[0] for _, message in found] == [
        f"seed scale.py, line {line}: `{kind}" for kind in ("tl.sum", ".sum", "/", "tl.sqrt")
    ]
    assert {level for level, _ in found} == {"warning"}


@pytest.mark.parametrize("name", ["rms_norm", "linear", "swiglu", "logprob"])
def test_the_shipped_seeds_leave_nothing_open(name: str) -> None:
    assert not [each for each in check(name) if "compiler" in each.message]
