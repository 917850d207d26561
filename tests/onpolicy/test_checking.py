"""The check of a trainer's first step: equal bits pass, and nothing else does."""

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from kernelsmith.errors import EvidenceError, InputError, OffPolicyError
from kernelsmith.onpolicy.checking import check

VALUES = [[-0.1, -2.5, -0.75], [-1.0, -3.0, -0.5]]


def tensor(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(VALUES, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_equal_bits_pass_and_come_back_as_an_audit(dtype: torch.dtype) -> None:
    found = check(tensor(dtype).requires_grad_(), tensor(dtype))
    assert (found.verdict, found.figures.tokens, found.figures.sequences) == ("on-policy", 6, 2)
    assert found.figures.ratio_min == found.figures.ratio_max == 1.0


def test_one_bit_raises_and_is_named() -> None:
    trainer = tensor()
    trainer[1, 2] = float(np.nextafter(np.float32(-0.5), np.float32(0.0)))
    with pytest.raises(OffPolicyError, match=r"1 of 6 tokens.*row 1, token 2: -0.5 at") as caught:
        check(tensor(), trainer)
    assert caught.value.exit_code == 1
    assert caught.value.hint is not None
    assert torch.allclose(tensor(), trainer, rtol=1e-6)  # what a tolerance would have let through


def test_it_may_warn_and_still_gives_the_audit() -> None:
    with pytest.warns(RuntimeWarning, match="6 of 6 tokens"):
        found = check(tensor(), tensor() - 1, on="warn")
    assert found.verdict == "off-policy"


def test_what_is_masked_is_not_looked_at() -> None:
    trainer = tensor()
    trainer[0, 0], trainer[1, 1] = math.nan, -9.0
    mask = torch.tensor([[0, 1, 1], [1, 0, 1]])
    for held in (mask, mask.bool(), mask.float(), mask.tolist()):
        assert check(tensor(), trainer, mask=held).figures.tokens == 4


def test_minus_zero_is_not_zero() -> None:
    with pytest.raises(OffPolicyError, match="1 of 1 tokens"):
        check([0.0], [-0.0])


@pytest.mark.parametrize(
    ("values", "mask", "words"),
    [
        ([-1.0, math.nan], None, "nan: token 1"),
        ([-1.0, -math.inf], None, "infinite"),
        ([-1.0, -2.0], [0, 0], "empty"),
        ([], None, "empty"),
    ],
)
@pytest.mark.parametrize("on", ["raise", "warn"])
def test_what_cannot_be_seen_never_passes(values: Any, mask: Any, words: str, on: Any) -> None:
    expected: Any = (
        pytest.raises(EvidenceError, match=words)
        if on == "raise"
        else pytest.warns(RuntimeWarning, match=words)
    )
    with expected:
        check(values, values, mask=mask, on=on)


@pytest.mark.parametrize(
    ("sampler", "trainer", "more", "words"),
    [
        ([-1.0], [-1.0, -2.0], {}, r"sampler \[1\], trainer \[2\]"),
        ([[[-1.0]]], [[[-1.0]]], {}, "do not go together"),
        ([-1.0], [-1.0], {"mask": [1, 1]}, r"mask \[2\]"),
        ([-1.0], [-1.0], {"mask": [0.3]}, "something else than 0 and 1"),
        ([-1.0], [-1.0], {"on": "ignore"}, "says nothing"),
        (torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32), {}, "no log-probs"),
    ],
)
def test_what_is_no_step_is_refused(sampler: Any, trainer: Any, more: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check(sampler, trainer, **more)


def test_dtypes_that_differ_are_widened_exactly_never_rounded() -> None:
    exact = torch.tensor([-0.5, -2.0], dtype=torch.bfloat16)
    assert check(exact, exact.float()).verdict == "on-policy"
    with pytest.raises(OffPolicyError):
        check(tensor().bfloat16(), tensor())


def test_torch_is_imported_only_by_those_who_have_it() -> None:
    code = (
        "import sys; from kernelsmith import onpolicy; "
        "onpolicy.check([-1.0], [-1.0]); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
