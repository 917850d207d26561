"""One construct a test: each is refused, at its own line, with a hint."""

import pytest

from kernelsmith.gate.policy import check

ENTRIES = ("forward_infer",)

MODULE = """\
import torch
import triton
import triton.language as tl

SIZE = tl.constexpr(64)
{module}

@triton.jit
def _add(a, b):
    return a + b


@triton.jit
def _kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0)
    {jit}
    tl.store(y_ptr + cols, x, mask=cols < n_cols)


def forward_infer(x):
    y = torch.empty_like(x)
    n_cols = x.shape[0]
    {host}
    _kernel[(1,)](x, y, n_cols, BLOCK=64{launch})
    return (y,)
"""


def program(module: str = "", jit: str = "pass", host: str = "pass", launch: str = "") -> str:
    return MODULE.format(module=module, jit=jit, host=host, launch=launch)


def line_of(source: str, text: str) -> int:
    return source[: source.index(text)].count("\n") + 1


def test_the_frame_itself_is_accepted() -> None:
    assert check(program(), ENTRIES) == []


MODULE_REFUSALS = [
    ("import os", "import torch"),
    ("import torch as t", "import torch"),
    ("import torch.cuda", "import torch"),
    ("from torch import empty", "import torch"),
    ("import triton.language.extra as e", "triton.language as tl"),
    ("from triton.language import math", "triton.language as tl"),
    ("from kernelsmith.gate import policy", "kernelsmith.lang"),
    ("from kernelsmith.lang import *", "import"),
    ("from kernelsmith.lang import no_such_name", "tree_sum"),
    ("from kernelsmith.lang import tree_sum as total", "tree_sum"),
    ("from .lang import tree_sum", "kernelsmith.lang"),
    ("from __future__ import annotations", "kernelsmith.lang"),
    ("print(1)", "imports, constants"),
    ("class Config: pass", "functions at module level"),
    ("if True: X = 1", "functions at module level"),
    ("for i in (1, 2): pass", "functions at module level"),
    ("try: pass\nexcept Exception: pass", "functions at module level"),
    ("with open('/etc/passwd') as f: pass", "functions at module level"),
    ("X = [1, 2]", "a number"),
    ("X = 'text'", "a number"),
    ("X = torch.float32", "a number"),
    ("X = 2 + 2", "a number"),
    ("X = tl.constexpr(torch.cuda)", "a number"),
    ("X: int = 3", "tl.constexpr"),
    ("torch.empty_like = 3", "one name"),
    ("tl = 3", "another name"),
    ("SIZE = 3", "another name"),
    ("twice = 1\ntwice = 2", "another name"),
    ("@triton.autotune(configs=[], key=[])\n@triton.jit\ndef _f(x): pass", "if/else in host code"),
    ("@torch.compile\ndef f(x): pass", "@triton.jit"),
    ("@triton.jit(debug=True)\ndef _f(x): pass", "@triton.jit"),
    ("@triton.jit(noinline=SIZE)\ndef _f(x): pass", "@triton.jit"),
    ('@triton.jit(do_not_specialize=["""\ndef evil(x):"""])\ndef _f(x): pass', "@triton.jit"),
    ("@triton.jit\ndef _f(x: print(1)): pass", "none"),
    ("@triton.jit\ndef _f(x) -> tl.tensor: pass", "none"),
    ("@triton.jit\ndef _f(x=print()): pass", "a number"),
    ("@triton.jit\ndef _f(*xs): pass", "write the parameters out"),
    ("@triton.jit\ndef _f(ir_override: tl.constexpr): pass", "compiler reads"),
    ("@triton.jit\ndef _f(enable_fp_fusion: tl.constexpr): pass", "compiler reads"),
    ("def f(x: torch.Tensor): pass", "none"),
    ("def f(**options): pass", "write the parameters out"),
    ("def f(tl): pass", "another name"),
    ("async def f(x): pass", "functions at module level"),
]


@pytest.mark.parametrize(("text", "instead"), MODULE_REFUSALS)
def test_module_level(text: str, instead: str) -> None:
    expect(program(module=text), text, instead)


JIT_REFUSALS = [
    ("tl.core.inspect.os.system('id')", "functions of triton.language"),
    ("tl.core.builtins.exec('1')", "functions of triton.language"),
    ("x = tl.math.exp(x)", "tl.exp"),
    ("x = tl.extra.libdevice.exp(x)", "tl.exp"),
    ("t = tl.extra.cuda.globaltimer()", "tl.exp"),
    ("x = tl.standard.sum(x)", "tl.sum"),
    ("x = tl.inline_asm_elementwise('', '', [x], tl.float32, True, 1)", "functions of"),
    ("tl.atomic_poll(y_ptr, 1)", "pure functions"),
    ("tl.device_print('x', x)", "remove"),
    ("tl.static_print(x)", "remove"),
    ("tl.device_assert(x > 0)", "static_assert"),
    ("tl.debug_barrier()", "remove"),
    ("tl.assume(n_cols > 0)", "masks"),
    ("p = y_ptr.to(tl.pointer_type(tl.int8))", "argument"),
    ("d = tl.make_tensor_descriptor(x_ptr, [1], [1], [64])", "pointer arithmetic"),
    ("print(x)", "call tl functions"),
    ("x = eval('x')", "call tl functions"),
    ("x = getattr(x, 'to')", "call tl functions"),
    ("x = _kernel.fn(x)", "tl functions or listed methods"),
    ("x = x.handle", ".dtype"),
    ("x = x.dtype.to_ir(0)", "listed methods"),
    ("x = x.__class__", "without `__`"),
    ("x = tl.load.__globals__", "pure functions"),
    ("x = torch.zeros(3)", "pure functions"),
    ("x = triton.cdiv(3, 2)", "pure functions"),
    ("x = undefined_name", "parameters, local names"),
    ("x.data = 3", "tl.store"),
    ("x[0] = 3", "tl.store"),
    ("tl = x", "another name"),
    ("_add = x", "another name"),
    ("import os", "assignments"),
    ("global SIZE", "assignments"),
    ("f = lambda v: v", "arithmetic"),
    ("x = [v for v in (1, 2)]", "arithmetic"),
    ("x = f'{x}'", "arithmetic"),
    ("x = (y := x)", "arithmetic"),
    ("x = {'a': 1}", "arithmetic"),
    ("x = 'text'", "numbers"),
    ("x = b'text'", "numbers"),
    ("x = 1j", "numbers"),
    ("x = float('1e400')", "numbers"),
    ("x = x @ x", "tl.dot"),
    ("x = tl.sum(*x)", "write the arguments out"),
    ("x = tl.sum(**x)", "write the arguments out"),
    ("x = tl.load(x_ptr, boundary_check=(0,))", "mask"),
    ("x = tl.sum(x, _semantic=None)", "axis"),
    ("x = tl.reduce(x, 0, print)", "parameters, local names"),
    ("x = _add(x, c=x)", "a, b"),
    ("x = tl.load(x_ptr, cache_modifier='; exec bad')", "numbers"),
    ("r = tl.range(3)", "integers"),
    ("r = range(3)", "integers"),
    ("assert n_cols > 0", "static_assert"),
    ("del x", "assignments"),
    ("yield x", "assign it"),
    ("x + 1", "assign it"),
    ("raise x", "assignments"),
    ("with x: pass", "assignments"),
    ("z: tl.float32 = x", "tl.constexpr"),
]


@pytest.mark.parametrize(("text", "instead"), JIT_REFUSALS)
def test_jit_bodies(text: str, instead: str) -> None:
    expect(program(jit=text), text, instead)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("for v in (1, 2): pass", "tl.range"),
        ("for v in x: pass", "tl.range"),
        ("for v in range(3): break", "masks"),
    ],
)
def test_jit_loops(text: str, instead: str) -> None:
    expect(program(jit=text), text, instead)


HOST_REFUSALS = [
    ("b = 64 if x.is_meta else 32", ".shape"),
    ("b = x.device", "new_empty"),
    ("b = x.is_cuda", ".shape"),
    ("b = x.data_ptr()", "tensor itself"),
    ("b = x.data_ptr", "tensor itself"),
    ("b = x._version", ".shape"),
    ("b = x.item()", "inside a kernel"),
    ("b = x.tolist()", "inside a kernel"),
    ("b = x.contiguous()", "strides"),
    ("b = x.to(torch.float32)", "inside a kernel"),
    ("b = x.grad", ".shape"),
    ("b = x.stride", "call it"),
    ("x.fill_(0)", "allocation"),
    ("y.copy_(x)", "in a kernel"),
    ("b = x.new_zeros((3,))", "new_empty"),
    ("b = x.new_empty((3,), device='cpu')", "dtype"),
    ("b = torch.empty((3,))", "new_empty"),
    ("b = torch.zeros_like(x)", "empty_like"),
    ("b = torch.mm(x, x)", "kernels"),
    ("b = torch.cuda.is_available()", "kernels"),
    ("b = torch.backends", "torch.empty_like"),
    ("b = x @ x", "launch a kernel"),
    ("b = triton.runtime", "triton.cdiv"),
    ("b = tl.float32", "torch dtypes"),
    ("b = __builtins__", "without `__`"),
    ("b = x.__class__", "without `__`"),
    ("b = exec('1')", "functions of this module"),
    ("b = getattr(x, 'device')", "functions of this module"),
    ("b = open('/etc/passwd')", "functions of this module"),
    ("b = hash(x)", "functions of this module"),
    ("b = id(x)", "functions of this module"),
    ("b = isinstance(x, tuple)", "functions of this module"),
    ("b = type(x)", "functions of this module"),
    ("b = _kernel", "_kernel[grid]"),
    ("_kernel.run(x)", "kernel[grid]"),
    ("_kernel.warmup(x, grid=(1,))", "kernel[grid]"),
    ("_add(1, 2)", "_add[grid]"),
    ("x[(1,)](x)", "name a jit function"),
    ("b = forward_infer", "call it"),
    ("b = 'text'", "numbers"),
    ("b = f'{x}'", "arithmetic"),
    ("b = [i for i in range(3)]", "arithmetic"),
    ("b = {'a': 1}", "arithmetic"),
    ("b = (c := 3)", "arithmetic"),
    ("b = sum(i for i in (1, 2))", "arithmetic"),
    ("b = [lambda v: v]", "launch grid"),
    ("b = lambda: 3", "as a grid"),
    ("b = lambda META: META", "local names"),
    ("b = lambda META: META[0]", 'META["NAME"]'),
    ("b = x is y", "is None"),
    ("b = 3 in x.shape", "write it out"),
    ("b = range(3)", "for over range"),
    ("x.y = 3", "local name"),
    ("x[0] = 3", "local name"),
    ("torch = x", "another name"),
    ("max = x", "another name"),
    ("b: int = 3", "without an annotation"),
    ("global SIZE", "assignments"),
    ("import os", "assignments"),
    ("while True: pass", "for over range"),
    ("for v in x: pass", "tuple"),
    ("with torch.no_grad(): pass", "assignments"),
    ("raise ValueError", "assert"),
    ("assert n_cols > 0, f'{x}'", "literal string"),
    ("yield x", "assign it"),
    ("def inner(): pass", "assignments"),
    ("del x", "assignments"),
    ("n_cols + 1", "assign it"),
    ("b = max(*x.shape)", "write the arguments out"),
]


@pytest.mark.parametrize(("text", "instead"), HOST_REFUSALS)
def test_host_code(text: str, instead: str) -> None:
    expect(program(host=text), text, instead)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        (", enable_fp_fusion=True", "num_warps"),
        (", ir_override='/tmp/x'", "num_warps"),
        (", extern_libs={}", "num_warps"),
        (", launch_pdl=True", "num_warps"),
        (", num_warps=n_cols", "write the number"),
        (", num_warps=4 if n_cols > 3 else 8", "write the number"),
        (", num_warps=True", "write the number"),
        (", NO_SUCH=3", "parameters of `_kernel`"),
        (", **x", "num_warps"),
    ],
)
def test_launch_options(text: str, instead: str) -> None:
    expect(program(launch=text), text, instead)


def expect(source: str, text: str, instead: str) -> None:
    """``text`` is refused on one of its own lines, with ``instead`` in a hint."""
    first = line_of(source, text)
    last = first + text.count("\n")
    found = check(source, ENTRIES)
    here = [v for v in found if first <= v.line <= last]
    assert here, found
    assert any(instead in v.instead for v in here), here
