"""Changes to JSON answers, to lines of a template and to texts, each drawn by a number."""

import copy
import json
import math
import random
from typing import Any

Path = tuple[str | int, ...]
JUNK: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    7,
    255,
    1 << 31,
    -(1 << 31),
    1 << 63,
    1 << 64,
    -(1 << 70),
    10**40,
    0.5,
    -0.0,
    1e308,
    math.nan,
    math.inf,
    -math.inf,
    "",
    "x",
    "0",
    "ACCEPTED",
    "POLICY",
    "TRACE",
    "BITS_DIFFER",
    "a\nb",
    "\x00",
    "\u202e",
    "é",
    "∞",
    "../../x",
    "/etc/passwd",
    "a" * 5000,
    [],
    {},
    [[]],
    [0],
    [None],
    [1, 1, 1],
    {"": 0},
    {"id": "x"},
    "bfloat16",
    "float64",
    "ptr",
)


def paths(tree: Any, here: Path = ()) -> list[Path]:
    """All places in a tree of JSON, the root first."""
    found = [here]
    if isinstance(tree, dict):
        for key, value in tree.items():
            found += paths(value, (*here, key))
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            found += paths(value, (*here, number))
    return found


def mutated(tree: Any, rng: random.Random) -> tuple[Any, Path]:
    """A copy in which one place is other than before, and the place."""
    places = paths(tree)[1:]
    while places:
        path = rng.choice(places)
        changed = copy.deepcopy(tree)
        parent = changed
        for step in path[:-1]:
            parent = parent[step]
        _change(parent, path[-1], rng)
        if json.dumps(changed) != json.dumps(tree):
            return changed, path
    return [], ()


def _change(parent: Any, key: Any, rng: random.Random) -> None:
    value = parent[key]
    match rng.randrange(6):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, list):
            parent.insert(key, copy.deepcopy(value))
        case 1:
            parent[str(rng.choice(("extra", "", "id", "key", "failure")))] = copy.deepcopy(value)
        case 2:  # what stands elsewhere
            other = rng.choice(
                list(parent.keys() if isinstance(parent, dict) else range(len(parent)))
            )
            parent[key], parent[other] = parent[other], value
        case 3 if isinstance(value, int | float) and not isinstance(value, bool):
            parent[key] = rng.choice((value + 1, value - 1, -value, value * 2, value * 10**12 + 16))
        case 3 if isinstance(value, str):
            parent[key] = rng.choice(
                (value + "x", value[:-1], value.upper(), f"{value}\n", value * 2)
            )
        case 4:
            parent[key] = nested(rng.choice((3, 60)))
        case _:
            parent[key] = rng.choice(JUNK)


def nested(depth: int) -> Any:
    found: Any = 0
    for _ in range(depth):
        found = [found]
    return found


def bytes_of(tree: Any, rng: random.Random) -> bytes:
    """A tree as bytes: as it is, or cut, doubled, garbled, with a key twice, or endlessly deep."""
    data = json.dumps(tree).encode()
    at = rng.randrange(len(data) + 1)
    match rng.randrange(12):
        case 0:
            return data[:at]
        case 1:
            return data + data
        case 2:
            return data[:at] + bytes((rng.randrange(256),)) + data[at + 1 :]
        case 3:
            return rng.choice((b"", b"\xff\xfe", b"null", b"[]", b"1", b'"x"', b"\x00" * 64))
        case 4:
            return b"[" * 200_000
        case 5 if data.startswith(b"{"):
            return b'{"failure": {"status": "ACCEPTED", "message": ""}, ' + data[1:]
        case _:
            return data


TOKENS = (
    "%x",
    "%0",
    "%999",
    "{",
    "}",
    "(",
    ")",
    "<",
    ">",
    "->",
    "f32",
    "i1",
    "!tt.ptr<f32>",
    "tensor<",
    "x64",
    "99999999999",
    "-1",
    "tt.load",
    "tt.store",
    "scf.for",
    "tt.return",
    "tt.func",
    "^bb0",
    "loc(",
    '"',
    "\x00",
    "é",
    "arith.constant",
    "dense<",
    "attributes",
    "=",
    ",",
    ":",
    "#",
    "//",
    "\n",
    "tt.extern_elementwise",
    "tt.elementwise_inline_asm",
    "llvm.call",
    "1e999",
    "nan",
    "0x7FC0",
)


def text_mutated(text: str, rng: random.Random) -> str:
    """A text with a few tokens, lines or characters other than before."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        lines = text.split("\n")
        at = rng.randrange(len(lines))
        match rng.randrange(7):
            case 0:
                del lines[at]
            case 1:
                lines.insert(rng.randrange(len(lines) + 1), lines[at])
            case 2:
                other = rng.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                words = lines[at].split(" ")
                words[rng.randrange(len(words))] = rng.choice(TOKENS)
                lines[at] = " ".join(words)
            case 4:
                lines = lines[:at]
            case 5:
                column = rng.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:column] + rng.choice(TOKENS) + lines[at][column:]
            case _:
                column = rng.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:column] + lines[at][column + 1 + rng.randrange(3) :]
        text = "\n".join(lines) or "\n"
    return text
