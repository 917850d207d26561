"""Checks on a candidate's raw text, before it is parsed.

Python, ``str.splitlines`` (which ``linecache`` and so ``inspect.getsource`` rely on) and a person
must see the same lines and names, else what is judged is not what is compiled.
"""

import io
import re
import tokenize

from kernelsmith.gate.policy_base import Violation

MAX_BYTES = 256 * 1024
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)


def text_violations(source: str) -> list[Violation]:
    """Refusals of the text as such; the caller parses only when this is empty."""
    try:
        nbytes = len(source.encode("utf-8"))
    except UnicodeEncodeError as error:
        line = source.count("\n", 0, error.start) + 1
        return [Violation(line, 0, "text that is not UTF-8", "save the file as UTF-8")]
    if nbytes > MAX_BYTES:
        return [Violation(1, 0, f"a source of {nbytes} bytes", f"keep it under {MAX_BYTES} bytes")]
    found = _control_characters(source) + _coding_cookie(source)
    if not found and not source.isascii():
        found = _names_beyond_ascii(source)
    return found


def _control_characters(source: str) -> list[Violation]:
    text = source.replace("\r\n", "\n")
    match = _CONTROL.search(text)
    if match is None:
        return []
    start = match.start()
    line = text.count("\n", 0, start) + 1
    col = start - (text.rfind("\n", 0, start) + 1)
    what = f"the control character U+{ord(match.group()):04X}"
    return [Violation(line, col, what, "use spaces and newlines only")]


def _coding_cookie(source: str) -> list[Violation]:
    for number, line in enumerate(source.split("\n", 2)[:2], start=1):
        match = _COOKIE.match(line)
        if match and match.group(1).lower().replace("_", "-") not in ("utf-8", "utf8"):
            what = f"the coding cookie {match.group(1)!r}"
            return [Violation(number, 0, what, "sources are UTF-8; remove the comment")]
    return []


def _names_beyond_ascii(source: str) -> list[Violation]:
    """Identifiers that Python would normalise (NFKC) to other names."""
    found: list[Violation] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            inside = token.type in (tokenize.COMMENT, tokenize.STRING)
            if not inside and not token.string.isascii():
                line, col = token.start
                what = f"the name {token.string[:40]!a}"
                found.append(Violation(line, col, what, "use ASCII names"))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        pass  # the parser reports it
    return found
