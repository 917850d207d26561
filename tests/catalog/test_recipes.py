"""Input recipes: the same bytes everywhere, tokens that survive recomposition, values that tell."""

import hashlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelsmith import cases, catalog
from kernelsmith.errors import InputError
from kernelsmith.model import Case, Inputs, Task
from kernelsmith.numerics import recipes
from kernelsmith.numerics.recipes_float import random_words


@pytest.fixture(scope="module")
def norm() -> Task:
    return catalog.load_task("rms_norm", "cpu")


@pytest.fixture(scope="module")
def linear() -> Task:
    return catalog.load_task("linear", "cpu")


def digest(inputs: Inputs) -> str:
    hashed = hashlib.sha256()
    for name, array in sorted(recipes.draw(inputs).items()):
        hashed.update(name.encode() + str(array.shape).encode() + array.tobytes())
    return hashed.hexdigest()[:16]


def norm_case(task: Task, call: str, dtype: str, regime: str, tokens: int = 12) -> Case:
    return cases.call_for(task, call, dtype, {"M": tokens, "N": 128}, regime)


PINNED = {
    "normal": "2a156151c00920fe",
    "cancel": "51cab05c91b8df7f",
    "absorb": "42b4f7aa89cfd5bf",
    "logspace": "4b0ee2a48e08ca9c",
    "ties": "77bc0d90101911f5",
    "pairs": "9f19b2261119a29a",
    "constant": "b8f0ed72445fd9b5",
    "special": "e48f3e03a67f0328",
    "huge": "bcbd9788660b6c5e",
    "tiny": "3bb1fcfccdc7ecbc",
    "each": "52cee8bec409ae52",
}


@pytest.mark.parametrize("regime", recipes.REGIME_NAMES)
def test_bytes_are_pinned_across_releases_and_machines(norm: Task, regime: str) -> None:
    case = norm_case(norm, "residual_backward", "bfloat16", regime)
    assert digest(cases.inputs_for(norm, case, seed=7)) == PINNED[regime]


def test_another_process_draws_the_same_bytes(linear: Task) -> None:
    case = cases.call_for(linear, "bias_train", "float32", {"M": 5, "N": 6, "K": 8}, "cancel")
    inputs = cases.inputs_for(linear, case, seed=3)
    program = (
        "import sys, pickle, hashlib\n"
        "from kernelsmith.numerics import recipes\n"
        "inputs = pickle.load(sys.stdin.buffer)\n"
        "h = hashlib.sha256()\n"
        "for n, a in sorted(recipes.draw(inputs).items()):\n"
        "    h.update(n.encode() + str(a.shape).encode() + a.tobytes())\n"
        "print(h.hexdigest()[:16])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(inputs), capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == digest(inputs)


@pytest.mark.parametrize("regime", recipes.REGIME_NAMES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_recomposed_batches_hold_the_same_tokens(norm: Task, regime: str, dtype: str) -> None:
    base = norm_case(norm, "residual_backward", dtype, regime)
    rows = (7, 3, 3, 0, 11)
    part = norm_case(norm, "residual_backward", dtype, regime, tokens=len(rows))
    whole = recipes.draw(cases.inputs_for(norm, base, 5))
    picked = recipes.draw(cases.inputs_for(norm, part, 5, rows=rows, base_tokens=12))
    for name, array in picked.items():
        source = whole[name]
        expected = source if name == "weight" else source[list(rows)]
        assert array.tobytes() == expected.tobytes(), name


def test_both_paths_draw_the_same_tokens(norm: Task) -> None:
    train = recipes.draw(
        cases.inputs_for(norm, norm_case(norm, "residual_train", "bfloat16", "ties"), 5)
    )
    infer = recipes.draw(
        cases.inputs_for(norm, norm_case(norm, "residual_infer", "bfloat16", "ties"), 5)
    )
    assert {n: a.tobytes() for n, a in train.items()} == {n: a.tobytes() for n, a in infer.items()}


def test_padding_rows_hold_other_values_than_any_token(norm: Task) -> None:
    rows = (0, -1, 1, -1)
    part = norm_case(norm, "backward", "float32", "normal", tokens=4)
    drawn = recipes.draw(cases.inputs_for(norm, part, 5, rows=rows, base_tokens=2))
    whole = recipes.draw(
        cases.inputs_for(norm, norm_case(norm, "backward", "float32", "normal", 2), 5)
    )
    assert np.array_equal(drawn["x"][[0, 2]], whole["x"])
    assert not np.isin(drawn["x"][[1, 3]], whole["x"]).any()
    assert not np.array_equal(drawn["x"][1], drawn["x"][3])


def test_rstd_belongs_to_x(norm: Task) -> None:
    case = norm_case(norm, "backward", "bfloat16", "normal")
    drawn = recipes.draw(cases.inputs_for(norm, case, 5))
    x = recipes.to_float64(drawn["x"], "bfloat16")
    expected = 1 / np.sqrt((x * x).mean(axis=1) + 1e-6)
    np.testing.assert_allclose(drawn["rstd"], expected, rtol=1e-7)


def test_ties_put_outputs_within_float32_noise_of_a_bfloat16_tie(norm: Task) -> None:
    case = norm_case(norm, "train", "bfloat16", "ties", tokens=64)
    drawn = recipes.draw(cases.inputs_for(norm, case, 5))
    x = recipes.to_float64(drawn["x"], "bfloat16")
    weight = recipes.to_float64(drawn["weight"], "bfloat16")
    y = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * weight
    mantissa = np.frexp(np.abs(y))[0] * 256  # bfloat16 keeps its integer part
    beside = np.abs(mantissa % 1 - 0.5) < 256 * 2.0**-22
    assert beside.mean() > 0.3


def test_cancel_makes_exact_sums_vanish(linear: Task) -> None:
    case = cases.call_for(linear, "backward", "float32", {"M": 8, "N": 64, "K": 64}, "cancel")
    drawn = recipes.draw(cases.inputs_for(linear, case, 5))
    x, w, dy = (recipes.to_float64(drawn[n], "float32") for n in ("x", "weight", "dy"))
    assert np.abs(x @ w.T).max() < 1e-9 * np.abs(x[:, :, None] * w.T[None]).max()
    assert np.abs(dy @ w).max() < 1e-9 * np.abs(dy[:, :, None] * w[None]).max()


def test_special_rows_have_every_kind_of_edge(norm: Task) -> None:
    case = norm_case(norm, "train", "float32", "special", tokens=10)
    x = recipes.draw(cases.inputs_for(norm, case, 5))["x"]
    bits = x.view(np.uint32)
    exponent, mantissa = bits >> 23 & 0xFF, bits & 0x7FFFFF
    assert ((exponent == 255) & (mantissa == 0)).any()
    assert len(np.unique(mantissa[(exponent == 255) & (mantissa != 0)])) > 3
    assert ((exponent == 0) & (mantissa != 0)).any()
    assert (bits == 0).any()
    assert (bits == 0x80000000).any()
    assert np.isfinite(x[0]).all()


def test_huge_rows_are_finite_and_overflow_when_squared(norm: Task) -> None:
    case = norm_case(norm, "train", "float32", "huge", tokens=8)
    x = recipes.draw(cases.inputs_for(norm, case, 5))["x"].view(np.float32).astype(np.float64)
    assert np.isfinite(x).all()
    assert (np.abs(x[[1, 3, 5, 7]]).max(axis=1) > 1e28).all()
    largest = float(np.finfo(np.float32).max)
    assert largest / 2**9 < (x[2] * x[2]).sum() < largest * 2**9
    assert np.abs(x[[0, 4]]).max() < 16


@pytest.mark.parametrize("eps", [1e-6, 1e-3])
@pytest.mark.parametrize("seed", range(5))
def test_of_ten_rows_of_logspace_one_weighs_as_much_as_epsilon(
    norm: Task, eps: float, seed: int
) -> None:
    case = norm_case(norm, "train", "float32", "logspace", tokens=10)
    x = recipes.draw(cases.inputs_for(norm, case, seed))["x"].view(np.float32).astype(np.float64)
    mean = (x * x).mean(axis=1)
    assert ((mean > eps / 128) & (mean < eps * 128)).any()
    assert mean.min() < 1e-9
    assert mean.max() > 1


def test_tiny_tokens_have_sums_that_are_zero_of_either_sign_or_beside_the_least_floats() -> None:
    task = catalog.load_task("linear", "cpu")
    case = cases.call_for(task, "bias_backward", "float32", {"M": 10, "N": 64, "K": 128}, "tiny")
    drawn = recipes.draw(cases.inputs_for(task, case, 5))
    dy, x = (drawn[name].view(np.float32) for name in ("dy", "x"))
    least = np.finfo(np.float32).tiny
    assert np.signbit(dy[:, 0]).all()
    assert not dy[:, 0].any()
    assert ((np.abs(dy[:, 2]) < least) & (dy[:, 2] != 0)).any()
    assert 0 < np.abs(dy.sum(axis=0)[3]) < 2.0**-100
    dw = dy.astype(np.float64).T @ x.astype(np.float64)
    assert least / 64 < np.abs(dw[4, 4]) < least * 2**16


def test_each_holds_every_pattern_of_bfloat16() -> None:
    task = catalog.load_task("swiglu", "cpu")
    case = cases.call_for(task, "train", "bfloat16", {"M": 64, "N": 1024}, "each")
    drawn = recipes.draw(cases.inputs_for(task, case, 5))
    assert len(np.unique(drawn["gate"])) == 1 << 16
    assert np.isfinite(recipes.to_float64(drawn["up"], "bfloat16")).all()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 32768, 32769, 100_001])
def test_random_words_give_any_count(count: int) -> None:
    words = random_words(np.random.Generator(np.random.Philox(key=1)), count)
    assert words.shape == (count,)
    if count > 1000:
        ones = np.unpackbits(words.view(np.uint8)).mean()
        assert abs(ones - 0.5) < 0.01
        assert len(np.unique(words)) > 0.99 * count


def test_unknown_recipe_and_regime_are_one_line_errors(norm: Task) -> None:
    case = norm_case(norm, "train", "float32", "normal")
    inputs = cases.inputs_for(norm, case, 5)
    with pytest.raises(InputError, match="unknown input regime 'nosuch'"):
        recipes.draw(Inputs(tensors=inputs.tensors, scalars=(), regime="nosuch", seed=1))
    backward = cases.inputs_for(norm, norm_case(norm, "backward", "float32", "normal"), 5)
    only = tuple(spec for spec in backward.tensors if spec.name == "rstd")
    with pytest.raises(InputError, match="norm_x"):
        recipes.draw(Inputs(tensors=only, scalars=(), regime="normal", seed=1))


@given(st.floats(allow_nan=False, width=64))
@settings(max_examples=200, deadline=None)
def test_bfloat16_rounds_once_to_nearest_even(value: float) -> None:
    stored = recipes.from_float64(np.array([value]), "bfloat16")
    got = recipes.to_float64(stored, "bfloat16")[0]
    bits = np.uint32(int(stored[0]))
    neighbours = []
    for step in (-1, 1):
        word = np.array([int(bits) + step], np.int64)
        if 0 <= word[0] <= 0xFFFF:
            neighbour = recipes.to_float64(word.astype(np.uint16), "bfloat16")[0]
            if np.isfinite(neighbour):
                neighbours.append(neighbour)
    if np.isfinite(got):
        for neighbour in neighbours:
            here, there = abs(value - got), abs(value - neighbour)
            assert here < there or (here == there and int(bits) % 2 == 0)
    else:
        assert abs(value) >= 2.0**127 * (2 - 2.0**-8)


def test_nan_becomes_quiet() -> None:
    assert recipes.from_float64(np.array([np.nan]), "bfloat16")[0] & 0x7FFF == 0x7FC0
