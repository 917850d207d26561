"""Launch options of a plan class, carried by its text.

On a GPU they decide the code: ``num_warps`` even the order of a ``tl.sum``. They stand in the
first line of the TTIR text, a comment to MLIR, so that a text is all that a compiler needs and one
hash names it::

    // kernelsmith launch options: num_stages=3 num_warps=4
"""

import re
from collections.abc import Mapping

from kernelsmith.errors import CompileError, InputError

PREFIX = "// kernelsmith launch options:"
DEFAULTS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}
LARGEST = {"num_warps": 32, "num_stages": 16, "num_ctas": 16, "maxnreg": 255}
_ITEM = re.compile(r"([a-z_]+)=(\d{1,5})")


def with_options(ttir: str, options: Mapping[str, int]) -> str:
    """The text with its options in front.

    Raises:
        InputError: an option that is not known, or out of range.
    """
    problem = fault(options)
    if problem:
        raise InputError(problem, hint=f"launch options are {', '.join(LARGEST)}")
    words = "".join(f" {name}={value}" for name, value in sorted(options.items()))
    return f"{PREFIX}{words}\n{ttir}"


def split_options(text: str) -> tuple[dict[str, int], str]:
    """(options, TTIR without the line). A text without the line has the defaults.

    Raises:
        CompileError: the line is not one that :func:`with_options` writes.
    """
    if not text.startswith(PREFIX):
        return dict(DEFAULTS), text
    line, _, body = text.partition("\n")
    words = line.removeprefix(PREFIX).split()
    items = [_ITEM.fullmatch(word) for word in words]
    options = {item[1]: int(item[2]) for item in items if item}
    if len(options) != len(words):
        raise CompileError(f"launch options cannot be read: {line[:100]!r}", op="options")
    problem = fault(options)
    if problem:
        raise CompileError(problem, op="options")
    return DEFAULTS | options, body


def fault(options: Mapping[str, int]) -> str:
    """What is wrong with these options, or ""."""
    for name, value in options.items():
        if name not in LARGEST:
            return f"launch options cannot be {name!r}"
        if not 1 <= value <= LARGEST[name]:
            return f"{name}={value}: 1 to {LARGEST[name]} on cuda"
        if name in ("num_warps", "num_ctas") and value & (value - 1):
            return f"{name}={value} is no power of two"
    return ""
