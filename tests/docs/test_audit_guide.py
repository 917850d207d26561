"""docs/guides/audit.md and the example for GitHub Actions do what they say: every block of the
guide runs, in its order, in one folder; commands end with the exit code that stands behind them."""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kernelsmith import onpolicy
from kernelsmith.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guides" / "audit.md"
EXAMPLE = ROOT / "docs" / "examples" / "audit-github-actions.yml"
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, tuple[int, str]]]:
    """The folder in which the guide was followed, and each command's exit code and what it said."""
    pytest.importorskip("transformers", reason="the extra [audit] is not installed")
    folder = tmp_path_factory.mktemp("guide")
    with contextlib.chdir(folder), pytest.warns(RuntimeWarning, match="1 of 5 tokens"):
        return folder, _follow()


def _follow() -> dict[str, tuple[int, str]]:
    said: dict[str, tuple[int, str]] = {}
    names: dict[str, Any] = {}
    for language, body in BLOCK.findall(GUIDE.read_text()):
        if language == "python":
            exec(compile(body, str(GUIDE), "exec"), names)
            continue
        for line in body.splitlines():
            command, _, expected = line.partition("  #")
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                code = main(shlex.split(command)[1:])
            assert f"exit {code}" == expected.strip(), command
            said[command.strip()] = (code, out.getvalue())
    return said


def told(followed: tuple[Path, dict[str, tuple[int, str]]], begins: str) -> str:
    return next(words for command, (_, words) in followed[1].items() if command.startswith(begins))


def test_every_command_ends_as_the_guide_says(followed: Any) -> None:
    codes = [code for code, _ in followed[1].values()]
    assert codes.count(0) >= 3
    assert codes.count(1) >= 5


def test_the_guides_dumps_show_what_it_says_of_them(followed: Any) -> None:
    folder, said = followed
    found = json.loads(said["kernelsmith audit sampler.jsonl trainer.jsonl --json"][1])
    assert (found["verdict"], found["broken_layer"], found["tokens"]) == (
        "off-policy",
        "numeric",
        3,
    )
    assert found["ratio"]["first_index"] == 6  # four of the prompt, two equal ones
    weighed = told(followed, "kernelsmith audit sampler.jsonl trainer.jsonl --remedies")
    assert re.findall(r"(\w+) +\S.*hidden: Σ", weighed) == ["recompute", "truncate", "mask"]
    assert "ratio.svg" in (names := {path.name for path in folder.iterdir()})
    assert {"audit.xml", "audit-cases"} <= names
    assert "state layer" in told(followed, "kernelsmith audit --three a.jsonl b.jsonl")


def test_the_demonstration_says_what_it_saw(followed: Any) -> None:
    """Whatever this machine's kernels do, what is printed agrees with itself and with the dumps."""
    words = told(followed, "kernelsmith audit --demo")
    alone, again = (
        re.search(rf"bfloat16 sdpa +{way} beside \S+ +(\d+ of \d+ not 1|all exactly 1)", words)
        for way in ("alone", "alone again")
    )
    assert alone is not None
    assert again is not None
    assert again[1] == "all exactly 1"  # the control
    dumps = told(followed, "kernelsmith audit demo-dumps/sampler.jsonl")
    assert dumps.splitlines()[0] == words.splitlines()[0]
    assert words.count(" beside packed") == 12


def test_the_contract_of_the_demonstrations_json() -> None:
    """On the committed document, which a run of this version wrote."""
    document = json.loads((ROOT / "benchmarks" / "results" / "audit_demo.json").read_text())
    demo = document["demo"]
    fields = {"verdict", "broken_layer", "tokens", "ratio", "device", "epoch"}
    assert fields <= demo["stock"].keys()
    assert {"not_one", "mean", "min", "max", "first_index"} <= demo["stock"]["ratio"].keys()
    assert [one["name"] for one in demo["remedies"]] == ["recompute", "truncate", "mask"]
    for one in demo["remedies"]:
        assert one["left"]["dumps_not_one"] == demo["stock"]["ratio"]["not_one"]
        assert one["hidden"].keys() == {"clipped", "clipped_fraction", "sum_abs_weight_less_one"}


def test_the_github_actions_example_fails_on_an_off_policy_step(tmp_path: Path) -> None:
    """Its audit step, run as the runner runs ``shell: bash``."""
    job = yaml.safe_load(EXAMPLE.read_text())["jobs"]["audit"]
    (step,) = (step for step in job["steps"] if step.get("id") == "audit")
    assert step["shell"] == "bash"
    kept = next(step for step in job["steps"] if step.get("if") == "failure()")["with"]["path"]
    codes = []
    for value in (-0.5, -0.25):
        for side, logprob in (("sampler", -0.5), ("trainer", value)):
            (tmp_path / f"{side}.jsonl").unlink(missing_ok=True)
            probe = onpolicy.record(tmp_path / f"{side}.jsonl", side=side)
            probe.turn("a", [logprob], tokens=[1], index=0)
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        }
        script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        codes.append(
            subprocess.run(
                script, cwd=tmp_path, env=environment, capture_output=True, check=False
            ).returncode
        )
    assert codes == [0, 1]
    summary = (tmp_path / "summary.md").read_text()
    assert summary.count("```") == 4
    assert "off-policy: the numeric layer is broken" in summary
    for name in kept.split():
        assert (tmp_path / name).exists(), name
