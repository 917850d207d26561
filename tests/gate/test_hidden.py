"""What is drawn after a candidate is frozen: named by all that its plan hangs on, and complete."""

from typing import Any

from kernelsmith import cases as forms
from kernelsmith.gate import declared_range, every, hidden


def test_equal_ids_are_equal_calls_across_draws(kit: Any) -> None:
    known: dict[str, Any] = {}
    for seed in range(20):
        for case in hidden.draw_cases(kit.task, 2, seed):
            assert case.id not in known
            known[case.id] = case
    assert {case.row_stride_pad > 0 for case in known.values()} == {True, False}
    assert {case.padded_arg for case in known.values()} >= {"", "x"}


def test_the_range_has_every_call_form(kit: Any) -> None:
    found = {(case.call, case.dtype) for case in declared_range.range_cases(kit.task)}
    assert found == set(forms.forms_of(kit.task))
    assert {call for call, _ in found} == {call.name for call in kit.task.calls}


def test_every_row_count_and_every_size_is_walked(kit: Any) -> None:
    low, high = kit.task.token_range
    walked = list(every.walk_cases(kit.task, 5))
    for call in kit.task.calls:
        own = [case for case in walked if case.call == call.name]
        assert {case.dim("M") for case in own} == set(range(low, high + 1))
        assert {case.dim("N") for case in own} == {3, 6}


def test_a_kernel_wrong_at_one_row_count_is_unconfirmed(new_kit: Any) -> None:
    verdict = new_kit(hidden=0).judge(gain=1.05, wrong_at_rows=23)
    assert (verdict.status, verdict.checks[-1].name) == ("UNCONFIRMED", "confirm")
    assert verdict.checks[-1].message.startswith("case walk ")
