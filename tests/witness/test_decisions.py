"""What a loaded float may decide and what not: each trick is refused by its rule, and what honest
kernels do with their floats is not."""

import pytest

from tests.witness import honest
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
