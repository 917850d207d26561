"""What a plan records: buffers, offsets, grids, arguments, classes."""

import math

import pytest
import torch

from kernelsmith.model import Buffer, LaunchArg, OutputRef, TensorMeta

from .programs import HEADER, call, tensor, trace

COPY = (
    HEADER
    + """
def forward(x):
    y = x.new_empty(x.shape)
    n = x.shape[0] * x.shape[1]
    copy[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64, num_warps=2)
    return y
"""
)


def test_a_launch_is_recorded_with_buffers_grid_and_arguments(tmp_path):
    result = trace(COPY, call(x=tensor(5, 40)), tmp_path=tmp_path)
    assert result.failure is None
    plan = result.plans["call"]
    assert plan.buffers == (Buffer(nbytes=800, arg="x"), Buffer(nbytes=800))
    (launch,) = plan.launches
    assert launch.grid == (4, 1, 1)
    assert launch.args == (
        LaunchArg(kind="ptr", buffer=0),
        LaunchArg(kind="ptr", buffer=1),
        LaunchArg(kind="i32", value=200),
    )
    meta = TensorMeta(shape=(5, 40), strides=(40, 1), dtype="float32")
    assert plan.outputs == (OutputRef(buffer=1, offset_bytes=0, meta=meta),)
    classes = {launch.plan_class, launch.plan_class_unaligned}
    assert set(result.classes) == classes
    assert len(classes) == 2
    assert result.classes[launch.plan_class].options == {"num_warps": 2}
    assert "x_ptr:*fp32/16" in result.classes[launch.plan_class].specialisation
    assert "x_ptr:*fp32 " in result.classes[launch.plan_class_unaligned].specialisation


def test_views_offsets_and_strides_are_recorded_in_bytes(tmp_path):
    source = (
        HEADER
        + """
def forward(x):
    scratch = torch.empty((3, 16), dtype=torch.bfloat16)
    tail = scratch[1:].view(2, 4, 4).transpose(0, 1)
    copy[(1,)](x[1, 3:], tail, 16, BLOCK=16)
    return scratch[2], scratch.new_empty((0,))
"""
    )
    result = trace(source, call(x=tensor(4, 10, pad=2)), tmp_path=tmp_path)
    assert result.failure is None
    plan = result.plans["call"]
    assert plan.buffers[0] == Buffer(nbytes=4 * (3 * 12 + 10), arg="x")
    assert plan.buffers[1] == Buffer(nbytes=96)
    assert [arg.offset_bytes for arg in plan.launches[0].args[:2]] == [4 * 15, 32]
    assert plan.outputs[0].offset_bytes == 64
    assert plan.outputs[1].meta.shape == (0,)


def test_a_pointer_off_sixteen_bytes_is_never_called_aligned(tmp_path):
    source = HEADER + (
        "\ndef forward(x):\n    y = x.new_empty((16,))\n"
        "    copy[(1,)](x[1:], y, 15, BLOCK=16)\n    return y\n"
    )
    result = trace(source, call(x=tensor(16)), tmp_path=tmp_path)
    (launch,) = result.plans["call"].launches
    assert "x_ptr:*fp32 y_ptr:*fp32/16" in result.classes[launch.plan_class].specialisation


def test_scalars_keep_type_width_and_sign(tmp_path):
    source = """
import triton
import triton.language as tl

@triton.jit
def many(x_ptr, a, b, c, d, e, f, g, h):
    tl.store(x_ptr, a + b + c + d + e + f)

def forward(x, eps):
    y = x.new_empty((1,))
    many[(1,)](y, 3, 1 << 40, (1 << 64) - 1, True, eps, -0.0, None, 1)
    return y
"""
    result = trace(source, call(x=tensor(4), eps=math.inf), tmp_path=tmp_path, emit=False)
    assert result.failure is None
    (launch,) = result.plans["call"].launches
    kinds = [(arg.kind, arg.value) for arg in launch.args[1:]]
    assert kinds[:5] == [("i32", 3), ("i64", 1 << 40), ("i64", -1), ("i1", 1), ("f32", math.inf)]
    assert kinds[5][0] == "f32"
    assert math.copysign(1, kinds[5][1]) == -1
    assert len(kinds) == 6


@pytest.mark.parametrize(
    ("grid", "expected"),
    [
        ("(2, 3)", (2, 3, 1)),
        ("[4]", (4, 1, 1)),
        ("lambda meta: (triton.cdiv(meta['n'], meta['BLOCK']), meta['n'])", (2, 17, 1)),
    ],
)
def test_grids_may_be_tuples_lists_or_functions_of_all_arguments(grid, expected, tmp_path):
    source = HEADER + (
        f"\ndef forward(x):\n    y = x.new_empty((17,))\n    grid = {grid}\n"
        "    copy[grid](x, y, 17, BLOCK=16)\n    return y\n"
    )
    result = trace(source, call(x=tensor(17)), tmp_path=tmp_path, emit=False)
    assert result.plans["call"].launches[0].grid == expected


def test_an_empty_grid_is_no_launch(tmp_path):
    result = trace(COPY, call(x=tensor(0, 40)), tmp_path=tmp_path)
    assert result.failure is None
    assert result.plans["call"].launches == ()
    assert result.classes == {}
    assert result.plans["call"].outputs[0].meta.shape == (0, 40)


def test_num_programs_is_passed_to_those_who_ask(tmp_path):
    source = HEADER + (
        "\ndef forward(x, num_programs):\n    y = x.new_empty((64,))\n"
        "    copy[(num_programs,)](x, y, 64, BLOCK=32)\n    return y\n"
    )
    result = trace(source, call(x=tensor(64)), tmp_path=tmp_path, emit=False)
    assert result.plans["call"].launches[0].grid == (2, 1, 1)


def test_real_tensors_give_the_same_plans_and_classes(tmp_path):
    calls = [call(key=str(rows), x=tensor(rows, 40, pad=8)) for rows in (0, 1, 5, 16)]
    meta = trace(COPY, *calls, tmp_path=tmp_path)
    real = trace(COPY, *calls, tmp_path=tmp_path, real=True)
    assert meta.failure is None
    assert real == meta


def test_host_code_that_tells_a_trace_from_a_call_is_seen_by_the_real_run(tmp_path):
    source = HEADER + (
        "\ndef forward(x):\n    y = x.new_empty((64,))\n    block = 64 if x.is_meta else 32\n"
        "    copy[(1,)](x, y, 64, BLOCK=block)\n    return y\n"
    )
    meta = trace(source, call(x=tensor(64)), tmp_path=tmp_path, emit=False)
    real = trace(source, call(x=tensor(64)), tmp_path=tmp_path, emit=False, real=True)
    assert meta.plans != real.plans


def test_what_is_traced_twice_is_the_same(tmp_path):
    calls = [call(key=str(rows), x=tensor(rows, 24)) for rows in (1, 2, 16)]
    first = trace(COPY, *calls, tmp_path=tmp_path)
    assert trace(COPY, *calls, tmp_path=tmp_path) == first


LIKE = (
    HEADER
    + """
def forward(x):
    turned = x.transpose(0, 1)
    plain = torch.empty_like(x, dtype=torch.bfloat16, memory_format=torch.contiguous_format)
    return torch.empty_like(x), torch.empty_like(turned), plain
"""
)


@pytest.mark.parametrize(("rows", "cols", "pad"), [(1, 8, 5), (4, 8, 5), (4, 1, 5), (0, 8, 5)])
def test_what_is_allocated_alike_has_a_real_tensors_strides(rows, cols, pad, tmp_path):
    result = trace(LIKE, call(x=tensor(rows, cols, pad=pad)), tmp_path=tmp_path)
    assert result.failure is None
    real = torch.empty((rows, cols + pad))[:, :cols]
    plain = torch.empty_like(real, dtype=torch.bfloat16, memory_format=torch.contiguous_format)
    made = [torch.empty_like(real), torch.empty_like(real.transpose(0, 1)), plain]
    found = [output.meta for output in result.plans["call"].outputs]
    assert [meta.strides for meta in found] == [tensor.stride() for tensor in made]
    assert [meta.dtype for meta in found] == ["float32", "float32", "bfloat16"]
