"""Events as the WHATWG specification reads them."""

import pytest

from kernelsmith.wire.sse import Event, events


def read(body: bytes) -> list[tuple[str, str]]:
    return [(event.name, event.data) for event in events(body)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_ends_a_line(end: bytes) -> None:
    lines = [b"event: a", b"data: 1", b"", b"data: 2", b"data: 3", b"", b""]
    assert read(end.join(lines)) == [("a", "1"), ("message", "2\n3")]


def test_a_byte_order_mark_comments_and_unknown_fields_are_passed_over() -> None:
    body = b"\xef\xbb\xbfdata: 1\n: a comment\nid: 7\nretry: 5\nnonsense\n\n"
    assert read(body) == [("message", "1")]


def test_one_space_after_the_colon_belongs_to_the_field_and_no_more() -> None:
    assert read(b"data:1\ndata: 2\ndata:  3\n\n") == [("message", "1\n2\n 3")]


def test_separators_of_unicode_are_no_line_ends() -> None:
    body = 'data: "\u2028\u2029\u0085\x0b\x0c"\n\n'.encode()
    assert read(body) == [("message", '"\u2028\u2029\u0085\x0b\x0c"')]


def test_an_event_without_data_and_one_without_its_blank_line_are_none() -> None:
    assert read(b"event: a\n\ndata: whole\n\ndata: cut") == [("message", "whole")]
    assert read(b"data: whole\n\ndata: cut\n") == [("message", "whole")]


def test_an_empty_data_field_is_an_event() -> None:
    assert list(events(b"data\n\n")) == [Event(name="message", data="")]
