"""Same bits under every Triton version: runs the digest set in each interpreter given.

    python benchmarks/triton_versions.py [PYTHON ...]

Each PYTHON has its own Triton beside torch, llvmlite and kernelsmith; the running one is always
included. Writes ``benchmarks/results/triton_versions.json`` and exits 1 if any digest differs
between interpreters, program orders, thread counts or CPU levels.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "triton_versions.json"
SETTINGS = (("ascending", 1), ("ascending", 2), ("descending", 1), ("shuffled:7", 1))
# Code for older CPUs, run on this one.
LEVELS = ("x86-64-v3", "x86-64-v2")


def run_here() -> dict[str, Any]:
    """Digests of every case, by setting, in this process."""
    import torch
    import triton
    from version_kernels import cases

    import kernelsmith.devices.cpu.compile as compiler
    from kernelsmith.devices.cpu import activated
    from kernelsmith.devices.cpu.epoch import describe

    digests: dict[str, dict[str, str]] = {}
    for order, threads in SETTINGS:
        with activated(order=order, threads=threads):
            digests[f"{order}, {threads} threads"] = {name: run() for name, run in cases()}
    host_compile = compiler.compile_ttir
    for level in LEVELS:
        compiler.compile_ttir = functools.partial(host_compile, cpu=level)
        # Triton's cache does not know of the level: each has a cache of its own.
        with tempfile.TemporaryDirectory() as cache, activated(threads=1):
            triton.knobs.cache.dir = cache
            _forget_kernels()
            digests[f"code for {level}"] = {name: run() for name, run in cases()}
    return {
        "triton": triton.__version__,
        "torch": torch.__version__,
        "device": describe(),
        "digests": digests,
    }


def _forget_kernels() -> None:
    """Makes every jit function of the case module compile again."""
    import version_kernels

    for item in vars(version_kernels).values():
        if hasattr(item, "device_caches"):
            item.device_caches.clear()


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
        "comparisons": sum(len(d) for r in reports for d in r["digests"].values()),
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
