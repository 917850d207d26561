"""TTIR text without what cannot change its meaning: the name of a text, on any device."""

import re

_VALUE = re.compile(r"%[A-Za-z0-9_$.\-]+")
_LOCATION = re.compile(r'\s*\bloc\(|"(?:[^"\\]|\\.)*"')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def canonical(ttir: str) -> str:
    """The text without source locations and with values numbered in order of appearance (their
    names are the kernel's variables)."""
    lines = [
        _without_locations(line).rstrip()
        for line in ttir.splitlines()
        if not line.startswith("#loc")
    ]
    numbers: dict[str, str] = {}
    text = "\n".join(line for line in lines if line) + "\n"
    return _VALUE.sub(lambda m: numbers.setdefault(m.group(), f"%{len(numbers)}"), text)


def _without_locations(line: str) -> str:
    kept, position = [], 0
    while match := _LOCATION.search(line, position):
        if match.group().endswith('"'):
            kept.append(line[position : match.end()])
            position = match.end()
            continue
        kept.append(line[position : match.start()])
        position = _closing(line, match.end())
    kept.append(line[position:])
    return "".join(kept)


def _closing(line: str, position: int) -> int:
    """Index after the parenthesis that closes the one before ``position``."""
    depth = 1
    while depth and position < len(line):
        if line[position] == '"':
            match = _STRING.match(line, position)
            position = match.end() if match else len(line)
            continue
        depth += {"(": 1, ")": -1}.get(line[position], 0)
        position += 1
    return position
