"""What the compiler makes of a kernel, as assembly text, for people and models to read.

Makes no code that runs: the object comes from :mod:`codegen_target`, and a test holds the text
here to the same instructions.
"""

import sys
from typing import Any

from kernelsmith.devices.cpu import codegen_target
from kernelsmith.devices.cpu.lower_function import lower
from kernelsmith.devices.cpu.ttir_parse import parse
from kernelsmith.errors import CompileError

_RECURSION = 50_000


def assembly(text: str, *, cpu: str = "host") -> str:
    """The kernel of a TTIR module as assembly, spills and reloads marked by LLVM's comments.

    Args:
        text, cpu: as for :func:`..compile.compile_ttir`, which compiled it before.

    Raises:
        CompileError: it is not lowered.
    """
    machine, module = optimised(text, cpu)
    machine.set_asm_verbosity(True)
    return str(machine.emit_assembly(module))


def optimised(text: str, cpu: str = "host") -> tuple[Any, Any]:
    """(target machine, LLVM module) as :func:`codegen_target.compile_ir` has them when it emits."""
    features = codegen_target.features_of(cpu)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION))
    try:
        parsed = parse(text)
        ir = lower(parsed, features, parsed.kernel.name).ir
    except (AssertionError, LookupError, ValueError, RuntimeError, RecursionError) as error:
        raise CompileError(f"cannot be shown as assembly: {error}", op="lowering") from error
    finally:
        sys.setrecursionlimit(limit)
    return codegen_target.optimised(ir, features)
