"""Host code hands row strides on; it cannot ask for one exact stride."""

import textwrap

import pytest

from kernelsmith.model import TensorMeta

from .programs import HEADER, call, trace

PADDED = TensorMeta(shape=(4, 16), strides=(24, 1), dtype="float32")
KERNEL = (
    "@triton.jit\ndef rows(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):\n"
    "    cols = tl.arange(0, BLOCK)\n"
    "    x = tl.load(x_ptr + tl.program_id(0) * stride + cols)\n"
    "    tl.store(y_ptr + tl.program_id(0) * BLOCK + cols, x + n)\n\n\n"
)


def traced(tmp_path, body: str):
    source = HEADER + KERNEL + "def forward(x):\n    y = x.new_empty((4, 16))\n"
    source += textwrap.indent(textwrap.dedent(body), "    ") + "\n    return y\n"
    return trace(source, call(x=PADDED), tmp_path=tmp_path)


@pytest.mark.parametrize(
    "stride",
    [
        "x.stride(0)",
        "x.stride()[0]",
        "x.stride(0) if x.stride(1) == 1 else 0",
        "x.stride(0) if x.stride(0) != y.stride(0) else 24",
        "x.stride(0) * 2 + x.stride(1) * -24",
        "x.stride(0) if x.stride(0) % 8 == 0 else 0",
    ],
)
def test_strides_reach_a_kernel_as_integers(stride, tmp_path):
    result = traced(tmp_path, f"rows[(4,)](x, y, {stride}, 3, BLOCK=16)")
    assert result.failure is None, result.failure
    (launch,) = result.plans["call"].launches
    assert [arg.value for arg in launch.args if arg.kind == "i32"] == [24, 3]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("n = 3 if x.stride(0) == 24 else 4", "compares a stride with 24"),
        ("n = 3 if x.stride(0) == x.shape[1] + 8 else 4", "compares a stride with 24"),
        ("n = 3 if x.stride(0) in (24, 32) else 4", "compares a stride with 24"),
        ("n = 3 if x.stride(0) > 23 else 4", "orders strides"),
        ("n = min(x.stride(0), 25)", "orders strides"),
        ("n = 3 if x.stride(0) % 24 == 0 else 4", "modulo 24"),
        ("n = range(x.stride(0))", "uses a stride as an integer"),
        ("n = int(x.stride(0))", "uses a stride as an integer"),
        ("n = x.stride(0) - 24", "unsupported operand"),
        ("n = x.stride(0) // 24", "unsupported operand"),
        ("n = abs(x.stride(0) + -24)", "bad operand type for abs"),
        ("n = hash(x.stride(0))", "hashes a stride"),
        ("n = x.new_empty((x.stride(0),))", "Stride"),
        ("rows[(x.stride(0),)](x, y, 16, 3, BLOCK=16)", "grid (a stride,)"),
        (
            'rows[lambda META: (4 - (META["stride"] == 24),)](x, y, x.stride(0), 3, BLOCK=16)',
            "compares a stride with 24",
        ),
        ("rows[(4,)](x, y, 16, 3, BLOCK=x.stride(0))", "binds a stride to the constant BLOCK"),
    ],
)
def test_what_asks_for_one_stride_is_refused(body, text, tmp_path):
    failure = traced(tmp_path, body).failure
    assert failure is not None
    assert failure.status == "TRACE"
    assert text in failure.message
