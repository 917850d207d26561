"""Planted orders on ``linear``: the seed's passes in another kernel, others are located."""

from typing import Any

import pytest

from kernelsmith.model import new_candidate
from tests.order_gate import planted


def test_another_tile_shape_sums_in_the_seeds_order(linear: Any) -> None:
    found = linear.check(planted.tiles(linear.gate.task.seed_source, 64))
    assert (found.status, found.message, found.unchecked) == (None, "", ())
    verified = found.evidence["verified"]
    assert set(verified) == {
        "y_over_k (bfloat16)",
        "y_over_k (float32)",
        "dx_over_n (float32)",
        "dw_over_tokens (float32)",
        "db_over_tokens (float32)",
    }
    trees = verified["y_over_k (bfloat16)"]["trees"]
    assert set(trees) == {"256 units, one after another", "72 units, one after another"}
    assert found.evidence["unreachable"] == {}
    assert found.evidence["not_verified_kernels"] == []


def test_the_seed_itself_needs_no_probe(linear: Any) -> None:
    found = linear.check(linear.gate.task.seed_source)
    assert (found.status, found.made) == (None, True)
    assert found.evidence["verified"] == {}
    assert found.evidence["cases_of_seed_code"] == 7


@pytest.mark.parametrize(
    ("plant", "reduction", "says"),
    [
        (planted.split_in_two, "y_over_k", "units"),
        (planted.backwards, "y_over_k", "units"),
        (planted.in_turns, "y_over_k", "units"),
        (planted.pairs_of_tokens, "db_over_tokens", "units 0 and 1 meet as a pair in the seed"),
    ],
)
def test_another_order_is_located(linear: Any, plant: Any, reduction: str, says: str) -> None:
    found = linear.check(plant(linear.gate.task.seed_source))
    assert found.status == "ORDER_DIFFERS"
    print(found.message, found.evidence)
    assert found.message.startswith(f"{reduction} in case ")
    assert says in found.message


@pytest.mark.parametrize(
    "where",
    [
        "tile // tiles_n == 1",
        "tile % tiles_n == 1",
        "(tile == 0) & (m_size == 16)",
        "a_ptr.dtype.element_ty == tl.float32",
    ],
    ids=["rows from 128 on", "columns from 128 on", "one row count", "one dtype"],
)
def test_another_order_here_and_there_is_found(linear: Any, where: str) -> None:
    found = linear.check(planted.backwards(linear.gate.task.seed_source, where))
    print(found.message)
    assert found.status == "ORDER_DIFFERS"


def test_an_order_that_a_loaded_float_chooses_is_refused_before_it_is_probed(linear: Any) -> None:
    """Probes hold numbers that no data has: such a kernel could answer them in the seed's order."""
    gate = linear.gate
    knows = planted.backwards(gate.task.seed_source, "tl.load(a_ptr).to(tl.float32) > 0.0")
    candidate = new_candidate(knows, gate.task.name, author="person")
    verdict = gate.judge_bits(candidate, ("policy", "trace", "witness", "order"))
    assert verdict.checks[-1].name == "witness"
    assert not verdict.accepted
