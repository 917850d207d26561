"""Only the import of the vetted functions differs inside a package, and the way back is exact."""

import pytest

from kernelsmith.errors import InputError
from kernelsmith.library import sources

SEEN = '"""Uses kernelsmith.lang."""\nimport torch\nfrom kernelsmith.lang import tree_sum\n'


@pytest.mark.parametrize(
    "source",
    [
        SEEN,
        SEEN.replace("\n", "\r\n"),
        SEEN
        + "from kernelsmith.lang import (\n    tree_sum as t,\n)\nx = 'from kernelsmith.lang'\n",
        "# é\nx = 'é'; from kernelsmith.lang import tree_sum\n",
        "import torch\n",
        "x = 1\x0cy = 2\nfrom kernelsmith.lang import tree_sum",
    ],
)
def test_there_and_back(source: str) -> None:
    source = source.replace("\x0cy", "\n\x0cy")
    there = sources.packaged(source)
    assert sources.judged(there) == source
    assert ("from .lang import" in there) == (
        "from kernelsmith.lang import t" in source or "from kernelsmith.lang import (" in source
    )


def test_comments_and_strings_keep_their_words() -> None:
    assert sources.packaged(SEEN).startswith(
        '"""Uses kernelsmith.lang."""\nimport torch\nfrom .lang'
    )


def test_an_import_that_is_spread_is_refused() -> None:
    with pytest.raises(InputError, match=r"line 1: the import of kernelsmith\.lang is spread"):
        sources.packaged("from kernelsmith . lang import tree_sum\n")
