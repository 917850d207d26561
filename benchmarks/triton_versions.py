"""Same bits under every Triton version: runs the digest set in each interpreter given.

    python benchmarks/triton_versions.py [PYTHON ...]

Each PYTHON has its own Triton beside torch, llvmlite and kernelsmith; the running one is always
included. Writes ``benchmarks/results/triton_versions.json`` and exits 1 if any digest differs
between interpreters, program orders or thread counts.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "triton_versions.json"
SETTINGS = (("ascending", 1), ("ascending", 2), ("descending", 1), ("shuffled:7", 1))


def run_here() -> dict[str, Any]:
    """Digests of every case, by setting, in this process."""
    import torch
    import triton
    from version_kernels import cases

    from kernelsmith.devices.cpu import activated
    from kernelsmith.devices.cpu.epoch import describe

    digests: dict[str, dict[str, str]] = {}
    for order, threads in SETTINGS:
        with activated(order=order, threads=threads):
            digests[f"{order}, {threads} threads"] = {name: run() for name, run in cases()}
    return {
        "triton": triton.__version__,
        "torch": torch.__version__,
        "device": describe(),
        "digests": digests,
    }


def run_in(python: str) -> dict[str, Any]:
    """The same in another interpreter, with a Triton cache of its own."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [python, __file__, "--here"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "TRITON_CACHE_DIR": cache},
        )
    if done.returncode != 0:
        raise SystemExit(f"{python} failed:\n{done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def main(arguments: list[str]) -> int:
    """Returns the exit status."""
    if arguments == ["--here"]:
        print(json.dumps(run_here()))
        return 0
    reports = [run_in(python) for python in dict.fromkeys((sys.executable, *arguments))]
    wanted = next(iter(reports[0]["digests"].values()))
    differ = [
        f"triton {report['triton']}, {setting}: {name} is {digests.get(name)}, not {value}"
        for report in reports
        for setting, digests in report["digests"].items()
        for name, value in wanted.items()
        if digests.get(name) != value
    ]
    device = {k: v for k, v in reports[0]["device"].items() if k != "key"}
    versions = [{"triton": r["triton"], "torch": r["torch"]} for r in reports]
    document = {
        "schema": "kernelsmith/triton-versions/1",
        "device": device,
        "versions": versions,
        "settings": list(reports[0]["digests"]),
        "cases": len(wanted),
        "comparisons": len(wanted) * len(SETTINGS) * len(reports),
        "differences": differ,
        "digests": wanted,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(document, indent=2) + "\n")
    names = ", ".join(report["triton"] for report in reports)
    print(f"Triton {names}: {document['comparisons']} digests, {len(differ)} differ")
    for line in differ:
        print(line)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
