"""That Triton compiles the text the policy read.

Triton does not compile the function object: it takes the lines that ``inspect`` finds for it and
the first ``def`` in them. A string in a decorator, or a character that only some readers take for
the end of a line, could make that another text than the one that was parsed and approved.
"""

import ast
import io
import linecache
from functools import lru_cache
from typing import Any

from kernelsmith.worker.trace_tape import SOURCE_NAME, FaultError


def lines_of(source: str) -> list[str]:
    """The lines as Python's own parser counts them: ended by LF, CR LF or CR, by nothing else
    (``str.splitlines`` knows eight more)."""
    return io.StringIO(source, newline=None).readlines()


def check_text(kernel: Any) -> None:
    """Checks that a jit function's text is the function that stands at its line.

    Args:
        kernel: a jit function; those of other files are not the candidate's and pass.

    Raises:
        FaultError: ``TRACE``, it is not.
    """
    code = kernel.fn.__code__
    if code.co_filename != SOURCE_NAME:
        return
    written = "".join(linecache.getlines(SOURCE_NAME))
    if not _stands_at(written, code.co_firstlineno, kernel.src):
        text = f"line {code.co_firstlineno}: the text of kernel {kernel.__name__} is not what "
        raise FaultError(
            "TRACE", text + "Triton would compile; write a plain def below @triton.jit"
        )


@lru_cache(maxsize=256)
def names_of(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Names and attributes that occur in a jit function's text."""
    nodes = list(ast.walk(ast.parse(text)))
    return (
        frozenset(node.id for node in nodes if isinstance(node, ast.Name)),
        frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute)),
    )


@lru_cache(maxsize=256)
def _stands_at(source: str, line: int, text: str) -> bool:
    """Whether ``text`` is the one function that stands at this line of the source."""
    try:
        taken = ast.parse(text).body
    except SyntaxError:
        return False
    written = _functions(source).get(line)
    return len(taken) == 1 and written is not None and _meaning(taken[0]) == _meaning(written)


@lru_cache(maxsize=4)
def _functions(source: str) -> dict[int, ast.FunctionDef]:
    """Each function by the line of its first decorator, or of ``def``."""
    return {
        min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]): node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
    }


def _meaning(node: ast.AST) -> str:
    if not isinstance(node, ast.FunctionDef):
        return ""
    parts = [node.name, ast.dump(node.args), *map(ast.dump, node.body)]
    return "\n".join([*parts, ast.dump(node.returns) if node.returns else ""])
