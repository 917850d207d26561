"""Several winners as one module: what is shared, what is renamed, who runs for which shape."""

import ast
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from kernelsmith.errors import InputError  # noqa: E402
from kernelsmith.gate import policy  # noqa: E402
from kernelsmith.library import merge_parts  # noqa: E402
from kernelsmith.library.merge import Winner, merge  # noqa: E402
from kernelsmith.library.merge_choice import boundary  # noqa: E402
from kernelsmith.model import Task  # noqa: E402
from tests.merge.played import edited, played, task, winner  # noqa: E402

RMS, LINEAR = task("rms_norm"), task("linear")


def calls(source: str, entry: str, **given: object) -> str:
    """The function that an entry's dispatch calls, found by running its text on stand-ins."""

    class Shaped:
        def __init__(self, *shape: int) -> None:
            self.shape, self.dtype = shape, "bfloat16"

    node = next(
        each
        for each in ast.parse(source).body
        if isinstance(each, ast.FunctionDef) and each.name == entry
    )
    names = {ast.unparse(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
    found: dict[str, object] = {name: (lambda *_, name=name: name) for name in names}
    found["torch"] = type("torch", (), {"bfloat16": "bfloat16", "float32": "float32"})
    exec(compile(ast.Module([node], []), "merged", "exec"), found)
    values = {k: Shaped(*v) if isinstance(v, tuple) else v for k, v in given.items()}
    return str(found[entry](**values))  # type: ignore[operator]


def rms_pair() -> tuple[Winner, Winner]:
    """The second is faster on decode rows and on the plain forms, the first on training's."""
    first = played("rms_norm")
    second = edited(first, "rows = 4 if n_cols > 256 else 1", "rows = 2 if n_cols > 256 else 8")
    return (
        winner(RMS, first, 1.2),
        winner(RMS, second, 1.1, infer=1.4, train=1.3),
    )


def test_each_timed_case_goes_to_the_winner_that_was_fastest_on_it() -> None:
    first, second = rms_pair()
    made = merge(RMS, (first, second))
    assert made.same_as is None
    assert made.used == (first.id, second.id)
    assert policy.check(made.source, RMS.entries) == []
    fastest = dict(made.fastest)
    for case in RMS.cases:
        if case.weight > 0:
            own = second if case.call in ("infer", "train") else first
            assert fastest[case.id] == own.id
            if case.call in ("infer", "train", "residual_infer", "residual_train"):
                entry = RMS.call(case.call).entry
                shape = (case.dim("M"), case.dim("N"))
                residual = shape if case.call.startswith("residual") else None
                called = calls(
                    made.source, entry, x=shape, weight=(shape[1],), eps=1e-6, residual=residual
                )
                assert called == f"{entry}_{own.id[:6]}"


def test_what_is_the_same_program_is_there_once_and_keeps_its_name() -> None:
    made = merge(RMS, rms_pair())
    names = list(merge_parts.read(made.source).parts)
    kernels = ["_forward", "_forward_tile", "_backward_input", "_backward_weight_blocks"]
    assert [name for name in names if not name.startswith(("forward", "_launch"))] == [
        *kernels,
        "_backward_weight_sum",
        "backward",
    ]
    launchers = {name for name in names if name.startswith("_launch_forward")}
    assert launchers == {f"_launch_forward_{each[:6]}" for each in made.used}


def test_equal_arguments_give_equal_bytes_and_comments_stay() -> None:
    first, second = rms_pair()
    marked = replace(second, source=edited(second.source, "def _launch", "# why\ndef _launch"))
    made = merge(RMS, (first, marked))
    assert made.source == merge(RMS, (first, marked)).source
    assert f"# why\ndef _launch_forward_{second.id[:6]}" in made.source
    assert "def _launch_forward_" in made.source


def test_entries_of_linear_split_by_rows_between_the_timed_sizes() -> None:
    first = played("linear")
    second = edited(first, "num_stages=", "num_ctas=1,\n        num_stages=")
    rows = sorted(
        {case.dim("M") for case in LINEAR.cases if case.weight > 0 and "infer" in case.call}
    )
    low, high = rows[0], rows[-1]
    slow = winner(LINEAR, first, 1.2)
    gains = {
        case.id: 1.5 if case.dim("M") == low and "infer" in case.call else 1.0
        for case in LINEAR.cases
        if case.weight > 0
    }
    few = Winner(id="f" * 16, source=second, gains=gains, overall=1.1)
    made = merge(LINEAR, (slow, few))
    assert policy.check(made.source, LINEAR.entries) == []
    edge = boundary(low, rows[1])
    assert f"if x.shape[0] <= {edge}:\n        return forward_infer_ffffff(" in made.source
    for size, name in ((edge, "ffffff"), (edge + 1, slow.id[:6]), (high, slow.id[:6])):
        called = calls(made.source, "forward_infer", x=(size, 64), weight=(64, 64), bias=None)
        assert called == f"forward_infer_{name}"


def test_a_winner_that_is_best_everywhere_is_all_there_is() -> None:
    first, second = rms_pair()
    best = replace(first, gains=dict.fromkeys(first.gains, 2.0))
    made = merge(RMS, (best, second))
    assert (made.same_as, made.source) == (best.id, best.source)


def test_the_same_program_in_other_words_is_no_merge() -> None:
    first, _ = rms_pair()
    spaced = winner(RMS, first.source.replace("Rows that fit", "The rows that fit"), 1.3)
    assert merge(RMS, (first, spaced)).same_as == first.id


def test_a_preferred_winner_takes_what_is_within_the_smallest_gain() -> None:
    first, second = rms_pair()
    near = replace(second, gains={name: gain * 1.005 for name, gain in first.gains.items()})
    assert merge(RMS, (first, near), prefer=first.id).same_as == first.id
    assert merge(RMS, (first, near), prefer=near.id).same_as == near.id
    for best in (first, near):  # by default the one that gains most overall
        others = [replace(each, overall=1.0 + (each.id == best.id)) for each in (first, near)]
        assert merge(RMS, others).same_as == best.id


def test_an_entry_that_no_case_times_is_the_best_ones_overall() -> None:
    first, second = rms_pair()
    changed = edited(
        second.source, "n_blocks = triton.cdiv(n_rows, 32)", "n_blocks = (n_rows + 31) // 32"
    )
    untimed: Task = replace(
        RMS,
        cases=tuple(
            replace(case, weight=0.0) if "backward" in case.call else case for case in RMS.cases
        ),
    )
    other = replace(second, source=changed)
    made = merge(untimed, (first, other))
    assert "n_blocks = triton.cdiv(n_rows, 32)" in made.source
    made = merge(untimed, (replace(first, overall=1.0), other))
    assert "n_blocks = (n_rows + 31) // 32" in made.source
    assert "n_blocks = triton.cdiv(n_rows, 32)" not in made.source


def test_a_name_that_is_anothers_local_or_vetted_function_is_renamed() -> None:
    first, second = rms_pair()
    source = edited(second.source, "_launch_forward", "rounded_up")
    taken = edited(first.source, "residual_stride", "rounded_up")
    made = merge(RMS, (replace(first, source=taken), replace(second, source=source)))
    assert policy.check(made.source, RMS.entries) == []
    assert f"def rounded_up_{second.id[:6]}(" in made.source


def test_without_a_case_in_common_there_is_nothing_to_compare() -> None:
    first, second = rms_pair()
    with pytest.raises(InputError, match="no case of the task was timed for all of them"):
        merge(RMS, (first, replace(second, gains={})))
