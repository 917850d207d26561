"""From a jit function to the TTIR text that is compiled: the ``ttir`` stage of this device.

The one module here that needs Triton (and torch with it); the worker's front end calls
:func:`emit_ttir`, Triton's own launch path calls :func:`run_ttir_passes`.
"""

from typing import Any

from kernelsmith.devices.cpu.versions import require_triton


def run_ttir_passes(module: Any) -> Any:
    """Runs, in place, the passes that Triton's CUDA backend runs on TTIR before it takes the
    module to a GPU dialect; tensor descriptors always become pointers. Returns ``module``."""
    from triton._C.libtriton import ir, passes

    pm = ir.pass_manager(module.context)
    pm.enable_debug()
    passes.common.add_inliner(pm)
    # Block pointers were removed from Triton 3.9, and their pass with them.
    if hasattr(passes.ttir, "add_rewrite_tensor_pointer"):
        passes.ttir.add_rewrite_tensor_pointer(pm)
    passes.ttir.add_rewrite_tensor_descriptor_to_pointer(pm)
    passes.common.add_canonicalizer(pm)
    passes.ttir.add_combine(pm)
    passes.ttir.add_reorder_broadcast(pm)
    passes.common.add_cse(pm)
    passes.common.add_symbol_dce(pm)
    passes.ttir.add_loop_unroll(pm)
    pm.run(module, "make_ttir")
    return module


def module_text(module: Any) -> str:
    """The module as MLIR text with source locations."""
    return str(module)


def emit_ttir(
    fn: Any,
    signature: dict[str, Any],
    constexprs: dict[Any, Any],
    attrs: dict[tuple[int, ...], Any],
    options: Any,
) -> str:
    """TTIR text of one specialisation of a jit function, with ``loc(...)`` of its source lines.

    The arguments are what ``JITFunction._pack_args`` returns. No driver need be active.

    Args:
        fn: the ``triton.JITFunction``.
        signature: parameter name -> Triton type ("*bf16", "i32", "constexpr", ...).
        constexprs: path of a parameter, such as ``(3,)``, or its name -> its constant value.
        attrs: path of a parameter -> its attributes, such as ``[["tt.divisibility", 16]]``.
        options: a ``CpuOptions`` (``CpuBackend.parse_options``).

    Raises:
        MissingError: an untested Triton.
        triton.compiler.errors.CompilationError: the kernel is not valid Triton.
    """
    require_triton()
    from triton._C.libtriton import ir
    from triton.compiler import ASTSource

    backend = cpu_backend()
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = ASTSource(fn, signature, constexprs, attrs)
    module = source.make_ir(
        backend.target,
        options,
        backend.get_codegen_implementation(options),
        backend.get_module_map(),
        context,
    )
    return module_text(run_ttir_passes(module))


def cpu_backend() -> Any:
    """The backend for this machine, without asking for an active driver."""
    from kernelsmith.devices.cpu.compiler import CpuBackend
    from kernelsmith.devices.cpu.driver import cpu_target

    return CpuBackend(cpu_target())
