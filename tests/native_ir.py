"""Machine code of kernels written in LLVM IR with the CPU device's native entry, and what runs it:
y = 2 x over floats, with one scratch buffer. For the launcher's tests and those on the stand-in for
a GPU, so that a fault in lowering or tracing can neither hide nor feign one there.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelsmith.model import (
    Buffer,
    Inputs,
    InputSpec,
    Launch,
    LaunchArg,
    ObjectInfo,
    OutputRef,
    Plan,
    TensorMeta,
)

PARAMS = ("ptr", "ptr", "ptr", "i32")
"""x, y, scratch and the count of elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    info: ObjectInfo
    code: bytes


def compile_ir(text: str, object_id: str, *, arena_bytes: int = 256) -> Compiled:
    """The machine code of one function of :data:`PARAMS`."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    machine = llvm.Target.from_default_triple().create_target_machine(
        opt=2, reloc="pic", codemodel="small"
    )
    code = machine.emit_object(module)
    info = ObjectInfo(
        id=object_id,
        symbol=text.partition("define void @")[2].partition("(")[0],
        params=PARAMS,
        arena_bytes=arena_bytes,
        code_hash=hashlib.sha256(code).hexdigest(),
    )
    return Compiled(info=info, code=code)


def plan_of(
    elements: int,
    *,
    nbytes_in: int | None = None,
    class_id: str = "k",
    grid: tuple[int, int, int] | None = None,
) -> Plan:
    """y = 2x over ``elements`` floats, one scratch buffer; a program for 64 of them."""
    pointers = tuple(LaunchArg(kind="ptr", buffer=index) for index in range(3))
    launch = Launch(
        plan_class=class_id,
        plan_class_unaligned=f"{class_id}-unaligned",
        grid=grid or (-(-elements // 64), 1, 1),
        args=(*pointers, LaunchArg(kind="i32", value=elements)),
    )
    meta = TensorMeta(shape=(elements,), strides=(1,), dtype="float32")
    return Plan(
        buffers=(
            Buffer(nbytes=4 * elements if nbytes_in is None else nbytes_in, arg="x"),
            Buffer(nbytes=4 * elements),
            Buffer(nbytes=64),
        ),
        launches=(launch,),
        outputs=(OutputRef(buffer=1, offset_bytes=0, meta=meta),),
    )


def inputs_of(elements: int, seed: int = 7, file: str | None = None) -> Inputs:
    """x; its recipe is that of :func:`draw`."""
    meta = TensorMeta(shape=(elements,), strides=(1,), dtype="float32")
    spec = InputSpec(
        name="x",
        meta=meta,
        recipe="normal",
        base_shape=(elements,),
        token_axis=0,
        file=file,
    )
    return Inputs(tensors=(spec,), scalars=(), regime="plain", seed=seed)


def draw(inputs: Inputs) -> Mapping[str, Any]:
    """A stand-in for the recipes: normal numbers, from the seed alone."""
    rng = np.random.Generator(np.random.PCG64(inputs.seed))
    return {
        spec.name: rng.standard_normal(spec.meta.shape).astype(np.float32)
        for spec in inputs.tensors
    }
