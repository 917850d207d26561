"""Sources as a model may see them: another author's code is shown as code alone.

Comments, docstrings, free names and free strings are where a source could talk to whoever reads
it. They are taken out before a source of another session, the search or a person reaches a prompt:
comments and docstrings are dropped, a name that is not made of the words of kernels becomes
``name_1``, a string that is no option becomes empty. Everything else stays byte for byte. The seed
is shown whole: it belongs to the task.
"""

import ast
import io
import keyword
import re
import tokenize
from collections.abc import Callable, Iterator
from functools import cache

from kernelsmith.model import Candidate, language

WORDS_MAX = 6
NAME_MAX_CHARS = 48
WORDS_TEXT = """
acc accumulator add all at axis base begin bias block blocks body bwd by carry cdiv chain
chunk chunks col cols column columns const count cur cut db dh dim dims div dot down dw dx dy
each elem element elements end eps even exp fill first fit fma four full fused fwd grad grid
group groups half has head heads height hi high id idx index inner inside inv item items
kernel key lane lanes last left len length level limit lo load log long loop loops low lower
main mask mat matmul matrix max mean min mod narrow next norm num odd off offs offset offsets
one other out outer output outputs over packed pad pair pairs part partial partials parts per
persistent pid pos power prev prod product products program programs ptr ptrs quad ramp read
rem residual rest right rms round row rows rstd run scale scaled scratch second seq shape
short sign single size sizes small split sq square squares stage stages start static step
steps stop store stride strides sum sums swap tail temp temps third this tile tiles tmp
token tokens top total trans transposed tree triple two unroll unrolled up upper val vals
value values vec vector warp warps wide width write
"""
STRINGS_TEXT = """
ieee tf32 tf32x3 bf16x3 bf16x6 evict_first evict_last evict_normal rtne rtz inf -inf nan
.ca .cg .cv .cs .wb .wt
"""
WORDS = frozenset(WORDS_TEXT.split())
STRINGS = frozenset(STRINGS_TEXT.split())


class UnreadableError(ValueError):
    """A source that does not parse: it is not shown."""


def shown(source: str, seed_source: str) -> str:
    """Another author's source as code alone.

    Args:
        source: of a candidate that the gate's policy let pass.
        seed_source: names that it has may stay.

    Raises:
        UnreadableError: it does not parse.
    """
    source = source.replace("\r\n", "\n")
    try:
        tree = ast.parse(source)
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError) as error:
        raise UnreadableError(f"it does not parse: {type(error).__name__}") from error
    lines = source.split("\n")
    cuts = list(_docstrings(tree, lines))
    inside = [(begin, end) for begin, end, _ in cuts]
    renamed = _renamer(tokens, seed_source)
    for token in tokens:
        if any(begin <= token.start < end for begin, end in inside):
            continue
        if token.type == tokenize.COMMENT:
            cuts.append((token.start, token.end, ""))
        elif token.type in (tokenize.NAME, tokenize.STRING):
            text = renamed(token)
            if text != token.string:
                cuts.append((token.start, token.end, text))
    return _cut(lines, cuts)


def as_seen(candidate: Candidate, seed: Candidate) -> tuple[str, str]:
    """A candidate's source as a session of another author sees it, and what it is.

    Raises:
        UnreadableError: it does not parse.
    """
    if candidate.id == seed.id:
        return candidate.source, "the seed, whole"
    return shown(candidate.source, seed.source), "code alone"


def functions_changed(source: str, seed_source: str) -> str:
    """Which of the seed's functions a source changes, and how many it adds, in a few words."""
    try:
        now, then = _functions(source), _functions(seed_source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    changed = [name for name, text in then.items() if name in now and now[name] != text]
    gone = [f"-{name}" for name in then if name not in now]
    added = len(set(now) - set(then))
    return " ".join([*changed, *gone, *([f"+{added} new"] if added else [])])


def _functions(source: str) -> dict[str, str]:
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            if _is_docstring(node.body[0]):
                node.body = node.body[1:] or [ast.Pass()]
            found[node.name] = ast.dump(node)
    return found


Place = tuple[int, int]
Cut = tuple[Place, Place, str]


def _docstrings(tree: ast.Module, lines: list[str]) -> Iterator[Cut]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.FunctionDef):
            continue
        if not node.body or not _is_docstring(node.body[0]):
            continue
        first = node.body[0]
        begin = (first.lineno, _chars(lines[first.lineno - 1], first.col_offset))
        last = first.end_lineno or first.lineno
        end = (last, _chars(lines[last - 1], first.end_col_offset or 0))
        needed = isinstance(node, ast.FunctionDef) and len(node.body) == 1
        after = lines[end[0] - 1][end[1] :].strip()
        alone = not lines[begin[0] - 1][: begin[1]].strip() and after[:1] in ("", "#")
        yield begin, end, "" if alone and not needed else "pass"


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _chars(line: str, nbytes: int) -> int:
    """The column in characters of a column in UTF-8 bytes."""
    return len(line.encode()[:nbytes].decode(errors="replace"))


def _cut(lines: list[str], cuts: list[Cut]) -> str:
    """Replaces spans, last first; a line that a cut leaves empty goes with it."""
    lines = list(lines)
    for begin, end, text in sorted(cuts, reverse=True):
        first, last = begin[0] - 1, end[0] - 1
        joined = lines[first][: begin[1]] + text + lines[last][end[1] :]
        lines[first : last + 1] = [joined.rstrip()] if joined.strip() else []
    return "\n".join(lines)


def _renamer(
    tokens: list[tokenize.TokenInfo], seed_source: str
) -> Callable[[tokenize.TokenInfo], str]:
    """What to show for a name or a string."""
    names = {token.string for token in tokens if token.type == tokenize.NAME}
    known = _language() | set(re.findall(r"[A-Za-z_]\w*", seed_source))
    words = WORDS | {word for name in known for word in _words(name)}
    free = sorted(name for name in names if name not in known and not _is_plain(name, words))
    numbers = iter(range(1, 1 + 2 * (len(names) + 1)))
    new: dict[str, str] = {}
    for name in free:
        new[name] = next(f"name_{n}" for n in numbers if f"name_{n}" not in names)

    def show(token: tokenize.TokenInfo) -> str:
        if token.type == tokenize.NAME:
            return new.get(token.string, token.string)
        text = token.string[1:-1] if token.string[:1] in "'\"" else ""
        if text in new:  # the name of a parameter, as do_not_specialize has it
            return f'"{new[text]}"'
        return token.string if text in STRINGS or text in names or text in known else '""'

    return show


def _is_plain(name: str, words: frozenset[str] | set[str]) -> bool:
    parts = _words(name)
    return (
        len(name) <= NAME_MAX_CHARS
        and len(parts) <= WORDS_MAX
        and all(part in words or len(part) == 1 for part in parts)
    )


def _words(name: str) -> list[str]:
    """``BLOCK_M2`` as block, m; digits do not count."""
    return [word for word in re.split(r"[_\d]+", name.lower()) if word]


@cache
def _language() -> frozenset[str]:
    tables = (getattr(language, table) for table in vars(language) if table.isupper())
    names = {name for table in tables if isinstance(table, frozenset) for name in table}
    dotted = {part for name in names for part in name.split(".") if part.isidentifier()}
    more = {"jit", "language", "kernelsmith", "lang", "tree_sum", "isfinite"}
    return frozenset(dotted | more | {*keyword.kwlist, *language.IMPORT_ROOTS})
