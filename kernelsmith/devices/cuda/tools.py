"""The programs of the CUDA toolkit that Triton's wheel carries."""

import functools
import hashlib
import importlib.util
import re
import subprocess
import tempfile
from pathlib import Path

from kernelsmith.errors import CompileError, MissingError

TIMEOUT_S = 120.0


@functools.cache
def tool(name: str) -> Path:
    """The path of "ptxas", "ptxas-blackwell", "nvdisasm" or "cuobjdump"; imports no Triton.

    Raises:
        MissingError: Triton is not installed, or its wheel does not carry it.
    """
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        raise MissingError("Triton is not installed", hint="pip install triton")
    path = Path(spec.origin).parent / "backends" / "nvidia" / "bin" / name
    if not path.is_file():
        raise MissingError(f"Triton's wheel has no {name}", hint="reinstall Triton from its wheel")
    return path


def include_folder() -> Path:
    """Where the wheel has the toolkit's headers, ``cuda.h`` among them."""
    return tool("ptxas").parent.parent / "include"


def ptxas_name(arch: int) -> str:
    """The assembler that Triton takes for an architecture."""
    return "ptxas-blackwell" if arch >= 100 else "ptxas"


@functools.cache
def ptxas_release(arch: int) -> str:
    """Release and build of the assembler for an architecture, such as ``V12.8.93``."""
    said = _run([str(tool(ptxas_name(arch))), "--version"])
    found = re.search(r"\bV\d+\.\d+\.\d+\b", said)
    return found[0] if found else hashlib.sha256(said.encode()).hexdigest()[:16]


def sass(cubin: bytes) -> str:
    """The machine instructions of a cubin, as ``nvdisasm`` writes them.

    Raises:
        CompileError: it cannot read the cubin.
        MissingError: there is no ``nvdisasm``.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return _run([str(tool("nvdisasm")), "--print-code", "--no-dataflow", file.name])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())[:300]
        raise CompileError(f"{Path(command[0]).name} failed: {said}", op=Path(command[0]).name)
    return done.stdout
