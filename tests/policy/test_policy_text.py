"""Text that Python, ``linecache`` and a person would read differently is refused, not parsed."""

import pytest

from kernelsmith.gate.policy import MAX_DEPTH, check
from kernelsmith.gate.policy_text import MAX_BYTES

HEAD = "import torch\nimport triton\nimport triton.language as tl\n"


@pytest.mark.parametrize(
    ("source", "line", "construct"),
    [
        ("import torch\nx = '\x00'\n", 2, "U+0000"),
        ("import torch\n# a \x0c comment\n", 2, "U+000C"),
        ("import torch\r@triton.jit\n", 1, "U+000D"),
        ("import torch\n# a \u2028@triton.jit\n", 2, "U+2028"),
        ("import torch\n# \u202e reversed\n", 2, "U+202E"),
        ("\ufeffimport torch\n", 1, "U+FEFF"),
        ("x = '\udc80'\n", 1, "not UTF-8"),
        ("# -*- coding: utf-7 -*-\nimport torch\n", 1, "utf-7"),
        ("\n# vim: set fileencoding=latin-1 :\n", 2, "latin-1"),
        ("import torch\n\ufb01ve = 3\n", 2, "the name"),
        ("import torch\n\uff45xec = 3\n", 2, "the name"),
        ("import torch\nx = (\n", 2, "never closed"),
        ("def f(x):\nreturn 1\n", 2, "expected an indented block"),
        ("x = " + "1" * 5000 + "\n", 1, "Exceeds the limit"),
        ("x = " + "(" * 500 + ")" * 500, 1, "too many nested"),
        ("def f(x):\n    return " + "-" * (MAX_DEPTH + 1) + "x\n", 2, "nesting deeper"),
        ("def f(x):\n    return " + "x" + ".T" * 100_000 + "\n", 1, "nested too deeply"),
        ("#" * (MAX_BYTES + 1), 1, "bytes"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_refused_text(source: str, line: int, construct: str) -> None:
    found = check(source, ("forward_infer",))
    assert found
    assert found[0].line == line
    assert construct in found[0].construct
    assert found[0].instead


def test_accepted_text() -> None:
    assert check("# -*- coding: utf-8 -*-\n" + HEAD, ()) == []
    assert check((HEAD + "# caf\u00e9 \u00b5s\n").replace("\n", "\r\n"), ()) == []
    assert check("", ()) == []


def test_invalid_escapes_are_no_warning() -> None:
    assert check('"""\\d"""\n' + HEAD, ()) == []
