"""``tasks import``: a histogram of calls becomes cases and weights; bad lines are named."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelsmith import catalog
from kernelsmith.authoring import blocks, histogram
from kernelsmith.authoring.trace import Seen, read_trace
from kernelsmith.model import Task
from tests.own_kernel.kernels import SUMMED

Kernelsmith = Callable[..., tuple[int, str, str]]
RMS = catalog.load_task("rms_norm", "cpu")
INTO = ("--into", "tasks/scale.toml", "--device", "cpu")


@pytest.fixture
def folder(kernelsmith: Kernelsmith, tmp_path: Path) -> Path:
    """A folder with a task of both devices, and a way to write traces beside it."""
    assert kernelsmith("tasks", "new", "scale", "--from", "scale.py")[0] == 0
    return tmp_path / "tasks"


def line(
    call: str, tokens: int, count: int, columns: int = 1024, dtype: str = "bf16"
) -> dict[str, Any]:
    dims = {"M": tokens, "N": columns}
    return {"call": call, "dims": dims, "dtype": dtype, "count": count}


def traced(folder: Path, *lines: Any) -> str:
    path = folder.parent / "calls.jsonl"
    path.write_text("".join(f"{e if isinstance(e, str) else json.dumps(e)}\n" for e in lines))
    return str(path)


def timed(task: Task) -> dict[str, float]:
    return {case.id: case.weight for case in task.cases if case.weight > 0}


def test_counts_become_weights_and_the_rest_bits(folder: Path, kernelsmith: Kernelsmith) -> None:
    trace = traced(folder, line("infer", 16, 3000), line("train", 256, 1000), line("infer", 0, 7))
    code, out, _ = kernelsmith("tasks", "import", trace, *INTO, "--weights", "counts")
    assert code == 0
    assert "the count alone" in out
    task = catalog.load_task("scale", "cpu", [folder])
    assert timed(task) == {
        "infer.bf16.M16-N1024.normal": 0.75,
        "train.bf16.M256-N1024.normal": 0.25,
    }
    assert "infer.bf16.M0-N1024.normal" in {case.id for case in task.cases}
    assert kernelsmith("tasks", "check", "scale", "--tasks", "tasks")[0] == 0


def test_weights_of_time_count_what_a_call_moves(folder: Path, kernelsmith: Kernelsmith) -> None:
    trace = traced(folder, line("infer", 16, 1000), line("train", 256, 1000))
    code, out, _ = kernelsmith("tasks", "import", trace, *INTO)
    assert code == 0
    assert "count x the larger of bytes" in out
    weights = timed(catalog.load_task("scale", "cpu", [folder]))
    # x and y of 1024 columns and the weight, two bytes each: 33 rows against 513.
    assert weights["infer.bf16.M16-N1024.normal"] == pytest.approx(33 / (33 + 513), abs=1e-4)


def test_what_was_written_by_hand_stays_and_comes_back(
    folder: Path, kernelsmith: Kernelsmith
) -> None:
    before = (folder / "scale.toml").read_text()
    cuda = catalog.load_task("scale", "cuda", [folder])
    first = traced(folder, line("infer", 16, 30), line("train", 67, 10))
    assert kernelsmith("tasks", "import", first, *INTO)[0] == 0
    once = (folder / "scale.toml").read_text()
    assert "#~cpu weight = 0.3334" in once
    assert kernelsmith("tasks", "import", first, *INTO)[0] == 0
    assert (folder / "scale.toml").read_text() == once
    task = catalog.load_task("scale", "cpu", [folder])
    assert len(timed(task)) == 2
    # The block of the prime size had four cases; one of them is timed, three are left.
    assert sum(case.dim("M") == 67 for case in task.cases) == 4
    assert catalog.load_task("scale", "cuda", [folder]) == cuda
    second = traced(folder, line("train", 8, 10))
    assert kernelsmith("tasks", "import", second, *INTO)[0] == 0
    again = catalog.load_task("scale", "cpu", [folder])
    assert list(timed(again)) == ["train.bf16.M8-N1024.normal"]
    hand = {
        line.removeprefix("#~cpu ") for line in (folder / "scale.toml").read_text().splitlines()
    }
    assert set(before.splitlines()) <= hand


def test_sizes_that_were_seen_widen_what_a_rewrite_must_handle(
    folder: Path, kernelsmith: Kernelsmith
) -> None:
    many = [line("infer", 2**i, 99, 1000 + k) for i in range(9) for k in range(5)]
    trace = traced(folder, *many, line("infer", 900, 1, columns=512))  # too rare for a case
    code, out, _ = kernelsmith("tasks", "import", trace, *INTO, "--weights", "counts")
    assert code == 0
    assert "token_range of cpu is [0, 900] now" in out
    task = catalog.load_task("scale", "cpu", [folder])
    assert (task.token_range, dict(task.ranges)["N"][-1]) == ((0, 900), 512)
    assert not any(case.dim("M") == 900 for case in task.cases)


def test_a_device_without_cases_gets_them(kernelsmith: Kernelsmith, tmp_path: Path) -> None:
    words = ("tasks", "new", "scale", "--from", "scale.py", "--device", "cpu")
    assert kernelsmith(*words)[0] == 0
    trace = traced(tmp_path / "tasks", line("infer", 900, 5), line("train", 64, 5))
    into = ("--into", "tasks/scale.toml", "--device", "cuda")
    assert kernelsmith("tasks", "import", trace, *into)[0] == 0
    task = catalog.load_task("scale", "cuda", [tmp_path / "tasks"])
    assert (len(task.cases), task.token_range) == (2, (0, 900))
    assert kernelsmith("tasks", "import", trace, *into)[0] == 0


BAD = {
    "not json": ("nope", "not JSON"),
    "no object": ("[1]", "no JSON object"),
    "unknown key": ({**line("infer", 1, 1), "shape": []}, "unknown key 'shape'"),
    "unknown call": (line("decode", 1, 1), "no call 'decode' of scale (calls: train, infer)"),
    "count": (line("infer", 1, -3), "count -3"),
    "count of true": ({**line("infer", 1, 1), "count": True}, "count True"),
    "dtype": (line("infer", 1, 1, dtype="float128"), "no dtype 'float128'"),
    "integers": (line("infer", 1, 1, dtype="int8"), "cases in 'int8'"),
    "size": (line("infer", 1 << 30, 1), "is no size"),
    "an empty dimension": (
        line("infer", 16, 1, columns=0),
        "N of infer is 0: only M counts tokens",
    ),
    "dtypes": (line("infer", 1, 1, dtype=["bf16"]), "dtype ['bf16'] is no name of one"),
    "missing size": ({**line("infer", 1, 1), "dims": {"M": 3}}, "nothing gives N"),
    "strange size": ({**line("infer", 1, 1), "dims": {"M": 3, "N": 4, "Q": 1}}, "no dimension 'Q'"),
    "neither": ({"call": "infer", "dtype": "bf16", "count": 1}, "needs shapes or dims"),
    "both paths": (
        {"op": "forward", "shapes": [[1, 8], [8]], "dtype": "bf16", "count": 1},
        "fits train and infer",
    ),
    "ranks": (
        {"call": "infer", "shapes": [[8], [8]], "dtype": "bf16", "count": 1},
        "x of infer has 2 dimensions",
    ),
    "sizes that differ": (
        {"call": "infer", "shapes": [[1, 8], [9]], "dtype": "bf16", "count": 1},
        "N is 8 and 9",
    ),
    "other tensors": (
        {"call": "infer", "shapes": {"x": [1, 8]}, "dtype": "bf16", "count": 1},
        "infer takes x, weight",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_named_by_its_number_and_nothing_is_imported(
    folder: Path, kernelsmith: Kernelsmith, name: str
) -> None:
    bad, says = BAD[name]
    before = (folder / "scale.toml").read_bytes()
    trace = traced(folder, line("infer", 16, 5), "", bad)
    code, out, err = kernelsmith("tasks", "import", trace, *INTO)
    assert (code, out) == (2, "")
    assert "calls.jsonl has 1 bad line: line 3: " in err
    assert says in err
    assert (folder / "scale.toml").read_bytes() == before
    code, out, _ = kernelsmith("tasks", "import", trace, *INTO, "--skip-bad")
    assert code == 0
    assert "left out line 3: " in out


def test_lines_of_any_length_are_numbered_right(folder: Path, kernelsmith: Kernelsmith) -> None:
    trace = traced(folder, line("infer", 16, 5), "x" * 300_000, "[" * 60_000, line("infer", -1, 5))
    code, _, err = kernelsmith("tasks", "import", trace, *INTO)
    assert code == 2
    assert "line 2: longer than 65536 bytes; line 3: not JSON; line 4: -1 is no size" in err


def test_a_dry_run_writes_nothing(folder: Path, kernelsmith: Kernelsmith) -> None:
    before = (folder / "scale.toml").read_bytes()
    trace = traced(folder, line("infer", 16, 5))
    code, out, _ = kernelsmith("tasks", "import", trace, *INTO, "--dry-run", "--json")
    shown = json.loads(out)
    assert (code, shown["written"], shown["timed"][0]["weight"]) == (0, False, 1.0)
    assert (folder / "scale.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("gone.jsonl", *INTO), "cannot read gone.jsonl"),
        (("scale.py", "--into", "gone.toml"), "no task file gone.toml"),
        (("scale.py", *INTO, "--weights", "mine"), "--weights is 'mine'"),
        (("tasks/empty", *INTO), "no call to import"),
    ],
)
def test_what_cannot_be_imported_is_one_line(
    folder: Path, kernelsmith: Kernelsmith, words: tuple[str, ...], says: str
) -> None:
    (folder / "empty").write_text("\n\n")
    code, _, err = kernelsmith("tasks", "import", *words)
    assert code == 2
    assert says in err
    assert "Traceback" not in err


def test_cases_that_are_not_tables_of_their_own_are_left_alone(
    folder: Path, kernelsmith: Kernelsmith
) -> None:
    path = folder / "scale.toml"
    text, _, _ = path.read_text().partition("[[devices.cpu.cases]]")
    inline = (
        'cases = [{ calls = ["train"], dtypes = ["bfloat16"], dims = { M = 1, N = 1024 }, '
        'regimes = ["normal"], weight = 1.0 }]\n'
    )
    path.write_text(text + inline)
    code, _, err = kernelsmith("tasks", "import", traced(folder, line("train", 2, 5)), *INTO)
    assert code == 2
    assert "header" in err
    assert path.read_text() == text + inline


def seen(call: str, tokens: int, count: int) -> Seen:
    return Seen(call=call, dtype="bfloat16", dims=(("M", tokens), ("N", 1024)), count=count)


def test_shapes_tell_forms_apart_and_the_form_without_a_carry_is_meant() -> None:
    def fits(name: str, *shapes: Any) -> str:
        text = json.dumps({"op": name, "shapes": shapes, "dtype": "bfloat16", "count": 1})
        found, bad = read_trace([text.encode()], RMS)
        return found[0].call if found else bad[0].why

    wide, row = [4, 128], [128]
    assert fits("forward_train", wide, row) == "train"
    assert fits("norms.forward_train", wide, row, wide) == "residual_train"
    assert fits("forward_infer", wide, row, None) == "infer"
    assert fits("backward", wide, wide, row, [4], None, row) == "backward_carry"
    assert fits("backward", wide, wide, row, [4], None, None) == "backward"


def test_the_form_that_goes_on_with_a_sum_is_not_meant_by_sizes_alone(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    (tmp_path / "summed.py").write_text(SUMMED)
    said = ["--arg", "weight=T[N]", "--arg", "bias=none"]
    said += ["--output", "dw=batch:float32[N]:block=32:carry=dw_carry"]
    said += ["--arg", "dw_carry=float32[N]?"]
    assert kernelsmith("tasks", "new", "summed", "--from", "summed.py", *said)[0] == 0
    task = catalog.load_task("summed", "cpu", [tmp_path / "tasks"])
    text = json.dumps({**line("", 8, 1), "op": "backward"}).replace('"call": "", ', "")
    (found,), bad = read_trace([text.encode()], task)
    assert (found.call, bad) == ("backward", [])


def test_nearby_token_counts_join_the_heavier() -> None:
    plan = histogram.plan(
        [
            seen("infer", 100, 10),
            seen("infer", 125, 3),
            seen("infer", 126, 2),
            seen("train", 100, 1),
        ],
        RMS,
        "counts",
    )
    assert [(group.seen.dims[0][1], group.seen.count, share) for group, share in plan.timed] == [
        (100, 13, 0.8125),
        (126, 2, 0.125),
        (100, 1, 0.0625),
    ]


def test_the_heaviest_twelve_are_timed_the_next_are_bits_the_last_are_left_out() -> None:
    trace = [seen("infer", 2**i, 1000 - i) for i in range(8)]
    trace += [replace(one, call="train") for one in trace]
    trace += [replace(one, dtype="float32") for one in trace]
    trace += [replace(one, dims=(("M", one.dims[0][1]), ("N", 128))) for one in trace]
    plan = histogram.plan(trace, RMS, "counts")
    assert (len(plan.timed), len(plan.bits_only), plan.left_out) == (12, 24, 64 - 36)
    assert (
        "the heaviest 12 are timed (at most 12, no empty batch): 18.8% of the weight" in plan.rules
    )


@given(st.lists(st.floats(min_value=1e-9, max_value=1e18), min_size=1, max_size=12))
def test_shares_are_positive_and_sum_to_one(weights: list[float]) -> None:
    shares = blocks.shares(weights, histogram.LEAST_SHARE_STEPS)
    assert min(shares) >= 0.001
    assert abs(math.fsum(shares) - 1.0) <= 1e-9


def test_what_would_make_every_verdict_take_hours_is_told(
    folder: Path, kernelsmith: Kernelsmith
) -> None:
    trace = traced(folder, line("infer", 1 << 22, 9), line("train", 64, 5))
    code, out, _ = kernelsmith("tasks", "import", trace, *INTO)
    assert code == 0
    assert "warning: cpu: token_range [0, 4194304] holds 4,194,305 counts" in out
    assert "has tensors of 17.2 GB, and the gate holds several copies" in out
    _, out, _ = kernelsmith("tasks", "check", "scale", "--tasks", "tasks")
    assert out.count("warning: cpu: token_range") == out.count("warning: cpu: case infer") == 1
    code, out, _ = kernelsmith("tasks", "import", traced(folder, line("infer", 3, 1)), *INTO)
    assert "1 call of 1 kind;" in out
    assert "the heaviest 1 is timed" in out
