"""TTIR text to PTX and cubin: Triton's own stages, with options that are pinned here.

The stages after ``ttir`` are run one by one on the parsed text, as ``triton.compile`` does with an
IR file, but nothing is kept on disk and no driver is asked for. Needs Triton; neither torch nor a
GPU.
"""

import contextlib
import hashlib
import io
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelsmith.devices.cpu.ttir_ops import KNOWN_OPS
from kernelsmith.devices.cpu.versions import require_triton
from kernelsmith.devices.cuda.options import split_options
from kernelsmith.errors import CompileError, InputError

WARP_SIZE = 32
PINNED: dict[str, Any] = {
    "enable_fp_fusion": False,
    "ptx_options": None,
    "launch_cooperative_grid": False,
    "launch_pdl": False,
    "debug": False,
}
# Whatever would make the same text another binary; Triton reads them when it is imported.
FOREIGN_SETTINGS = (
    "DISABLE_PTXAS_OPT",
    "PTXAS_OPTIONS",
    "TRITON_OVERRIDE_ARCH",
    "TRITON_LIBDEVICE_PATH",
    "TRITON_KERNEL_OVERRIDE",
    "TRITON_INSTRUMENTATION_MODE",
    "TRITON_PTXAS_PATH",
    "TRITON_PTXAS_BLACKWELL_PATH",
)
# Beside the ops that the CPU device knows: what Hopper and Blackwell have units for.
GPU_OPS = (
    "builtin.module",
    "tt.func",
    "tt.make_tensor_descriptor",
    "tt.descriptor_load",
    "tt.descriptor_store",
    "tt.descriptor_gather",
    "tt.descriptor_scatter",
    "tt.make_tensor_ptr",
    "tt.advance",
    "tt.dot_scaled",
    "tt.fp4_to_fp",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaCode:
    """A kernel compiled for one architecture; ``arch`` 90 is sm_90.

    ``params``: scalar types of the TTIR function ("ptr", "i32", "f32", ...); the kernel takes two
    pointers more, to global and to profile scratch. ``scratch_bytes`` of global memory a program
    needs, at a multiple of ``scratch_align_bytes``.
    """

    arch: int
    symbol: str
    params: tuple[str, ...]
    ptx: str
    cubin: bytes
    shared_bytes: int
    num_warps: int
    num_ctas: int
    scratch_bytes: int
    scratch_align_bytes: int


def compile_text(text: str, arch: int, options: Mapping[str, int] | None = None) -> CudaCode:
    """Compiles the one kernel of a TTIR module for sm_``arch``.

    Args:
        text: after the ``ttir`` stage; its first line may hold launch options.
        options: launch options that stand above those of the text.

    Raises:
        InputError: an environment variable is set that would make other code of it.
        CompileError: an op that is not known, or Triton or ptxas refuses the kernel.
        MissingError: an untested Triton, or none.
    """
    require_triton()
    foreign = [name for name in FOREIGN_SETTINGS if os.environ.get(name)]
    if foreign:
        raise InputError(
            f"{foreign[0]} is set: the code it makes belongs to no epoch",
            hint=f"unset {foreign[0]}",
        )
    own, body = split_options(text)
    given = own | dict(options or {})
    from triton.runtime.errors import TritonError

    said = io.StringIO()
    try:
        # Where ptxas fails Triton prints the whole PTX before it raises.
        with contextlib.redirect_stdout(said):
            return _stages(body, arch, given)
    # Passes raise RuntimeError, options ValueError or AssertionError, ptxas TritonError.
    except (RuntimeError, ValueError, AssertionError, TritonError) as error:
        raise CompileError(f"sm_{arch}: {_brief(error)}", op="cuda") from error


def _stages(body: str, arch: int, given: Mapping[str, int]) -> CudaCode:
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget, Language
    from triton.compiler.compiler import make_backend

    backend = make_backend(GPUTarget("cuda", arch, WARP_SIZE))
    options = backend.parse_options({**PINNED, **given})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = _parse(ir, body, context)
    params = _checked_params(module)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, Language.TRITON)
    metadata: dict[str, Any] = dict(options.__dict__)
    texts: dict[str, Any] = {}
    for name in list(stages)[list(stages).index("ttir") + 1 :]:
        module = texts[name] = stages[name](module, metadata)
    return CudaCode(
        arch=arch,
        symbol=metadata["name"],
        params=params,
        ptx=texts["ptx"],
        cubin=texts["cubin"],
        shared_bytes=metadata["shared"],
        num_warps=metadata["num_warps"],
        num_ctas=metadata["num_ctas"],
        scratch_bytes=metadata["global_scratch_size"] or 0,
        scratch_align_bytes=metadata["global_scratch_align"] or 1,
    )


def _parse(ir: Any, body: str, context: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ttir"
        path.write_text(body)
        module = ir.parse_mlir_module(str(path), context)
    module.context = context
    return module


def _checked_params(module: Any) -> tuple[str, ...]:
    """Types of the public kernel's parameters, after a look at every op's name.

    Raises:
        CompileError: an op that is not on the list, or not exactly one kernel.
    """
    strangers: list[str] = []
    functions: list[Any] = []

    def look(op: Any) -> None:
        name = op.get_name()
        if name == "tt.func":
            functions.append(op)
        if name not in KNOWN_OPS and name not in GPU_OPS:
            strangers.append(name)

    module.walk(look)
    if strangers:
        raise CompileError(f"op {strangers[0]} is not allowed", op=strangers[0])
    return _params(str(module))


def _params(text: str) -> tuple[str, ...]:
    heads = re.findall(r"tt\.func public @[\w.$]+\((.*)\)(?: attributes \{.*\})? \{", text)
    if len(heads) != 1:
        raise CompileError(f"{len(heads)} kernels in one text", op="tt.func")
    types = re.findall(r"%\w+: (!?[\w.]+)(<)?", heads[0])
    for name, _ in types:
        if name != "!tt.ptr" and not re.fullmatch(r"(?:i|f|bf)\d+", name):
            raise CompileError(f"a parameter of type {name} cannot be passed", op="tt.func")
    return tuple("ptr" if name == "!tt.ptr" else name for name, _ in types)


def _brief(error: BaseException) -> str:
    """The first line that says something: ptxas repeats the whole command."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for word in ("fatal", "error", ""):
        told = [line for line in lines if word in line.lower()]
        if told:
            return told[0][:400]
    return type(error).__name__


def code_hash(code: CudaCode, sections: Mapping[str, bytes]) -> str:
    """Hash of what runs: machine code, constants, and how it is launched. Not of line tables."""
    digest = hashlib.sha256()
    launch = (code.symbol, code.params, code.num_warps, code.num_ctas, code.shared_bytes)
    digest.update(repr((*launch, code.scratch_bytes)).encode())
    for name in sorted(sections):
        digest.update(name.encode() + b"\0" + len(sections[name]).to_bytes(8, "little"))
        digest.update(sections[name])
    return digest.hexdigest()
