"""The TTIR that each Triton release prints of the conformance kernels, kept as text.

    python -m tests.conformance.corpus PYTHON ...

Each PYTHON has its own Triton beside kernelsmith and torch. Writes ``tests/conformance/ttir``: a
file a family, in it one kernel for each op, its smallest. A text that several releases print alike
is kept once, under a line that names them::

    // float_ops/add/fp32 | 3.6.0 3.7.1 3.9.0

A release that prints otherwise than the corpus says changed its printing, or what it makes of a
kernel: the parser must be looked at, then this is run again.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.conformance.case import Case, bind, function_of
from tests.conformance.families import cases_of

FOLDER = Path(__file__).parent / "ttir"
HEADING = "// "
_VALUE = re.compile(r"%[A-Za-z0-9_$.-]+")


def representatives(triton_version: str) -> list[Case]:
    """Of every family and op, the case with the fewest elements."""
    found: dict[tuple[str, tuple[str, ...]], tuple[int, Case]] = {}
    for case in cases_of(triton_version):
        size = sum(max(buffer.shape, default=1) for buffer in case.buffers())
        key = (case.family, case.ops)
        if key not in found or size < found[key][0]:
            found[key] = (size, case)
    return [case for _, case in found.values()]


def printed(case: Case) -> str:
    """The TTIR of a case by the Triton at hand, without source locations and value names."""
    from triton.runtime.jit import create_function_from_signature

    from kernelsmith.devices.cpu.emit import cpu_backend, emit_ttir
    from kernelsmith.devices.cpu.ttir_text import strip_loc

    kernel, backend = function_of(case), cpu_backend()
    binder = create_function_from_signature(kernel.signature, kernel.params, backend)
    bound, specialisation, extra = binder(*bind(case), **case.constants)
    options, signature, constants, attributes = kernel._pack_args(
        backend, case.constants, bound, specialisation, extra
    )
    text = emit_ttir(kernel, signature, constants, attributes, options)
    lines = [strip_loc(line.rstrip())[0] for line in text.splitlines()]
    kept = [line for line in lines if line.strip() and not line.startswith("#loc")]
    return numbered("\n".join(kept)) + "\n"


def numbered(text: str) -> str:
    """The text with its values named by numbers: names follow source locations."""
    names: dict[str, str] = {}
    return _VALUE.sub(lambda found: names.setdefault(found[0], f"%{len(names)}"), text)


def read() -> dict[str, dict[str, str]]:
    """Case id -> release -> text, of what is kept."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(FOLDER.glob("*.ttir")):
        for part in path.read_text().split(f"\n{HEADING}")[1:]:
            heading, _, text = part.partition("\n")
            name, _, releases = heading.partition(" | ")
            for release in releases.split():
                found.setdefault(name, {})[release] = text.rstrip("\n") + "\n"
    return found


def write(texts: dict[str, dict[str, str]]) -> None:
    """Keeps case id -> release -> text."""
    FOLDER.mkdir(exist_ok=True)
    files: dict[str, list[str]] = {}
    for name, by_release in texts.items():
        kept: dict[str, list[str]] = {}
        for release, text in by_release.items():
            kept.setdefault(text, []).append(release)
        for text, releases in kept.items():
            heading = f"\n{HEADING}{name} | {' '.join(sorted(releases))}\n"
            files.setdefault(name.split("/")[0], []).append(heading + text)
    for path in FOLDER.glob("*.ttir"):
        path.unlink()
    for family, parts in files.items():
        (FOLDER / f"{family}.ttir").write_text("".join(parts))


def here() -> dict[str, Any]:
    """What the Triton at hand prints."""
    import triton

    cases = representatives(triton.__version__)
    return {"triton": triton.__version__, "texts": {case.id: printed(case) for case in cases}}


def main(arguments: list[str]) -> int:
    """Returns the exit status."""
    if arguments == ["--here"]:
        print(json.dumps(here()))
        return 0
    texts: dict[str, dict[str, str]] = {}
    for python in dict.fromkeys((sys.executable, *arguments)):
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                [python, "-W", "ignore", "-m", "tests.conformance.corpus", "--here"],
                capture_output=True, text=True, check=False,
                env={**os.environ, "TRITON_CACHE_DIR": cache},
            )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(f"{python} failed:\n{done.stderr}")
        report = json.loads(done.stdout.splitlines()[-1])
        for name, text in report["texts"].items():
            texts.setdefault(name, {})[report["triton"]] = text
    write(texts)
    print(f"{len(texts)} kernels, {sum(map(len, texts.values()))} texts")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
