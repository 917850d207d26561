"""LLVM: CPU levels, the pass pipeline, object bytes."""

import functools
from typing import Any

from kernelsmith.devices.cpu.codegen_text import Features
from kernelsmith.errors import CompileError

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


def features_of(cpu: str) -> Features:
    """What a CPU level offers. ``host`` is this machine's level: v4, v3 or v2."""
    if cpu == "host":
        cpu = host_level()
    if cpu not in LEVELS:
        raise CompileError(
            f"unknown CPU level {cpu!r}", op="target", hint=f"use host or one of {LEVELS}"
        )
    at = LEVELS.index(cpu)
    return Features(cpu=cpu, fma=at >= 1, f16c=at >= 1, wide=at >= 2)


def host_level() -> str:
    """The highest x86-64 level this CPU has."""
    import llvmlite.binding as llvm

    have = llvm.get_host_cpu_features()
    v3 = ("avx2", "fma", "bmi2", "f16c", "lzcnt", "movbe")
    v4 = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
    if not all(have.get(f, False) for f in v3):
        return LEVELS[0]
    return LEVELS[2] if all(have.get(f, False) for f in v4) else LEVELS[1]


@functools.cache
def _initialise() -> None:
    """LLVM's x86 target, with innermost loops at 64-byte boundaries: how fast a loop runs must not
    depend on what stands before it in the function."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # LLVM takes the option once a process; the value is the logarithm of the bytes.
    llvm.set_option("kernelsmith", "-x86-experimental-pref-innermost-loop-alignment=6")


def compile_ir(ir: str, features: Features) -> bytes:
    """Optimises a module and emits a relocatable object (small model, position independent)."""
    machine, module = optimised(ir, features)
    return bytes(machine.emit_object(module))


def optimised(ir: str, features: Features) -> tuple[Any, Any]:
    """LLVM's target machine, and the module as it stands when code is emitted."""
    import llvmlite.binding as llvm

    _initialise()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    machine = target.create_target_machine(
        cpu=features.cpu, opt=2, reloc="pic", codemodel="small", jit=False
    )
    module = llvm.parse_assembly(ir)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_module_pass_manager()
    # The lowering writes vectors and places loop-invariant code itself: what is left to do is
    # to fold, to merge and to drop. No pass here forms calls (memset) or changes loops.
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_new_gvn_pass()
    passes.add_instruction_combine_pass()
    passes.run(module, builder)
    return machine, module
