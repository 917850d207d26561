"""A candidate's faults: each is a value with the status, the line and what to do instead."""

import textwrap

import pytest

from .programs import BODY_LINE, HEADER, call, tensor, trace

LAUNCH = "copy[(1,)](x, y, 16, BLOCK=16)"


def fault(tmp_path, body: str, *, emit: bool = False, **args):
    """The failure of a ``forward(x)`` with this body after ``y = x.new_empty((16,))``."""
    source = HEADER + "def forward(x):\n    y = x.new_empty((16,))\n"
    source += textwrap.indent(textwrap.dedent(body), "    ") + "\n"
    result = trace(source, call(x=tensor(16), **args), tmp_path=tmp_path, emit=emit)
    assert result.failure is not None
    assert result.plans == {}
    assert result.failure.where == "call" or emit
    return result.failure


@pytest.mark.parametrize(
    ("body", "operator", "instead"),
    [
        ("return x + 1", "aten.add", "compute in a @triton.jit kernel"),
        ("return x.new_zeros((3,))", "aten.new_zeros", "x.new_empty and store zeros"),
        ("return torch.zeros((3,))", "aten.zeros", "x.new_empty and store zeros"),
        ("y.zero_()\nreturn y", "aten.zero_", "store zeros in a kernel"),
        ("return x.to(torch.bfloat16)", "aten._to_copy", "convert inside the kernel"),
        ("return x.view(4, 4).t().contiguous()", "aten.clone", "pass the tensor's strides"),
        ("return x.max().item()", "aten.max", "compute in a @triton.jit kernel"),
        ("y.copy_(x)\nreturn y", "aten.copy_", "copy inside a kernel"),
        ("return torch.matmul(x, x)", "aten.", "compute in a @triton.jit kernel"),
    ],
)
def test_any_operator_but_allocation_and_views_is_refused(body, operator, instead, tmp_path):
    failure = fault(tmp_path, body)
    assert failure.status == "TRACE"
    assert operator in failure.message
    assert instead in failure.message
    assert f"line {BODY_LINE + 2}:" in failure.message or f"line {BODY_LINE + 3}" in failure.message


def test_a_fault_that_is_swallowed_still_counts(tmp_path):
    failure = fault(tmp_path, f"try:\n    x + 1\nexcept BaseException:\n    {LAUNCH}\nreturn y")
    assert "aten.add" in failure.message


def test_reading_a_value_on_a_real_tensor_is_refused_too(tmp_path):
    source = HEADER + "def forward(x):\n    return x.new_empty((int(x[0]),))\n"
    failure = trace(source, call(x=tensor(4)), tmp_path=tmp_path, real=True).failure
    assert failure is not None
    assert "never values" in failure.message


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ("return None", "SIGNATURE", "returns NoneType as output 0"),
        ("return y, 3", "SIGNATURE", "returns int as output 1"),
        ("return (one for one in (y,))", "SIGNATURE", "returns generator"),
        ("return torch.nn.Parameter(y, requires_grad=False)", "SIGNATURE", "returns Parameter"),
        ("return x", "TRACE", "output 0 lies in the memory of argument x"),
        ("return x[2:]", "TRACE", "output 0 lies in the memory of argument x"),
        ("return y, y[3:]", "TRACE", "outputs 0 and 1 overlap"),
        ("return y.as_strided((4, 4), (8, 1))", "TRACE", "reaches past the end of its memory"),
        ("y.data = x\nreturn y", "TRACE", "output 0 lies in the memory of argument x"),
        ("return torch.empty((2,), dtype=torch.complex64)", "TRACE", "dtype complex64"),
    ],
)
def test_outputs_are_fresh_tensors_apart_from_each_other(body, status, text, tmp_path):
    failure = fault(tmp_path, body)
    assert failure.status == status
    assert text in failure.message


def test_tensors_of_other_calls_or_from_elsewhere_are_refused(tmp_path):
    source = HEADER + (
        "kept = []\n\ndef forward(x):\n    if not kept:\n        kept.append(x.new_empty((16,)))\n"
        "    return kept[0]\n"
    )
    calls = (call(key="first", x=tensor(16)), call(key="second", x=tensor(16)))
    failure = trace(source, *calls, tmp_path=tmp_path).failure
    assert failure is not None
    assert failure.where == "second"
    assert "neither an argument nor allocated in this call" in failure.message


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("copy[(1,)](x, y, 16, BLOCK=16, ir_override='x')", "'ir_override' is not known"),
        ("copy[(1,)](x, y, 16, BLOCK=16, num_warps='4')", "num_warps='4': give a positive integer"),
        ("copy[(1.5,)](x, y, 16, BLOCK=16)", "give one to three integers"),
        ("copy[(-1,)](x, y, 16, BLOCK=16)", "give one to three integers"),
        ("copy[(1, 1, 1, 1)](x, y, 16, BLOCK=16)", "give one to three integers"),
        ("copy[(True,)](x, y, 16, BLOCK=16)", "give one to three integers"),
        ("copy[(1,)](x, y, BLOCK=16)", "missing 1 required positional argument: 'n'"),
        ("copy[(1,)](x, y, 'a', BLOCK=16)", "failed to specialize argument of type: str"),
        ("copy[(1,)](x, y, 16, BLOCK=[16])", "constant BLOCK is a list"),
        ("copy[(1,)](x, (y, y), 16, BLOCK=16)", "argument y_ptr: tuple cannot be passed"),
        ("copy.run(x, y, 16, BLOCK=16, grid=(1,), warmup=True)", "warmup"),
        ("copy(x, y, 16, BLOCK=16)", "Cannot call @triton.jit'd outside"),
        ("for _ in range(65):\n    " + LAUNCH, "more than 64 launches"),
        ("for _ in range(300):\n    x.new_empty((1,))", "more than 256 allocations"),
        ("x.new_empty((1 << 30,))", "allocates 4294967360 bytes in a call"),
        ("undefined_name", "NameError: name 'undefined_name' is not defined"),
        ("raise SystemExit(0)", "SystemExit"),
        ("def again(): again()\nagain()", "RecursionError"),
        ("triton.autotune([triton.Config({})], [])(copy)[(1,)](x, y, 16, BLOCK=16)", "Autotuner"),
    ],
)
def test_host_code_that_launches_wrongly_is_told_how(body, text, tmp_path):
    failure = fault(tmp_path, body + "\nreturn y")
    assert failure.status == "TRACE"
    assert text in failure.message
    assert "\n" not in failure.message


def test_no_launch_or_allocation_while_the_module_loads(tmp_path):
    for line in ("x = torch.empty((3,))", "copy[(1,)](None, None, 3, BLOCK=16)"):
        source = HEADER + line + "\n\ndef forward(x):\n    return x.new_empty((1,))\n"
        failure = trace(source, call(x=tensor(4)), tmp_path=tmp_path).failure
        assert failure is not None
        assert (failure.status, failure.where) == ("TRACE", "module")
        assert "while the module loads" in failure.message


@pytest.mark.parametrize(
    ("source", "status", "text"),
    [
        ("def forward(x:\n", "TRACE", "the module does not load: line 1: "),
        ("\nimport nothing_of_this_name\n", "TRACE", "line 2: ModuleNotFoundError"),
        ("def backward(x): pass\n", "SIGNATURE", "entry forward is missing"),
        ("forward = 3\n", "SIGNATURE", "entry forward is a int, not a function"),
        ("def forward(y): pass\n", "SIGNATURE", "takes (y); the seed's takes (x[, num_programs])"),
        ("def forward(x, extra): pass\n", "SIGNATURE", "takes (x, extra)"),
        ("def forward(*x): pass\n", "SIGNATURE", "takes (x)"),
        ("def forward(x, **more): pass\n", "SIGNATURE", "takes (x, more)"),
    ],
)
def test_modules_that_do_not_load_or_lack_the_entries(source, status, text, tmp_path):
    failure = trace(source, call(x=tensor(4)), tmp_path=tmp_path).failure
    assert failure is not None
    assert failure.status == status
    assert text in failure.message


@pytest.mark.parametrize(
    ("body", "line", "text"),
    [
        ("y = tl.arange(0, 3)", 1, "arange's range must be a power of 2"),
        ("y = tl.zeros((4,), tl.float32) + tl.zeros((8,), tl.float32)", 1, "incompatible"),
        ("x = 1\n    y = undefined_name", 2, "undefined_name is not defined"),
        ("import os", 1, "unsupported AST node type: Import"),
    ],
)
def test_a_jit_body_that_is_not_triton_is_compile_with_its_line(body, line, text, tmp_path):
    source = HEADER + (
        f"@triton.jit\ndef bad(x_ptr):\n    {body}\n\n\n"
        "def forward(x):\n    y = x.new_empty((1,))\n    bad[(1,)](y)\n    return y\n"
    )
    result = trace(source, call(x=tensor(4)), tmp_path=tmp_path)
    failure = result.failure
    assert failure is not None
    assert failure.status == "COMPILE"
    assert text in failure.message
    assert failure.message.startswith(f"line {BODY_LINE + 1 + line}: ")


def test_an_error_inside_a_called_jit_function_names_the_line_there(tmp_path):
    source = HEADER + (
        "@triton.jit\ndef inner(x):\n    return x + tl.arange(0, 3)\n\n\n"
        "@triton.jit\ndef outer(x_ptr):\n    tl.store(x_ptr, inner(1))\n\n\n"
        "def forward(x):\n    y = x.new_empty((1,))\n    outer[(1,)](y)\n    return y\n"
    )
    failure = trace(source, call(x=tensor(4)), tmp_path=tmp_path).failure
    assert failure is not None
    assert failure.message.startswith(f"line {BODY_LINE + 2}: ")
    assert "power of 2" in failure.message


def test_a_kernel_cannot_launch_another_while_it_is_compiled(tmp_path):
    source = HEADER + (
        "from triton.runtime.jit import constexpr_function\n\n\n"
        "@constexpr_function\ndef sneak():\n    copy[(1,)](None, None, 1, BLOCK=16)\n\n\n"
        "@triton.jit\ndef bad(x_ptr):\n    tl.store(x_ptr, sneak())\n\n\n"
        "def forward(x):\n    y = x.new_empty((1,))\n    bad[(1,)](y)\n    return y\n"
    )
    failure = trace(source, call(x=tensor(4)), tmp_path=tmp_path).failure
    assert failure is not None
    assert "while a kernel is compiled" in failure.message


def test_an_unknown_device_is_the_hosts_fault(tmp_path):
    from kernelsmith.errors import MissingError
    from kernelsmith.model import TraceJob
    from kernelsmith.worker import frontend

    job = TraceJob(source=HEADER, entries=(), calls=(), device="cuda")
    with pytest.raises(MissingError, match="'cuda'"):
        frontend.run(job, tmp_path)
