"""What the language of candidates forbids, spelled out by hand: none of the policy's own tables."""

import builtins

from hypothesis import strategies as st

ALLOWED_BUILTINS = {"range", "min", "max", "len", "int", "float", "abs", "tuple", "sum", "divmod"}
BUILTINS = sorted(
    name
    for name in dir(builtins)
    if name not in ALLOWED_BUILTINS and name not in ("True", "False", "None", "__debug__")
)
ROOTS = (
    "tl",
    "triton",
    "torch",
    "x",
    "tl.float32",
    "x.dtype",
    "(x + x)",
    "n",
    "tl.load",
    "x.shape[0]",
    "(tl)",
    "triton.language",
    "torch.float32",
    "tl.arange(0, 4)",
    "x.dtype.element_ty",
)
_WORDS = """
    core math extra standard random inspect os sys libdevice cuda fn run warmup src device
    is_meta data_ptr item tolist cpu numpy data grad storage untyped_storage fill_ copy_
    builtins language core.os compiler runtime autotune heuristics Config jit utils _C ops
    library inline_asm_elementwise device_print static_print device_assert assume tensor
    extra.cuda.libdevice core.inspect core.builtin nn _inductor make_ir __class__ __globals__
    __dict__ __init__ __subclasses__ __mro__ __getattr__ __call__ __code__ __self__ __wrapped__
    func_globals gi_frame f_globals
"""
SECRETS = tuple(_WORDS.split())
MADE_UP = st.from_regex(r"[a-z]{2,9}_q[a-z]{0,3}", fullmatch=True)
"""Names that nobody ever listed."""


def chains() -> st.SearchStrategy[str]:
    """Attributes that lead out: of modules, of tensors, of values."""
    leaf = st.one_of(st.sampled_from(SECRETS), MADE_UP)
    steps = st.lists(leaf, min_size=1, max_size=4).map(".".join)
    end = st.sampled_from(("{}", "{}()", "{}(x)", "{}(x, x)", "{}[0]", "{}[x](x)", "{}.shape"))
    chain = st.tuples(st.sampled_from(ROOTS), steps).map(".".join)
    # torch.device, triton.jit and the like are values no expression may hold either.
    return st.tuples(end, chain).map(lambda pair: pair[0].format(pair[1]))


def names() -> st.SearchStrategy[str]:
    """Builtins, unknown names and modules, as values and called."""
    one = st.one_of(
        st.sampled_from(BUILTINS),
        MADE_UP,
        st.sampled_from(("tl", "torch", "triton", "__builtins__", "__name__", "__file__", "self")),
    )
    end = st.sampled_from(("{}", "{}()", "{}(x)", "{}(x, 0)", "{}[0]", "{}(*x)", "x + {}"))
    return st.tuples(end, one).map(lambda pair: pair[0].format(pair[1]))


SYNTAX = (
    "[i for i in x]",
    "{{i for i in x}}",
    "{{i: i for i in x}}",
    "(i for i in x)",
    "(lambda: x)()",
    "(lambda x=print(): x)",
    "(v := x)",
    "(yield)",
    "(yield from x)",
    "(await x)",
    'f"{x}"',
    'f"{x!r:>{n}}"',
    '"a b" "c"',
    'b"a"',
    "1j",
    "{1, 2}",
    "{1: 2}",
    "{**x}",
    "x @ x",
    "getattr(x, 'sh' + 'ape')",
    "x(x)",
    "x[0](x)",
    "(x if n else x)(x)",
    "min(*x)",
    "max(**x)",
    "min(x, key=x)",
    "'\\x65\\x76al (1)'",
    "eval('\\x31')",
    "[eval][0]('1')",
    "(eval,)[0]('1')",
    "(0 or exec)('1')",
    "(exec if n else x)('1')",
    "__import__('o' 's')",
    "globals()['x']",
    "x.__class__.__base__",
    "type(x)(x)",
    "tl.__dict__['core']",
    "vars(tl)",
    "tl.core.inspect.os",
    "().__class__",
    "''.join(x)",
    "'{0.__class__}'.format(x)",
    "tl.load(x, _semantic=x)",
    "tl.sum(x, _generator=None)",
    "x.to(tl.float32, _builder=x)",
    "tl.load(*[x])",
    "tl.load(**{})",
    "tl.inline_asm_elementwise('nop', '=r', [x], tl.int32, True, 1)",
    "print",
    "print(x)",
    "breakpoint()",
    "(tl.exp if n else tl.log)(x)",
    "tl.exp.fn(x)",
    "(tl.exp)(x).handle",
    "object.__subclasses__()",
    "_kernel",
    "_kernel.fn",
    "_kernel.run(x, grid=(1,), warmup=False)",
    "(lambda f: f(x))(print)",
    "(lambda META: META)(x)",
    "x.shape.__len__()",
    "not print",
    "x[print]",
    "x[print():]",
    "(x, print)[0]",
    "-print()",
    "x < print()",
    "x and print()",
    "tl.reduce(x, 0, print)",
    "tl.reduce(x, 0, combine_fn=lambda a, b: a)",
)
STATEMENTS = (
    "import os",
    "import os as tl",
    "from os import *",
    "from . import x",
    "from .. import y as tl",
    "global x",
    "nonlocal x",
    "del x",
    "del tl",
    "with x: pass",
    "with open('a') as v: pass",
    "try: pass\nexcept Exception: pass",
    "try: pass\nfinally: pass",
    "class A: pass",
    "def g(): return x",
    "def g(v=print()): pass",
    "async def g(): pass",
    "async for v in x: pass",
    "async with x: pass",
    "match x:\n    case _: pass",
    "raise x",
    "raise",
    "assert x, print()",
    "v: print() = x",
    "v: int = x",
    "x.y = x",
    "x[0] = x",
    "x.y += 1",
    "x[0] += 1",
    "tl = x",
    "torch = x",
    "range = x",
    "triton: tl.constexpr = 1",
    "for tl in range(2): pass",
    "for v in x: pass",
    "for v in print(): pass",
    "for x.y in range(2): pass",
    "for x[0] in range(2): pass",
    "(v, tl) = (x, x)",
    "v = w = print",
    "v = lambda: print",
    "v = lambda *a: a",
    "v = lambda q=print(): (1,)",
    "yield x",
    "return (yield x)",
    "await x",
    "print(x)",
    "exec('1')",
    "type V = int",
    "print",
    "x",
    "'a' 'b'",
    "v @= x",
    "(tl := x)",
    "*v, tl = (x, x)",
    "from kernelsmith.lang import tree_sum",
    "import torch",
    "@print\ndef g(): pass",
    "while print(): pass",
    "if print(): pass",
    "for v in range(print()): pass",
    "__builtins__ = x",
    "__x = x",
    "v = x; import os",
    "pass; print(x)",
    "_kernel = x",
    "assert print()",
)
MODULE = (
    "import os",
    "import torch as tl",
    "import torch, os",
    "import torch.cuda",
    "import triton as tl",
    "from torch import *",
    "from triton.language import core",
    "from . import a",
    "from .a import b",
    "from kernelsmith.lang import *",
    "from kernelsmith import lang",
    "import kernelsmith.lang",
    "from kernelsmith.lang import tree_sum as tl",
    "from __future__ import annotations",
    "X = print",
    "X = print()",
    "X = tl",
    "X = torch.float32",
    "X = [print]",
    "X = (1, print)",
    "X = lambda: 1",
    "X: print() = 1",
    "X: 'print()' = 1",
    "X = tl.constexpr(print())",
    "X = tl.constexpr(*[1])",
    "X = 1 if print() else 2",
    "X = (Y := 1)",
    "X = f'{1}'",
    "X = 'text'",
    "X += 1",
    "del torch",
    "print(1)",
    "exec('1')",
    "for X in (1,): pass",
    "while 0: pass",
    "if 1:\n    import os",
    "with open('a'): pass",
    "try: pass\nexcept Exception: pass",
    "class A: pass",
    "class A(metaclass=print): pass",
    "async def g(): pass",
    "@print\ndef g(): pass",
    "@triton.autotune(configs=[], key=[])\n@triton.jit\ndef g(x): pass",
    "@tl.core.builtin\ndef g(): pass",
    "@triton.heuristics({})\n@triton.jit\ndef g(x): pass",
    "@triton.jit(debug=True)\ndef g(x): pass",
    "@triton.jit(repr=print)\ndef g(x): pass",
    "@triton.jit(noinline=print())\ndef g(x): pass",
    "@triton.jit(**{})\ndef g(x): pass",
    "@triton.jit(launch_metadata=print)\ndef g(x): pass",
    "@triton.jit(do_not_specialize=print())\ndef g(x): pass",
    "@(lambda f: f)\ndef g(): pass",
    "@triton.jit\n@print\ndef g(x): pass",
    "@print()\n@triton.jit\ndef g(x): pass",
    "def g(a=print()): pass",
    "def g(*, a=print()): pass",
    "def g(a: print()): pass",
    "def g() -> print(): pass",
    "def g(*a): pass",
    "def g(**a): pass",
    "def g(a, b=[]): pass",
    "@triton.jit\ndef g(a: print()): pass",
    "@triton.jit\ndef g(a, num_warps): pass",
    "@triton.jit\ndef g(a, extern_libs): pass",
    "@triton.jit\ndef g(a, ir_override): pass",
    "def g(tl): pass",
    "def g(torch=1): pass",
    "def tl(): pass",
    "def torch(x): pass",
    "def range(x): pass",
    "tl = 1",
    "triton = 2",
    "torch: tl.constexpr = 3",
    "range = 4",
    "torch.empty_like = 1",
    "tl.exp = 2",
    "torch.x, Y = 1, 2",
    "(X, tl) = (1, 2)",
    "[torch] = (1,)",
    "global torch",
    "nonlocal torch",
    "return 1",
    "yield 1",
    "await 1",
    "raise 1",
    "assert 0",
    "__builtins__ = 1",
    "__all__ = 1",
    "def __getattr__(n): pass",
    "def __x(): pass",
    "__x = 1",
    "match 1:\n    case _: pass",
    "type X = int",
    "X = 1; import os",
    "_kernel = 1",
    "import torch; os",
    "def forward_infer(x): pass",
    "@triton.jit\ndef forward_infer(x): pass",
    "pass",
    "'''late'''",
)
LAUNCH = (
    "num_warps=n",
    "num_warps=FOUR",
    "num_warps=4 if n else 8",
    "num_warps=2 + 2",
    "num_stages=x",
    "num_ctas=n",
    "maxnreg=n",
    "num_warps=True",
    "num_warps='4'",
    "num_warps=4.0",
    "num_warps=-n",
    "extern_libs={}",
    "ir_override=1",
    "ir_override='a'",
    "debug=True",
    "warmup=True",
    "grid=(1,)",
    "enable_fp_fusion=False",
    "launch_cooperative_grid=True",
    "launch_pdl=True",
    "stream=0",
    "device=0",
    "device_type=1",
    "sanitize_overflow=False",
    "arch='sm_90'",
    "ptx_options='-a'",
    "default_dot_input_precision='tf32'",
    "allow_fp8e4nv=True",
    "**{}",
    "**x",
    "*x",
    "**{'num_warps': 4}",
    "num_warps=print()",
    "num_warps=(v := 4)",
    "pre_hook=print",
    "x_ptr=print",
)


def launches() -> st.SearchStrategy[str]:
    """What must not stand among a launch's keywords."""
    made_up = MADE_UP.map(lambda name: f"{name}=4")
    return st.one_of(st.sampled_from(LAUNCH), made_up)


def expressions() -> st.SearchStrategy[str]:
    """What is forbidden wherever an expression may stand, in kernels and in host code."""
    syntax = st.sampled_from([text.replace("{{", "{").replace("}}", "}") for text in SYNTAX])
    return st.one_of(chains(), names(), syntax)


WIDE = str.maketrans({chr(c): chr(c + 0xFEE0) for c in range(0x21, 0x7F) if chr(c).isalnum()})
BOLD = str.maketrans(
    {
        **{chr(0x61 + i): chr(0x1D41A + i) for i in range(26)},
        **{chr(0x41 + i): chr(0x1D400 + i) for i in range(26)},
    }
)


def disguised(name: str, style: int, at: int) -> str:
    """A name whose character ``at`` is one that Python normalises (NFKC) to the same."""
    at %= len(name)
    table = (WIDE, BOLD)[style]
    return name[:at] + name[at].translate(table) + name[at + 1 :]
