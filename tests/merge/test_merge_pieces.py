"""The pieces of a merge: parts of a module, and the questions that tell timed cases apart."""

import pytest

from kernelsmith.library import merge_parts
from kernelsmith.library.merge_choice import Point, Split, boundary, tree


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(16, 256, 64), (0, 16, 0), (7, 8, 7), (256, 257, 256)]
)
def test_a_boundary_lies_between_two_sizes(low: int, high: int, expected: int) -> None:
    assert boundary(low, high) == expected


def test_rows_are_asked_first_and_narrow_gaps_last() -> None:
    def point(rows: int, columns: int, who: str) -> Point:
        return Point(sees={"x.shape[0]": rows, "x.shape[1]": columns}, winner=who)

    wide = tree([point(16, 128, "a"), point(256, 1024, "b")], "x.shape[0]")
    narrow = tree([point(257, 128, "a"), point(296, 1024, "b")], "x.shape[0]")
    assert isinstance(wide, Split)
    assert isinstance(narrow, Split)
    assert (wide.test, narrow.test) == ("x.shape[0] <= 64", "x.shape[1] <= 362")
    nested = tree([point(1, 1, "a"), point(64, 1, "b"), point(4096, 1, "a")], "x.shape[0]")
    assert nested == Split(
        test="x.shape[0] <= 8",
        then="a",
        other=Split(test="x.shape[0] <= 512", then="b", other="a"),
    )


def test_a_part_is_cut_out_with_its_comments_and_its_names_replaced() -> None:
    source = (
        "A = 1; B = 2  # two\n\n\n# why\n# so\ndef f(x, y):\n    é = A  # A\n"
        "    return g(é, y=B)\n\n\ndef g(x, y):\n    return x\n"
    )
    parts = merge_parts.read(source)
    names = {"A": "A_1", "B": "B_1", "g": "gg", "f": "ff"}
    assert [merge_parts.written(parts, each, names) for each in ("A", "B")] == [
        "A_1 = 1",
        "B_1 = 2",
    ]
    assert merge_parts.written(parts, "f", names) == (
        "# why\n# so\ndef ff(x, y):\n    é = A_1  # A\n    return gg(é, y=B_1)"
    )
    assert merge_parts.reached(parts, "f") == ["A", "B", "f", "g"]


def test_what_a_function_uses_makes_it_another_program() -> None:
    def program(source: str) -> str:
        return merge_parts.read(source).parts["f"].program

    same = "def f(x):\n    return g(x)\n\n\ndef g(x):\n    return x + {}\n"
    assert program(same.format(1)) == program(same.format(1) + "# more\n")
    assert program(same.format(1)) != program(same.format(2))
    vetted = "from kernelsmith.lang import g\n\n\ndef f(x):\n    return g(x)\n"
    assert program(vetted) != program(same.format(1))
