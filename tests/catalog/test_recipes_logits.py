"""Recipes of swiglu and logprob: indices in range, coupled tensors, values that tell."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelsmith import cases, catalog
from kernelsmith.errors import InputError
from kernelsmith.model import Inputs, Task
from kernelsmith.numerics import recipes, recipes_exp
from tests.catalog.test_recipes import digest

F32 = np.float32


@pytest.fixture(scope="module")
def logprob() -> Task:
    return catalog.load_task("logprob", "cpu")


@pytest.fixture(scope="module")
def swiglu() -> Task:
    return catalog.load_task("swiglu", "cpu")


def inputs(task: Task, call: str, dtype: str, regime: str, tokens: int, cols: int) -> Inputs:
    case = cases.call_for(task, call, dtype, {"M": tokens, "N": cols}, regime)
    return cases.inputs_for(task, case, 3)


PINNED = {
    "normal": ("98879af18a383f1a", "e22b6c349603428a"),
    "cancel": ("bc9fa732812b93b0", "27e8ee9754e90640"),
    "absorb": ("8f92108d95c1f1b5", "64e4f9f01dfc0943"),
    "logspace": ("41696e595342bb54", "9bbb33ed3cfbfb53"),
    "ties": ("8c70fdeaa70127cb", "bd2a305ad7b48d28"),
    "pairs": ("4395f28af0bbda92", "f9db03bb78a23f6c"),
    "constant": ("f61b212d7e49577e", "aebddaae34845956"),
    "special": ("90ca48fd2ea22999", "b2b98b6df6e3310f"),
    "huge": ("f29172c8e4b8325b", "8c63ffd906ffcab8"),
    "tiny": ("fad62c210fe3fc6b", "6ee2d0f9a49bd219"),
    "each": ("9643d4c8ba5cd76a", "ba51641ed52adc4d"),
}


@given(st.floats(-690, 690))
@settings(max_examples=200, deadline=None)
def test_the_exponential_and_the_logarithm_are_right(value: float) -> None:
    power = float(recipes_exp.exp(np.array([value]))[0])
    assert math.isclose(power, math.exp(value), rel_tol=1e-10)
    assert math.isclose(float(recipes_exp.log(np.array([power]))[0]), value, abs_tol=1e-9)


def test_the_exponential_keeps_nan_and_takes_infinity_for_little() -> None:
    found = recipes_exp.exp(np.array([math.nan, -math.inf, 0.0]))
    assert math.isnan(found[0])
    assert 0 < found[1] < 1e-300
    assert found[2] == 1.0


@pytest.mark.parametrize("regime", recipes.REGIME_NAMES)
def test_an_index_is_in_range_and_takes_both_ends_and_the_largest(
    logprob: Task, regime: str
) -> None:
    drawn = recipes.draw(inputs(logprob, "train", "bfloat16", regime, 200, 259))
    target = drawn["target"]
    assert target.dtype == np.int64
    assert target.min() == 0
    assert target.max() == 258
    x = recipes.to_float64(drawn["x"], "bfloat16")
    with np.errstate(invalid="ignore"):
        largest = np.nanmax(np.where(np.isnan(x), -np.inf, x), axis=1)
        share = (x[np.arange(200), target] == largest).mean()
    assert share > 0.25
    assert len(np.unique(target)) > 20


@pytest.mark.parametrize("cols", [1, 2, 3, 7])
@pytest.mark.parametrize("regime", recipes.REGIME_NAMES)
def test_narrow_rows_are_drawn_too(logprob: Task, swiglu: Task, regime: str, cols: int) -> None:
    drawn = recipes.draw(inputs(logprob, "entropy_backward", "float32", regime, 6, cols))
    assert ((drawn["target"] >= 0) & (drawn["target"] < cols)).all()
    assert drawn["x"].shape == (6, cols)
    assert (
        recipes.draw(inputs(swiglu, "backward", "float32", regime, 6, cols))["up"].shape[1] == cols
    )


def test_an_empty_batch_has_no_index(logprob: Task) -> None:
    assert recipes.draw(inputs(logprob, "entropy_backward", "float32", "cancel", 0, 9))[
        "target"
    ].shape == (0,)


@pytest.mark.parametrize("regime", ["cancel", "special", "normal"])
def test_recomposed_batches_keep_a_tokens_target_and_statistics(logprob: Task, regime: str) -> None:
    rows = (7, 3, 0, 11)
    case = cases.call_for(logprob, "entropy_backward", "bfloat16", {"M": 12, "N": 64}, regime)
    whole = recipes.draw(cases.inputs_for(logprob, case, 5))
    part = cases.call_for(logprob, "entropy_backward", "bfloat16", {"M": 4, "N": 64}, regime)
    picked = recipes.draw(cases.inputs_for(logprob, part, 5, rows=rows, base_tokens=12))
    for name, array in picked.items():
        assert array.tobytes() == whole[name][list(rows)].tobytes(), name


def test_lse_and_entropy_belong_to_the_logits(logprob: Task) -> None:
    drawn = recipes.draw(inputs(logprob, "entropy_backward", "float32", "normal", 9, 300))
    x = drawn["x"].astype(np.float64)
    lse = np.log(np.exp(x).sum(axis=1))
    p = np.exp(x - lse[:, None])
    np.testing.assert_allclose(drawn["lse"], lse, rtol=1e-7)
    np.testing.assert_allclose(drawn["entropy"], -(p * np.log(p)).sum(axis=1), rtol=1e-6)


def test_an_index_must_be_an_integer(logprob: Task) -> None:
    whole = inputs(logprob, "train", "float32", "normal", 2, 8)
    wrong = tuple(
        spec
        if spec.recipe == "logits"
        else type(spec)(
            name=spec.name,
            meta=whole.tensors[0].meta,
            recipe="index",
            base_shape=spec.base_shape,
            token_axis=spec.token_axis,
            rows=None,
        )
        for spec in whole.tensors
    )
    with pytest.raises(InputError, match="draws integers"):
        recipes.draw(Inputs(tensors=wrong, scalars=(), regime="normal", seed=1))


@pytest.mark.parametrize("regime", ["absorb", "cancel"])
def test_another_order_of_the_sum_shows_in_lse(logprob: Task, regime: str) -> None:
    drawn = recipes.draw(inputs(logprob, "train", "bfloat16", regime, 40, 1000))
    e = np.exp(recipes.to_float64(drawn["x"], "bfloat16")).astype(F32)

    def summed(lanes: int) -> np.ndarray:
        acc = np.zeros((40, lanes), F32)
        for start in range(0, 1000, lanes):
            part = e[:, start : start + lanes]
            acc[:, : part.shape[1]] += part
        while acc.shape[1] > 1:
            acc = acc[:, ::2] + acc[:, 1::2]
        return np.log(acc[:, 0].astype(np.float64)).astype(F32)

    assert (summed(1024) != summed(512)).mean() > (0.5 if regime == "absorb" else 0.2)


def test_one_ulp_of_silu_shows_in_bfloat16(swiglu: Task) -> None:
    def share(regime: str) -> float:
        drawn = recipes.draw(inputs(swiglu, "train", "bfloat16", regime, 60, 1000))
        gate, up = (recipes.to_float64(drawn[n], "bfloat16") for n in ("gate", "up"))
        silu = (gate / (1 + np.exp(-gate))).astype(F32)
        up32 = up.astype(F32)
        kept = recipes.from_float64((silu * up32).astype(np.float64), "bfloat16")
        other = np.nextafter(silu, F32(np.inf)) * up32
        return float((recipes.from_float64(other.astype(np.float64), "bfloat16") != kept).mean())

    assert share("ties") > 20 * max(share("normal"), 2.0**-16)


def test_bytes_are_pinned(logprob: Task, swiglu: Task) -> None:
    for regime, expected in PINNED.items():
        found = (
            digest(inputs(logprob, "entropy_backward", "bfloat16", regime, 12, 130)),
            digest(inputs(swiglu, "backward", "bfloat16", regime, 12, 130)),
        )
        assert found == expected, regime
