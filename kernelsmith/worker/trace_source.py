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
    written = _functions("".join(linecache.getlines(SOURCE_NAME))).get(code.co_firstlineno)
    try:
        taken = ast.parse(kernel.src).body
    except SyntaxError:
        taken = []
    if len(taken) != 1 or written is None or _meaning(taken[0]) != written:
        text = f"line {code.co_firstlineno}: the text of kernel {kernel.__name__} is not what "
        raise FaultError(
            "TRACE", text + "Triton would compile; write a plain def below @triton.jit"
        )


@lru_cache(maxsize=4)
def _functions(source: str) -> dict[int, str]:
    """Each function's meaning by the line of its first decorator, or of ``def``."""
    return {
        min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]): _meaning(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
    }


def _meaning(node: ast.AST) -> str:
    if not isinstance(node, ast.FunctionDef):
        return ""
    parts = [node.name, ast.dump(node.args), *map(ast.dump, node.body)]
    return "\n".join([*parts, ast.dump(node.returns) if node.returns else ""])
