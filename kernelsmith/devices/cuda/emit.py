"""From a jit function to the TTIR text that is compiled: Triton's front end and its CUDA backend's
``ttir`` stage, with the launch options in the text. Needs Triton; neither torch nor a GPU."""

from typing import Any

from kernelsmith.devices.cpu.versions import require_triton
from kernelsmith.devices.cuda.compile import PINNED, WARP_SIZE
from kernelsmith.devices.cuda.options import DEFAULTS, with_options


def cuda_backend(arch: int) -> Any:
    """Triton's backend for sm_``arch``, without asking for an active driver.

    Raises:
        MissingError: an untested Triton.
    """
    require_triton()
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    return make_backend(GPUTarget("cuda", arch, WARP_SIZE))


def emit_ttir(
    fn: Any,
    signature: dict[str, Any],
    constexprs: dict[Any, Any],
    attrs: dict[tuple[int, ...], Any],
    options: dict[str, int],
    arch: int,
) -> str:
    """TTIR text of one specialisation of a jit function for sm_``arch``.

    Args:
        fn: the ``triton.JITFunction``.
        signature, constexprs, attrs: as ``ASTSource`` takes them.
        options: launch options.

    Raises:
        InputError: a launch option out of range.
        MissingError: an untested Triton.
        triton.compiler.errors.CompilationError: the kernel is not valid Triton.
    """
    backend = cuda_backend(arch)
    from triton._C.libtriton import ir
    from triton.backends.compiler import Language
    from triton.compiler import ASTSource

    given = DEFAULTS | options
    # Said before Triton asserts it.
    head = with_options("", given)
    parsed = backend.parse_options({**PINNED, **given})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = ASTSource(fn, signature, constexprs, attrs)
    module = source.make_ir(
        backend.target,
        parsed,
        backend.get_codegen_implementation(parsed),
        backend.get_module_map(),
        context,
    )
    stages: dict[str, Any] = {}
    backend.add_stages(stages, parsed, Language.TRITON)
    return head + str(stages["ttir"](module, {}))
