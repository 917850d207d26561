"""How long a conversation waits before it tries again."""

import pytest

from kernelsmith.proposers.agent.backoff import BACKOFF_MAX_S, retry_after_s, wait_s

NOW_S = 1_800_000_000.0  # Fri, 15 Jan 2027 08:00:00 GMT


def test_waits_double_up_to_a_minute_with_a_jitter_that_the_name_decides() -> None:
    waits = [wait_s("s/0/0", failures) for failures in range(1, 200)]
    assert waits[:6] == [waits[0] * 2**n for n in range(6)]
    assert 0.75 <= waits[0] < 1.25
    assert max(waits) <= BACKOFF_MAX_S
    assert wait_s("s/0/1", 1) != waits[0] == wait_s("s/0/0", 1)


@pytest.mark.parametrize(
    ("name", "value", "seconds"),
    [
        ("retry-after", "7", 7.0),
        ("Retry-After", "0", 0.0),
        ("retry-after", " 1.5 ", 1.5),
        ("retry-after-ms", "250", 0.25),
        ("retry-after", "Fri, 15 Jan 2027 08:01:30 GMT", 90.0),
        ("retry-after", "Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("retry-after", "soon", None),
        ("retry-after", "-1", None),
        ("retry-after", "inf", None),
        ("retry-after", "nan", None),
        ("retry-after", "", None),
        ("other", "7", None),
    ],
)
def test_what_the_server_asks_for_is_read(name: str, value: str, seconds: float | None) -> None:
    assert retry_after_s(((name, value),), NOW_S) == seconds


def test_the_server_is_given_what_it_asks_for_up_to_a_quarter_of_an_hour() -> None:
    assert 7 <= wait_s("s", 1, (("retry-after", "7"),)) < 8
    assert 90 <= wait_s("s", 1, (("retry-after", "90"),)) < 91
    assert 900 <= wait_s("s", 1, (("retry-after", "86400"),)) < 901
    both = (("retry-after", "9"), ("retry-after-ms", "100"))
    assert 0.1 <= wait_s("s", 9, both) < 1.1
