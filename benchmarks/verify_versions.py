"""What ``kernelsmith verify`` says of one library under several Triton versions.

    python benchmarks/verify_versions.py DIR [PYTHON ...]

DIR: an exported library. Each PYTHON has its own Triton beside kernelsmith; the running one is
always included. In each the library is verified as it is, and once more with a float constant of
one kernel flipped. Writes ``benchmarks/results/verify_versions.json``; exits 1 if a winner does
not equal its seed in one of them, or if a flipped constant gets through.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "verify_versions.json"
CONSOLE = "import sys; from kernelsmith.cli.main import main; sys.exit(main())"
SHOWN = 3  # drifts of a kind


def verify(python: str, folder: Path) -> dict[str, Any]:
    """What it says in this interpreter: exit code, both facts of each op, its drifts."""
    done = subprocess.run(
        [python, "-c", CONSOLE, "verify", str(folder), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{python}: verify ended with {done.returncode}:\n{done.stderr}")
    document: dict[str, Any] = json.loads(done.stdout)
    return {"exit": done.returncode, "kernels": [brief(each) for each in document["kernels"]]}


def brief(kernel: dict[str, Any]) -> dict[str, Any]:
    """An op's findings with its cases counted and few drifts of each kind."""
    kept: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    for drift in kernel["drifts"]:
        counts[drift["kind"]] += 1
        if counts[drift["kind"]] <= SHOWN:
            kept.append({name: value for name, value in drift.items() if value})
    compared = [case for case in kernel["cases"] if case["equals_seed_here"] is not None]
    names = ("op", "epoch", "candidate", "device", "equals_seed_here", "matches_certificate")
    return {
        **{name: kernel[name] for name in names},
        "cases": len(kernel["cases"]),
        "cases_compared": len(compared),
        "cases_equal": sum(case["equals_seed_here"] for case in compared),
        "drifts": dict(counts),
        "first_drifts": kept,
    }


def flip(folder: Path) -> str:
    """Changes the first float constant of the first kernel's jit bodies; says which and how."""
    index = json.loads((folder / "library.json").read_text())
    for op, entry in sorted(index["ops"].items()):
        path = folder / op / entry["current"] / "kernel.py"
        lines = path.read_text().splitlines(keepends=True)
        for number, line in enumerate(lines):
            if "tl." in line and (found := re.search(r"(?<![\w.])1\.0(?![\w.])", line)):
                lines[number] = line[: found.start()] + "1.0000001" + line[found.end() :]
                path.write_text("".join(lines))
                return f"{op}, kernel.py, line {number + 1}: 1.0 -> 1.0000001"
    raise SystemExit(f"no kernel of {folder} has a constant to flip")


def versions(python: str) -> dict[str, str]:
    """Of what decides there."""
    code = (
        "import json; from importlib import metadata as m;"
        "print(json.dumps({n: m.version(n) for n in ('triton', 'torch', 'llvmlite', 'numpy')}))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def main(arguments: list[str]) -> int:
    """Returns the exit status."""
    if not arguments:
        print(__doc__)
        return 2
    folder = Path(arguments[0])
    reports = []
    with tempfile.TemporaryDirectory() as place:
        flipped = Path(place) / folder.resolve().name
        shutil.copytree(folder, flipped)
        what = flip(flipped)
        for python in dict.fromkeys((sys.executable, *arguments[1:])):
            report = {
                "versions": versions(python),
                "as_exported": verify(python, folder),
                "flipped": verify(python, flipped),
            }
            reports.append(report)
            ends = report["as_exported"]["exit"], report["flipped"]["exit"]
            print(f"Triton {report['versions']['triton']}: exit {ends[0]}, flipped: exit {ends[1]}")
    document = {"schema": "kernelsmith/verify-versions/1", "flipped": what, "reports": reports}
    RESULT.write_text(json.dumps(document, indent=1) + "\n")
    good = all((each["as_exported"]["exit"], each["flipped"]["exit"]) == (0, 1) for each in reports)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
