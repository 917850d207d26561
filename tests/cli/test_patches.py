"""``diff`` is a patch: real ``git apply`` makes the candidate of the seed, byte for byte."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from kernelsmith.cli.patches import SHIPPED_SEEDS, patch, seed_path
from tests.cli.asking import Kernelsmith, run_of

PROGRAM = [sys.executable, str(Path(__file__).parents[1] / "loop" / "fake_wiring.py")]
ODD_LINES = (
    *("a", "b", "", " ", "x\r", "\f", "ü", "\x1b[31m", "\t"),
    *("--- a/x", "+++ b", "@@ -1 +1 @@", "\\ No newline at end of file", "diff --git a b", "-- y"),
)


def applied(folder: Path, text: bytes) -> None:
    subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=text, cwd=folder, check=True)


def test_git_makes_every_new_text_of_every_old_one(tmp_path: Path) -> None:
    draw = random.Random(1)

    def text() -> str:
        lines = [draw.choice(ODD_LINES) for _ in range(draw.choice((0, 1, 2, 5, 12)))]
        return "\n".join(lines) + draw.choice(("", "\n"))

    def changed(old: str) -> str:
        lines = [line + draw.choice(("", "", "!")) for line in old.split("\n")]
        return "\n".join(lines) + draw.choice(("", "", "\n"))

    olds = [text() for _ in range(200)]
    pairs = [(old, text() if draw.random() < 0.4 else changed(old)) for old in olds]
    for number, (old, _) in enumerate(pairs):
        (tmp_path / f"f{number}.py").write_bytes(old.encode())
    patches = [patch(old, new, f"f{number}.py") for number, (old, new) in enumerate(pairs)]
    applied(tmp_path, "".join(patches).encode())
    found = [(tmp_path / f"f{number}.py").read_bytes() for number in range(len(pairs))]
    assert found == [new.encode() for _, new in pairs]


def test_a_patch_names_the_seeds_file_whatever_it_is_called() -> None:
    def path(name: str, task: str, folder: str = SHIPPED_SEEDS) -> str:
        return seed_path(name, task, Path(folder), Path("/home/me/repo"))

    assert path("rms_norm.py", "rms_norm") == "seed_kernels/rms_norm.py"
    assert path("mine/kernel.py", "toy") == "seed_kernels/mine/kernel.py"
    assert path("my kernel\n.py", "toy") == "seed_kernels/toy.py"
    # A task of one's own: where its file lies for whoever stands in the repository.
    assert path("toy.py", "toy", "/home/me/repo/ops/tasks") == "ops/tasks/toy.py"
    assert path("toy.py", "toy", "/home/me/repo") == "toy.py"
    assert path("toy.py", "toy", "/elsewhere/tasks") == "tasks/toy.py"
    assert path("toy.py", "toy", "/elsewhere/my tasks") == "seed_kernels/toy.py"
    assert patch("same\n", "same\n", "x.py") == ""


@pytest.mark.parametrize("seed", ["# the seed\nend", "# the seed\r\n\f# \x1b[31m ü\nend\n"])
@pytest.mark.parametrize("coding", ["utf-8", "ascii"])
def test_what_the_command_says_into_a_pipe_applies(
    kernelsmith: Kernelsmith,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: str,
    coding: str,
) -> None:
    monkeypatch.setenv("KS_SEED_SOURCE", seed)
    winner = run_of(kernelsmith)["tasks"][0]["incumbent"]
    monkeypatch.setenv("PYTHONIOENCODING", coding)
    done = subprocess.run([*PROGRAM, "diff", winner], cwd=tmp_path, capture_output=True, check=True)
    file = tmp_path / "seed_kernels" / "toy.py"
    file.parent.mkdir()
    file.write_bytes(seed.encode())
    applied(tmp_path, done.stdout)
    _, out, _ = kernelsmith("show", winner, "--json")
    assert file.read_bytes() == json.loads(out)["source"].encode()


def test_against_the_parent_it_applies_to_the_parent(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    winner = run_of(kernelsmith)["tasks"][0]["incumbent"]
    _, out, _ = kernelsmith("show", winner, "--json")
    shown = json.loads(out)
    _, out, _ = kernelsmith("show", shown["parents"][0]["candidate"], "--json")
    file = tmp_path / "seed_kernels" / "toy.py"
    file.parent.mkdir()
    file.write_text(json.loads(out)["source"])
    _, out, _ = kernelsmith("diff", winner, "--against", "parent")
    applied(tmp_path, out.encode())
    assert file.read_text() == shown["source"]
