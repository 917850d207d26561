"""A kernel's text inside a package, and as the gate judges it.

The gate's language has one import that a machine without kernelsmith lacks, the vetted functions.
Inside a package they lie beside the kernel; nothing else of the text is touched, so that the way
back is exact and the candidate's id is the hash of what comes back.
"""

import ast
import io

from kernelsmith.errors import InputError

JUDGED = "kernelsmith.lang"
PACKAGED = ".lang"


def packaged(source: str) -> str:
    """The text as it stands in a package: ``from .lang import`` for the vetted functions.

    Raises:
        SyntaxError: no Python.
        InputError: the import is written in a way that cannot be renamed in its place.
    """
    return _renamed(source, JUDGED, PACKAGED)


def judged(text: str) -> str:
    """Inverse of :func:`packaged`: the text that the gate judges.

    Raises:
        SyntaxError: no Python (someone edited it).
    """
    return _renamed(text, PACKAGED, JUDGED)


def _renamed(text: str, old: str, new: str) -> str:
    # As the parser counts lines: ended by LF, CR LF or CR; newline="" keeps what they were.
    lines = io.StringIO(text, newline="").readlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and "." * node.level + (node.module or "") == old:
            at = node.lineno - 1
            data = lines[at].encode()  # columns count bytes
            head, tail = data[: node.col_offset], data[node.col_offset :]
            written = f"from {old} import ".encode()
            if not tail.startswith(written):
                raise InputError(
                    f"line {node.lineno}: the import of {old} is spread or spaced oddly",
                    hint=f"write `from {old} import NAMES`",
                )
            renamed = f"from {new} import ".encode() + tail[len(written) :]
            lines[at] = (head + renamed).decode()
    return "".join(lines)
