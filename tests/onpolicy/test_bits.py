"""Equal means equal as integers: signs of zero, NaN, dtypes that meet, JSON's numbers."""

from pathlib import Path

import numpy as np
import pytest
import torch

from kernelsmith.model import ITEMSIZE_BYTES
from kernelsmith.onpolicy import storage
from kernelsmith.onpolicy.audit import audit
from tests.onpolicy.building import (
    beside,
    changed,
    draw,
    held,
    kinds,
    lines,
    logprobs,
    next_up,
    of_files,
    record,
    turn,
)


def test_equal_bits_are_on_policy_and_every_mean_is_exact() -> None:
    found = beside(draw(500), draw(500))
    assert found.verdict == "on-policy"
    assert found.broken_layer is None
    figures = found.figures
    assert (figures.not_one, figures.ratio_mean, figures.ratio_min, figures.ratio_max) == (
        0,
        1.0,
        1.0,
        1.0,
    )
    assert (figures.k1, figures.k3, figures.chi2_token, figures.ppl_ratio) == (0.0, 0.0, 0.0, 1.0)
    assert str(figures.k1) == "0.0", "of equal dumps a mean is 0, not −0"


def test_one_ulp_is_off_policy_although_the_mean_ratio_rounds_to_one() -> None:
    values = draw(2_000_000)
    found = beside(values, changed(values, 1_234_567, next_up))
    assert found.verdict == "off-policy"
    assert found.broken_layer == "numeric"
    assert found.figures.not_one == 1
    first = found.evidence.first
    assert first is not None
    assert first.place.index == 1_234_567
    assert (first.ulps, first.ulp_dtype) == (1, "float32")
    assert found.figures.ratio_mean_less_one != 0.0
    assert found.figures.ratio_max is not None
    assert found.figures.ratio_max > 1.0


def test_signs_of_zero_differ_as_bits_and_are_counted_apart() -> None:
    found = beside([-0.0, -1.0], [0.0, -1.0])
    assert found.verdict == "off-policy"
    assert (found.figures.not_one, found.figures.zero_signs) == (1, 1)
    assert found.figures.ratio_mean == 1.0
    assert [one.name for one in found.bins] == ["exactly 1", "sign of zero"]


@pytest.mark.parametrize("sides", [(True, True), (True, False), (False, True)])
def test_a_nan_equals_nothing_and_hides_its_token(sides: tuple[bool, bool]) -> None:
    values = [np.nan, -1.0]
    clean = [-0.5, -1.0]
    found = beside(values if sides[0] else clean, values if sides[1] else clean)
    assert found.verdict == "undecidable"
    assert found.figures.tokens == 1
    assert found.unseen == 1
    (fault,) = found.faults
    assert fault.kind == "nan"
    named = [name for name, is_nan in zip(("sampler", "trainer"), sides, strict=True) if is_nan]
    assert all(name in fault.detail for name in named)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_signalling_nan_is_a_nan_in_every_dtype(dtype: storage.Dtype) -> None:
    from dataclasses import replace

    pattern = {"bfloat16": 0x7F81, "float16": 0x7C01, "float32": 0x7F800001}[dtype]
    word = pattern.to_bytes(ITEMSIZE_BYTES[dtype], "little")
    held_bits = storage.from_words(word * 2, dtype)
    one = replace(turn([-1.0, -1.0]), logprobs=held_bits)
    assert "nan" in kinds(audit(held(one), held(one)))
    assert "nan" in kinds(audit(held(one), held(turn([-1.0, -1.0], dtype="float64"))))


def test_a_nan_beside_a_difference_is_named_and_the_difference_decides() -> None:
    found = beside([np.nan, -1.0], [-0.5, -2.0])
    assert found.verdict == "off-policy"
    assert kinds(found) == {"nan"}
    assert found.figures.not_one == 1


def test_a_nan_on_a_masked_token_is_nobodys_business() -> None:
    found = beside([np.nan, -1.0], [np.nan, -1.0], mask=[0, 1])
    assert found.verdict == "on-policy"
    assert found.figures.tokens == 1


def test_infinities_equal_on_both_sides_have_no_ratio() -> None:
    found = beside([-np.inf, -1.0], [-np.inf, -1.0])
    assert found.verdict == "undecidable"
    assert kinds(found) == {"infinite"}
    assert (found.figures.tokens, found.unseen) == (1, 1)


def test_an_infinity_on_one_side_is_a_ratio_of_zero_and_in_no_mean() -> None:
    found = beside([-0.5, -1.0], [-np.inf, -1.0])
    assert found.verdict == "off-policy"
    assert (found.figures.not_one, found.figures.infinite) == (1, 1)
    assert found.figures.ratio_min == 0.0
    assert found.figures.ratio_mean == 1.0
    assert found.figures.k1 == 0.0


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("float16", "float32"),
        ("float16", "float64"),
        ("float32", "float64"),
    ],
)
def test_dtypes_that_meet_are_widened_exactly_and_named(narrow: str, wide: str) -> None:
    values = draw(64).astype(narrow)
    same = audit(held(turn(values, dtype=narrow)), held(turn(values, dtype=wide)))
    assert same.verdict == "on-policy"
    assert "dtype" in kinds(same)
    other = values.astype(wide)
    other[3] = np.nextafter(other[3], other.dtype.type(0))
    found = audit(held(turn(values, dtype=narrow)), held(turn(other, dtype=wide)))
    assert found.verdict == "off-policy"
    assert found.evidence.first is not None
    assert found.evidence.first.place.index == 3


def bfloat16(values: np.ndarray) -> storage.LogProbs:
    tensor = torch.from_numpy(values).to(torch.bfloat16)
    return storage.LogProbs(
        words=tensor.view(torch.int16).numpy().view(np.uint16), dtype="bfloat16"
    )


def test_bfloat16_beside_float32_is_named_and_rounding_is_a_hint_not_a_pass() -> None:
    from dataclasses import replace

    from kernelsmith.onpolicy.hints import hints

    values = draw(64)
    stored = replace(turn(values), logprobs=bfloat16(values))
    found = audit(held(turn(values)), held(stored))
    assert found.verdict == "off-policy"
    assert {"dtype", "coarse"} <= kinds(found)
    assert any(hint.kind == "storage" and "bfloat16" in hint.explanation for hint in hints(found))
    exact = torch.from_numpy(values).to(torch.bfloat16).float().numpy()
    assert audit(held(turn(exact)), held(stored)).verdict == "on-policy"


def test_bfloat16_meets_float16_in_float32() -> None:
    assert storage.meeting("bfloat16", "float16") == "float32"
    a = bfloat16(np.array([-1.5], dtype=np.float32))
    b = logprobs([-1.5], "float16")
    assert storage.widened(a, "float32")[0] == storage.widened(b, "float32")[0] == 0xBFC00000


def test_rounding_to_bfloat16_is_torchs() -> None:
    values = np.concatenate(
        [draw(10_000), np.float32([0, -0.0, np.inf, -np.inf, 1 + 2**-8, 1e-40])]
    )
    ours = storage.narrowed(values.astype(np.float64), "bfloat16").words
    assert np.array_equal(ours, bfloat16(values).words)


def test_json_numbers_are_the_float64_they_parse_to(tmp_path: Path) -> None:
    one = lines(tmp_path / "a.jsonl", [{"logprobs": [-0.1], "tokens": [1]}], header=False)
    two = lines(
        tmp_path / "b.jsonl",
        [{"logprobs": [float(np.float32(-0.1))], "tokens": [1]}],
        header=False,
    )
    found = of_files(one, two)
    assert found.verdict == "off-policy"
    assert found.evidence.first is not None
    assert found.evidence.first.sampler_bits == "0xbfb999999999999a"


def test_numbers_of_no_declared_dtype_are_named_and_not_rounded(tmp_path: Path) -> None:
    one = lines(tmp_path / "a.jsonl", [record([-0.5, -1.5])])
    two = lines(tmp_path / "b.jsonl", [{**record([-0.5, -1.5]), "logprobs": [-0.5, -1.50000001]}])
    found = of_files(one, two)
    assert found.verdict == "off-policy"
    assert "inexact" in kinds(found)
    assert found.figures.not_one == 1


def test_json_minus_zero_keeps_its_sign(tmp_path: Path) -> None:
    row = '{"logprobs": [-0, -1.0], "tokens": [1, 2], "sequence": "a-0, b"}\n'
    (tmp_path / "a.jsonl").write_text(row)
    (tmp_path / "b.jsonl").write_text(row.replace("[-0,", "[0,"))
    (tmp_path / "c.jsonl").write_text(row.replace("[-0,", "[-0.0,"))
    assert of_files(tmp_path / "a.jsonl", tmp_path / "b.jsonl").figures.zero_signs == 1
    same = of_files(tmp_path / "a.jsonl", tmp_path / "c.jsonl")
    assert same.verdict == "on-policy"


def test_a_log_prob_above_zero_is_named() -> None:
    found = beside([0.5, -1.0], [0.5, -1.0])
    assert found.verdict == "on-policy"
    assert kinds(found) == {"positive"}
