"""policy: what the language forbids is never accepted; whatever comes is answered in one line."""

import ast
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from kernelsmith.gate import policy
from tests.fuzz import forbidden
from tests.fuzz.properties import Property
from tests.fuzz.sources import MODULE, Spliced, candidates

ENTRIES = ("forward_infer",)
MESSAGE_MAX_CHARS = 1200
PLACES = ("expression", "statement", "module", "launch")
LEGAL = MODULE.format(module="", jit="    pass", host="    pass", launch="")


def judged(source: str) -> list[policy.Violation]:
    """The violations of a source, each held to the form of a refusal."""
    found = policy.check(source, ENTRIES)
    last = source.count("\n") + source.count("\r") + 2
    for violation in found:
        said = str(violation)
        assert len(said.splitlines()) == 1, said
        assert said.isprintable(), said
        assert len(said) <= MESSAGE_MAX_CHARS, len(said)
        assert violation.construct, said
        assert violation.instead, said
        assert 1 <= violation.line <= last, said
    return found


def accepted(spliced: Spliced) -> None:
    """A legal candidate stays accepted."""
    source = spliced.filled(spliced.legal)
    found = judged(source)
    assert not found, f"{found[0]}\n{source}"


def refused(pair: tuple[Spliced, str]) -> None:
    """What is forbidden is refused, and at the line at which it stands or before."""
    spliced, what = pair
    source = spliced.filled(what)
    assert judged(source), source


def splices(where: str) -> st.SearchStrategy[tuple[Spliced, str]]:
    """A legal candidate of the grammar and what is put into it."""
    what: dict[str, st.SearchStrategy[str]] = {
        "expression": forbidden.expressions(),
        "statement": st.sampled_from(forbidden.STATEMENTS),
        "module": st.sampled_from(forbidden.MODULE),
        "launch": forbidden.launches(),
    }
    return st.tuples(candidates(where), what[where])


@st.composite
def normalised(draw: st.DrawFn) -> str:
    """A legal candidate in which one identifier has a character that only NFKC makes ASCII."""
    source = draw(candidates("expression"))
    text = source.filled(source.legal)
    found = [
        (node.lineno, node.col_offset, name)
        for node in ast.walk(ast.parse(text))
        if (name := getattr(node, "id", None) or "") and hasattr(node, "lineno")
    ]
    line, col, name = draw(st.sampled_from(found))
    lines = text.split("\n")
    own = lines[line - 1]
    new = forbidden.disguised(name, draw(st.integers(0, 1)), draw(st.integers(0, 30)))
    assume(new != name)
    lines[line - 1] = own[:col] + new + own[col + len(name) :]
    return "\n".join(lines)


def normalised_refused(source: str) -> None:
    ast.parse(source)  # Python itself takes it
    assert judged(source), source


# ---------------------------------------------------------------------------------------- garbage

TOKENS = (
    "exec",
    "eval",
    "__import__('os')",
    ".__class__",
    "tl.core",
    "lambda",
    "yield",
    "async ",
    "await ",
    "import os\n",
    "*",
    "**",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ":=",
    "@",
    "\n",
    "\r",
    "\r\n",
    "\t",
    "    ",
    "\x00",
    "\x0c",
    "\ufeff",
    "\u2028",
    "\u202e",
    "\\\n",
    '"""',
    "'",
    "#",
    ";",
    ",",
    ".",
    "=",
    "if ",
    "for ",
    "in ",
    "else:",
    "while ",
    "global x",
    "del x",
    "0x",
    "1e999",
    "1_0",
    "1j",
    "...",
    "f''",
    "ｅ",
    "# coding: utf-7\n",
    "\ud800",
    "class A:",
    "match x:",
    "print",
    "self",
    "é",
    "𝐱",
    "\x1a",
)
NODES = (
    ast.Module,
    ast.Import,
    ast.ImportFrom,
    ast.alias,
    ast.FunctionDef,
    ast.arguments,
    ast.arg,
    ast.Return,
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.For,
    ast.While,
    ast.If,
    ast.Assert,
    ast.Expr,
    ast.Pass,
    ast.Break,
    ast.Continue,
    ast.BoolOp,
    ast.BinOp,
    ast.UnaryOp,
    ast.Lambda,
    ast.IfExp,
    ast.Compare,
    ast.Call,
    ast.keyword,
    ast.Constant,
    ast.Attribute,
    ast.Subscript,
    ast.Starred,
    ast.Name,
    ast.List,
    ast.Tuple,
    ast.Slice,
    ast.expr_context,
    ast.boolop,
    ast.unaryop,
    ast.operator,
    ast.cmpop,
)
IMPORTS = ("torch", "triton", "triton.language")
HIDDEN = set(forbidden.SECRETS) - {"jit", "language"}


def sound(source: str) -> None:
    """Whatever is accepted holds none of what every reading of the language forbids."""
    if judged(source):
        return
    tree = ast.parse(source)
    bound = _bound(tree)
    for node in ast.walk(tree):
        assert isinstance(node, NODES), ast.dump(node)
        assert not isinstance(node, ast.MatMult), source
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                assert not name.startswith("__"), source
                assert name.isascii(), source
                assert not isinstance(node, ast.Attribute) or name not in HIDDEN, source
                assert name not in forbidden.BUILTINS or name in bound, source
            case ast.Import(names=names):
                assert all(one.name in IMPORTS for one in names), source
            case ast.ImportFrom(module=module, level=level):
                assert (module, level) == ("kernelsmith.lang", 0), source
            case ast.FunctionDef(decorator_list=decorators):
                assert all(ast.unparse(d).startswith("triton.jit") for d in decorators), source
            case ast.Call(keywords=keywords):
                assert all(keyword.arg for keyword in keywords), source


def _bound(tree: ast.Module) -> set[str]:
    """Names that a module binds somewhere: one may call a local variable `input`."""
    found = {arg.arg for arg in ast.walk(tree) if isinstance(arg, ast.arg)}
    stored = (n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    functions = (n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))
    return found | {node.id for node in stored} | set(functions)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A legal candidate with a few places cut, doubled or overwritten."""
    text = LEGAL if draw(st.booleans()) else draw(candidates("expression")).filled("n")
    piece = st.one_of(st.sampled_from(TOKENS), st.text(max_size=6), forbidden.expressions())
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.integers(0, 12)))
        match draw(st.integers(0, 2)):
            case 0:
                text = text[:begin] + text[end:]
            case 1:
                text = text[:end] + text[begin:]
            case _:
                text = text[:begin] + draw(piece) + text[end:]
    return text


HUGE = {
    "brackets": lambda n: "x = " + "(" * n + ")" * n,
    "minus": lambda n: "x = " + "-" * n + "1",
    "not": lambda n: "x = " + "not " * n + "1",
    "attributes": lambda n: "x = a" + ".b" * n,
    "subscripts": lambda n: "x = a" + "[0]" * n,
    "calls": lambda n: "x = a" + "()" * n,
    "sum": lambda n: "x = 1" + "+1" * n,
    "power": lambda n: "x = 1" + "**1" * n,
    "strings": lambda n: "x = " + "'a' " * n,
    "digits": lambda n: "x = " + "9" * n,
    "hex": lambda n: "x = 0x" + "f" * n,
    "name": lambda n: "x" * n + " = y" * 2,
    "call of a long name": lambda n: "def f():\n    " + "y" * n + "()",
    "long keyword": lambda n: f"def f(a):\n    return min(a, {'k' * n}=a)",
    "long parameter": lambda n: f"def f({'p' * n}):\n    return f(q={'p' * n})",
    "lambdas": lambda n: "x = " + "lambda: " * n + "1",
    "ifs": lambda n: "\n".join(" " * i + "if 1:" for i in range(min(n, 2000))) + "\n",
    "elifs": lambda n: "def f(a):\n    if a:\n        pass\n" + "    elif a:\n        pass\n" * n,
    "statements": lambda n: "print()\n" * n,
    "open string": lambda n: "x = '''" + "é\n" * n,
    "backslashes": lambda n: "x = 1" + "\\\n" * n,
    "blanks": lambda n: " " * n + "é = 1",
    "quotes": lambda n: "é = " + "'" * n,
    "f-strings": lambda n: "x = " + "f'{" * n,
    "a line": lambda n: "#" + "é" * n,
    "comprehensions": lambda n: "x = [" * n,
}


def huge(pair: tuple[str, int]) -> None:
    """Depth and length are refused, not a crash nor a wait."""
    kind, size = pair
    judged(HUGE[kind](size) + "\n")


def garbage() -> st.SearchStrategy[str]:
    """Text, and bytes as a careless reader would hand them over."""
    return st.one_of(
        st.text(max_size=200),
        st.binary(max_size=200).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
        st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")),
        st.lists(st.sampled_from(TOKENS), max_size=40).map("".join),
        st.tuples(st.sampled_from(("\ufeff", "# coding: rot13\n", "\x00")), st.just(LEGAL)).map(
            "".join
        ),
        st.just(LEGAL.replace("\n", "\r\n")),
    )


SIZES: st.SearchStrategy[Any] = st.sampled_from((1, 7, 99, 198, 205, 990, 3000, 30_000, 1_000_000))
PROPERTIES = (
    *(
        Property(name=f"policy.legal_{place}", examples=40, drawn=candidates(place), holds=accepted)
        for place in PLACES
    ),
    *(
        Property(
            name=f"policy.forbidden_{place}", examples=count, drawn=splices(place), holds=refused
        )
        for place, count in zip(PLACES, (300, 150, 150, 80), strict=True)
    ),
    Property(name="policy.normalised", examples=60, drawn=normalised(), holds=normalised_refused),
    Property(name="policy.mutated", examples=200, drawn=mutated(), holds=sound),
    Property(name="policy.garbage", examples=150, drawn=garbage(), holds=sound),
    Property(
        name="policy.huge",
        examples=40,
        drawn=st.tuples(st.sampled_from(sorted(HUGE)), SIZES),
        holds=huge,
    ),
)
