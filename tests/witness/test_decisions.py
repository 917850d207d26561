"""What a loaded float may decide and what not: each trick is refused by its rule, and what honest
kernels do with their floats is not."""

from typing import Any

import pytest

from tests.tutorials import attention_kernels
from tests.witness import honest, limits
from tests.witness.deciders import RULES
from tests.witness.texts import decided, text_of


@pytest.mark.parametrize("name", list(RULES))
def test_a_kernel_that_could_tell_a_probe_is_refused(name: str) -> None:
    kernel, rule = RULES[name]
    types = "*fp32 *i32" if name == "by_atomic_mask" else ""
    found = decided(text_of(kernel, types))
    assert [one.kind for one in found][:1] == [rule]
    assert found[0].line.rpartition("/")[2].startswith(("deciders.py:", "standard.py:", "lang.py:"))


@pytest.mark.parametrize("name", list(honest.KERNELS))
def test_what_people_write_is_not_refused(name: str) -> None:
    kernel, types = honest.KERNELS[name]
    assert [one for one in decided(text_of(kernel, types)) if not one.if_read] == []


@pytest.mark.parametrize("name", list(limits.REFUSED))
def test_what_the_rules_cost_is_known(name: str) -> None:
    kernel, types, constants, rule = limits.REFUSED[name]
    assert rule in {one.kind for one in decided(text_of(kernel, types, **constants))}


@pytest.mark.parametrize("name", list(limits.INSTEAD))
def test_what_to_write_instead_passes(name: str) -> None:
    kernel, types, constants = limits.INSTEAD[name]
    assert decided(text_of(kernel, types, **constants)) == []


@pytest.mark.parametrize("name", list(limits.UNSEEN))
def test_a_blend_made_of_arithmetic_alone_is_a_known_gap(name: str) -> None:
    assert decided(text_of(limits.UNSEEN[name])) == []


TUTORIALS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "attention forward": (
        attention_kernels.forward,
        "*fp16 *fp16 *fp16 *fp16 *fp32 i32 fp32",
        {"CAUSAL": True, "D": 16, "BM": 16, "BN": 16},
    ),
    "attention backward, columns": (
        attention_kernels.backward_columns,
        "*fp16 *fp16 *fp16 *fp16 *fp16 *fp16 *fp32 *fp32 i32 fp32",
        {"CAUSAL": True, "D": 16, "BM": 16, "BN": 16},
    ),
    "attention backward, rows": (
        attention_kernels.backward_rows,
        "*fp16 *fp16 *fp16 *fp16 *fp16 *fp32 *fp32 i32 fp32",
        {"CAUSAL": True, "D": 16, "BM": 16, "BN": 16},
    ),
}


@pytest.mark.parametrize("name", list(TUTORIALS))
def test_tutorials_pass(name: str) -> None:
    kernel, types, constants = TUTORIALS[name]
    assert decided(text_of(kernel, types, **constants)) == []
