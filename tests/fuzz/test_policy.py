"""The policy under sources that a grammar makes, and under what is no source at all."""

import pytest

from tests.fuzz.policy_properties import PROPERTIES
from tests.fuzz.properties import Property, in_order


@pytest.mark.parametrize("one", PROPERTIES, ids=lambda one: one.name)
def test_what_is_forbidden_is_refused_and_all_else_is_answered(one: Property) -> None:
    in_order(one)
