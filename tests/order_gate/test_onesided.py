"""Sums of squares and of exponentials: found through what follows them, on few cases."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from kernelsmith import catalog
from kernelsmith.gate.order import shown
from kernelsmith.model import new_candidate
from kernelsmith.numerics.order import Revealed

NORM = ("train.bf16.M37-N128.ties", "infer.bf16.M37-N128.ties", "backward.fp32.M37-N128.cancel")
LOGITS = ("train.bf16.M257-N259.absorb", "infer.bf16.M257-N259.absorb")


def of(name: str, cases: tuple[str, ...]) -> Any:
    task = catalog.load_task(name, "cpu")
    kept = tuple(replace(case, weight=0.0) for case in task.cases if case.id in cases)
    assert len(kept) == len(cases)
    return replace(task, cases=kept)


@pytest.fixture(scope="module")
def norm(probed: Callable[..., Iterator[Any]]) -> Iterator[Any]:
    yield from probed(of("rms_norm", NORM))


@pytest.fixture(scope="module")
def logits(probed: Callable[..., Iterator[Any]]) -> Iterator[Any]:
    yield from probed(of("logprob", LOGITS))


def found_in(kit: Any) -> dict[str, Any]:
    seed = new_candidate(kit.gate.task.seed_source, kit.gate.task.name, author="seed")
    sums = shown.sums(kit.gate.bench, kit.reference.seed, seed, None, (), 7)
    assert [one.equal for one in sums] == [True] * len(sums), [one.sentence for one in sums]
    return {one.place.reduction.name: one for one in sums}


def test_every_sum_of_rms_norm_is_seen_y_rounded_to_bfloat16_included(norm: Any) -> None:
    found = found_in(norm)
    assert set(found) == {"squares_over_n", "squares_in_y", "dot_over_n", "dw_over_tokens"}
    aside = found["squares_in_y"].place
    assert (aside.case.dtype, aside.units, aside.spare in aside.columns) == ("bfloat16", 127, False)
    for name in ("squares_over_n", "dot_over_n"):
        assert isinstance(found[name].here, Revealed)
        assert "128 units, a balanced tree of adjacent pairs" in found[name].sentence


def test_both_sums_of_logprob_are_seen_through_the_logarithm(logits: Any) -> None:
    found = found_in(logits)
    assert set(found) == {"exps_in_lse", "exps_in_logprob", "weighted_exps_in_entropy"}
    assert found["weighted_exps_in_entropy"].place.units == 48
    assert found["exps_in_lse"].place.units == 128


def test_squares_in_another_order_are_located_in_bfloat16_y(norm: Any) -> None:
    """Lanes 0 and 2 meet first instead of 0 and 1."""
    source = norm.gate.task.seed_source
    one = "        squares += h * h\n    mean = tl.div_rn(tree_sum(squares)"
    assert one in source
    other = source.replace(
        one,
        "        squares += h * h\n"
        "    squares = tl.reshape(tl.trans(tl.reshape(squares, (BLOCK // 2, 2))), (BLOCK,))\n"
        "    mean = tl.div_rn(tree_sum(squares)",
    )
    found = norm.check(other)
    assert found.status == "ORDER_DIFFERS"
    assert found.message.startswith("squares_over_n in case train.bf16.M37-N128.ties")
    assert "units 0 and 1 meet as a pair in the seed" in found.message
