"""Server-sent events, after the WHATWG specification's "Interpreting an event stream"."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE_END = re.compile(r"\r\n|\n|\r")  # not splitlines: U+2028 and others are no line ends here


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. ``name`` is "message" where the stream names none."""

    name: str
    data: str


def events(body: bytes) -> Iterator[Event]:
    """The events of a whole body. An event that no blank line ends is left out, as the
    specification has it; bytes that are no UTF-8 become U+FFFD."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    name = ""
    data: list[str] = []
    for line in _LINE_END.split(text)[:-1]:  # what follows the last line end is no line
        if not line:
            if data:
                yield Event(name=name or "message", data="\n".join(data))
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
