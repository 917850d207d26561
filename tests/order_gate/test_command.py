"""``kernelsmith order``: what it prints, draws and exits with."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kernelsmith.cli.main import main
from tests.order_gate import planted

ROOT = Path(__file__).parents[2]
CPU = """
[devices.cpu]
num_programs = 4
token_range = [0, 40]

[[devices.cpu.cases]]
calls = ["train", "infer"]
dtypes = ["bfloat16"]
dims = { M = 33, N = 96, K = 128 }
regimes = ["cancel"]
weight = 0.5
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of tasks with a short ``linear``, its seed and two rewrites beside it."""
    made = tmp_path_factory.mktemp("tasks")
    text = (ROOT / "tasks/linear.toml").read_text()
    calls, _, _ = text.partition("[devices.cpu]")
    (made / "linear.toml").write_text(calls + CPU)
    seed = (ROOT / "seed_kernels/linear.py").read_text()
    (made / "linear.py").write_text(seed)
    (made / "tiles.py").write_text(planted.tiles(seed, 32))
    (made / "backwards.py").write_text(planted.backwards(seed))
    return made


def order(folder: Path, file: str, *more: str) -> int:
    where = ("--task", "linear", "--tasks", str(folder), "--reduction", "y_over_k")
    return main(["order", str(folder / file), *where, *more])


def test_another_tile_has_the_seeds_order(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert order(folder, "tiles.py", "--svg", str(tmp_path / "o.svg")) == 0
    out = capsys.readouterr().out
    assert "tiles.py beside the seed, task linear, on cpu, epoch " in out
    assert "✓ y_over_k (bfloat16), case " in out
    assert "the seed's tree: 128 units, one after another" in out
    root = ElementTree.parse(tmp_path / "o.svg").getroot()
    assert root.tag.endswith("svg")
    assert len(root) == 1


def test_a_drawing_that_can_have_no_place_is_refused_before_anything_is_probed(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert order(folder, "no-such.py", "--svg", str(tmp_path / "missing" / "o.svg")) == 2
    assert "missing is no folder" in capsys.readouterr().err


def test_another_order_exits_with_1_and_says_where(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert order(folder, "backwards.py", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["equal"]) == ("kernelsmith.order/1", False)
    (one,) = found["sums"]
    assert (one["reduction"], one["dtype"], one["units"]) == ("y_over_k", "bfloat16", 128)
    assert "units 0 and 1 meet" in one["sentence"]
    assert one["here"]["found"] == one["there"]["found"] == "revealed"
    assert one["here"]["digest"] != one["there"]["digest"]
    assert one["there"]["tree"].startswith("((((")


def test_two_files_are_compared_with_one_another(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert order(folder, "backwards.py", "--against", str(folder / "backwards.py")) == 0
    assert "backwards.py beside backwards.py" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--task", "linear", "--reduction", "x"], "declares no reduction 'x'"),
        (["--task", "swiglu"], "task swiglu says that nothing is summed"),
        (["--task", "linear", "--against", "missing.py"], "cannot read missing.py"),
    ],
)
def test_what_cannot_be_found_is_said_in_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["order", str(ROOT / "seed_kernels/linear.py"), *arguments]) == 2
    told = capsys.readouterr().err.splitlines()
    assert says in told[0]
    assert told[1].startswith("hint: ")
