"""Writes the corpus with the Triton that runs it: ``python generate.py`` in each version's venv.

Needs Triton alone: the text comes from the CUDA backend's ttir stage, for which no GPU is needed.
"""

import inspect
import re
from pathlib import Path

import kernels
import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

CASES = {
    "norm": ({"x_ptr": "*bf16", "w_ptr": "*bf16", "y_ptr": "*bf16", "r_ptr": "*fp32",
              "stride": "i32", "n": "i32", "eps": "fp32"}, {"B": 1024}),
    "linear": ({"x_ptr": "*bf16", "w_ptr": "*bf16", "b_ptr": "*bf16", "y_ptr": "*bf16",
                "M": "i32", "N": "i32", "K": "i32"}, {"BM": 32, "BN": 64, "BK": 32}),
    "chain": ({"x_ptr": "*fp32", "w_ptr": "*fp32", "y_ptr": "*fp32", "N": "i32", "K": "i32"},
              {"BN": 32}),
    "shapes": ({"x": "*fp32", "y": "*fp32"}, {"M": 16, "N": 64}),
    "hints": ({"x": "*fp32", "y": "*fp32", "n": "i32"}, {"B": 64}),
    "control": ({"x": "*fp32", "y": "*fp32", "n": "i32"}, {"B": 64}),
}  # fmt: skip


def ttir(name: str) -> tuple[str, str]:
    """The text without and with locations."""
    types, constants = CASES[name]
    fn = getattr(kernels, name)
    signature = {**types, **dict.fromkeys(constants, "constexpr")}
    source = ASTSource(fn, signature, constants, {(0,): [["tt.divisibility", 16]]})
    backend = make_backend(GPUTarget("cuda", 90, 32))
    options = backend.parse_options({"enable_fp_fusion": False})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(
        backend.target,
        options,
        backend.get_codegen_implementation(options),
        backend.get_module_map(),
        context,
    )
    extra = [90] if len(inspect.signature(backend.make_ttir).parameters) == 4 else []
    module = backend.make_ttir(module, {}, options, *extra)
    located = re.sub(r'"[^"]*/([\w.]+/[\w.]+/[\w.]+)":', r'"\1":', str(module))
    return module.str_nodebug(), located


def main() -> None:
    folder = Path(__file__).parent / triton.__version__
    folder.mkdir(exist_ok=True)
    for name in CASES:
        plain, located = ttir(name)
        (folder / f"{name}.ttir").write_text(plain)
        if name == "control":
            (folder / "control.located.ttir").write_text(located)


if __name__ == "__main__":
    main()
