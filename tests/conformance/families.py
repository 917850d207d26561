"""The table: every conformance case, by family."""

from tests.conformance import (
    atomics,
    control,
    conversions,
    descriptors,
    dots,
    effects,
    float_ops,
    forms,
    further_ops,
    integer_ops,
    math_functions,
    memory,
    random_numbers,
    reductions,
    refused,
    scans,
    shape_ops,
    sorting,
)
from tests.conformance.case import Case

FAMILIES = (
    float_ops,
    integer_ops,
    conversions,
    math_functions,
    reductions,
    scans,
    shape_ops,
    sorting,
    dots,
    memory,
    atomics,
    control,
    random_numbers,
    descriptors,
    effects,
    further_ops,
    forms,
    refused,
)


def all_cases() -> list[Case]:
    """Every case, in the table's order. Names are unique."""
    found = [case for family in FAMILIES for case in family.cases()]
    names = [case.id for case in found]
    assert len(names) == len(set(names)), [name for name in names if names.count(name) > 1]
    return found


def cases_of(triton_version: str) -> list[Case]:
    """The cases that a Triton release can be asked for."""
    return [case for case in all_cases() if not case.versions or triton_version in case.versions]
