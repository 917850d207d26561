"""What the seeds promise: a token's bits do not depend on the batch, on the path or on strides,
and a batch split at its token block continues to the same bits."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

DTYPES = ["bfloat16", "float32"]
TOKENS = 140  # crosses a tile of 128 tokens and several blocks of 32 and 64


def rows_of(data: bytes, rows: int) -> list[bytes]:
    size = len(data) // rows
    return [data[i * size : (i + 1) * size] for i in range(rows)]


COMPOSITIONS = {
    "decode, alone": (77,),
    "decode at batch 7": (3, 139, 0, 64, 63, 128, 77),
    "chunk": tuple(range(64, 128)),
    "last chunk": tuple(range(128, 140)),
    "permuted": tuple(np.random.default_rng(4).permutation(TOKENS).tolist()),
    "padded": (0, -1, 1, -1, 139, -1),
}
WIDTHS = {
    "rms_norm": {"N": 1024},
    "linear": {"N": 72, "K": 136},
    "swiglu": {"N": 200},
    "logprob": {"N": 1100},
}
ROW_CALLS = [
    ("rms_norm", "train", "infer"),
    ("rms_norm", "residual_train", "residual_infer"),
    ("rms_norm", "residual_backward", "residual_backward"),
    ("linear", "bias_train", "bias_infer"),
    ("linear", "backward", "backward"),
    ("swiglu", "train", "infer"),
    ("swiglu", "backward", "backward"),
    ("logprob", "train", "infer"),
    ("logprob", "entropy_backward", "entropy_backward"),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("regime", ["cancel", "ties"])
@pytest.mark.parametrize(("name", "whole", "part"), ROW_CALLS)
def test_a_token_keeps_its_bits_in_every_batch_and_on_both_paths(
    request: pytest.FixtureRequest, name: str, whole: str, part: str, regime: str, dtype: str
) -> None:
    bench = request.getfixturevalue(name)
    batch = bench.bits(bench.case(whole, dtype, regime, M=TOKENS, **WIDTHS[name]))
    row_outputs = [o.name for o in bench.task.call(part).outputs if o.cls == "row"]
    for label, rows in COMPOSITIONS.items():
        case = bench.case(part, dtype, regime, M=len(rows), **WIDTHS[name])
        given = bench.tensors(case, rows=rows, base_tokens=TOKENS)
        got = bench.bits(case, given)
        for output in row_outputs:
            expected = rows_of(batch[output], TOKENS)
            for position, row in enumerate(rows):
                actual = rows_of(got[output], len(rows))[position]
                assert row < 0 or actual == expected[row], (label, output, row)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("name", "call", "carry", "block"),
    [
        ("rms_norm", "backward", "backward_carry", 32),
        ("linear", "bias_backward", "bias_backward_carry", 64),
    ],
)
def test_a_batch_split_at_its_block_sums_to_the_same_bits(
    request: pytest.FixtureRequest, name: str, call: str, carry: str, block: int, dtype: str
) -> None:
    bench = request.getfixturevalue(name)
    batch_outputs = [o for o in bench.task.call(call).outputs if o.cls == "batch"]
    case = bench.case(call, dtype, "normal", M=TOKENS, **WIDTHS[name])
    whole = bench.bits(case)
    assert {o.block for o in batch_outputs} == {block}
    for cut in range(block, TOKENS, block):
        first = bench.case(call, dtype, "normal", M=cut, **WIDTHS[name])
        given = bench.tensors(first, rows=tuple(range(cut)), base_tokens=TOKENS)
        sums = bench.run(first, given)
        second = bench.case(carry, dtype, "normal", M=TOKENS - cut, **WIDTHS[name])
        given = bench.tensors(second, rows=tuple(range(cut, TOKENS)), base_tokens=TOKENS)
        given |= {o.carry: sums[o.name] for o in batch_outputs}
        got = bench.bits(second, given)
        for output in batch_outputs:
            assert got[output.name] == whole[output.name], (cut, output.name)


def test_another_split_changes_the_bits_and_so_the_block_matters(rms_norm: Any) -> None:
    whole = rms_norm.bits(rms_norm.case("backward", "float32", "normal", M=TOKENS, N=128))
    first = rms_norm.case("backward", "float32", "normal", M=45, N=128)
    sums = rms_norm.run(first, rms_norm.tensors(first, rows=tuple(range(45)), base_tokens=TOKENS))
    second = rms_norm.case("backward_carry", "float32", "normal", M=TOKENS - 45, N=128)
    given = rms_norm.tensors(second, rows=tuple(range(45, TOKENS)), base_tokens=TOKENS)
    assert rms_norm.bits(second, given | {"dw_carry": sums["dw"]})["dw"] != whole["dw"]


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("rms_norm", "residual_backward"),
        ("linear", "bias_backward"),
        ("swiglu", "backward"),
        ("logprob", "train"),
        ("logprob", "entropy_backward"),
    ],
)
def test_an_empty_batch_gives_empty_rows_and_zero_sums(
    request: pytest.FixtureRequest, name: str, call: str
) -> None:
    bench = request.getfixturevalue(name)
    out = bench.run(bench.case(call, "bfloat16", M=0, **WIDTHS[name]))
    for output in bench.task.call(call).outputs:
        tensor = out[output.name]
        if output.cls == "row":
            assert tensor.shape[0] == 0
        else:
            assert not tensor.view(torch.int32).any(), output.name


def test_an_empty_second_part_passes_the_carry_on(linear: Any) -> None:
    case = linear.case("bias_backward_carry", "bfloat16", M=0, N=72, K=136)
    given = linear.tensors(case)
    out = linear.run(case, given)
    assert torch.equal(out["dw"].view(torch.int32), given["dw_carry"].view(torch.int32))
    assert torch.equal(out["db"].view(torch.int32), given["db_carry"].view(torch.int32))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("rms_norm", "residual_train"),
        ("rms_norm", "backward"),
        ("linear", "bias_backward"),
        ("swiglu", "train"),
        ("swiglu", "backward"),
        ("logprob", "train"),
        ("logprob", "entropy_backward"),
    ],
)
def test_strides_of_rows_do_not_change_the_bits(
    request: pytest.FixtureRequest, name: str, call: str
) -> None:
    bench = request.getfixturevalue(name)
    case = bench.case(call, "bfloat16", "cancel", M=19, **WIDTHS[name])
    padded = dataclasses.replace(case, row_stride_pad=24)
    assert bench.bits(padded) == bench.bits(case)


def test_absent_carry_equals_a_carry_of_zeros(linear: Any) -> None:
    case = linear.case("bias_backward", "float32", "normal", M=65, N=72, K=136)
    carried = linear.case("bias_backward_carry", "float32", "normal", M=65, N=72, K=136)
    given = linear.tensors(carried)
    zeros = {n: torch.zeros_like(given[n]) for n in ("dw_carry", "db_carry")}
    assert linear.bits(carried, given | zeros) == linear.bits(case)
