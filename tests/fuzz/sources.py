"""Legal candidates, drawn from a grammar, with one place at which something else can be put."""

from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

Side = Literal["jit", "host"]
HOLE = "@@"
MODULE = '''\
"""A candidate."""
import torch
import triton
import triton.language as tl
from kernelsmith.lang import tree_sum

FOUR = 4
SIZE = tl.constexpr(64)
{module}

@triton.jit
def _add(a, b):
    return a + b


@triton.jit
def _kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols, mask=cols < n, other=0.0)
{jit}
    tl.store(y_ptr + cols, x, mask=cols < n)


def _size(n):
    return triton.cdiv(n, 64)


def forward_infer(x, w):
    y = torch.empty_like(x)
    n = x.shape[0]
{host}
    _kernel[(1,)](x, y, n, BLOCK=64{launch})
    return (y,)
'''
LEAVES = {
    "jit": ("x", "n", "cols", "1", "0.5", "BLOCK", "SIZE", "tl.program_id(0)", "float('inf')"),
    "host": ("n", "x.shape[0]", "x.stride(0)", "x.numel()", "FOUR", "2", "w.ndim", "_size(n)"),
}
AROUND = {
    "jit": (
        "tl.exp({})",
        "({} + x)",
        "(x * {})",
        "(-{})",
        "tl.where(x > {}, x, 0.0)",
        "tl.maximum(x, {})",
        "({} if n > 3 else x)",
        "(x if n > {} else x)",
        "tl.sum({}, axis=0)",
        "({}).to(tl.float32)",
        "tree_sum({})",
        "_add({}, x)",
        "(x, {})[0]",
        "tl.load(x_ptr + {})",
        "x[:, {}]",
        "min({}, 3)",
        "tl.load(x_ptr, mask={}, other=0.0)",
        "tl.reduce({}, 0, _add)",
        "(n < {} < 3)",
        "(not {})",
        "(n and {})",
        "x[{}:]",
        "tl.zeros([{}, 4], dtype=tl.float32)",
        "({} // 2 ** 3 % 5)",
    ),
    "host": (
        "triton.cdiv({}, 4)",
        "({} + n)",
        "(n * {})",
        "(-{})",
        "min({}, n)",
        "({} if n > 3 else n)",
        "(n if {} > 3 else n)",
        "(n, {})[0]",
        "x.new_empty(({}, n))",
        "x.view({}, -1)",
        "_size({})",
        "x[{}:]",
        "x.shape[{}]",
        "(n < {} < 9)",
        "(not {})",
        "(n or {})",
        "[n, *({}, n)]",
        "torch.empty_like(x, dtype=torch.float32).stride({})",
        "max(n, {} // 2)",
        "({} is None)",
    ),
}
BLOCKS = {
    "jit": (
        "for i in range({E}):\n    {S}",
        "if n > 3:\n    {S}",
        "while n < {E}:\n    {S}",
        "if BLOCK == 4:\n    pass\nelif n > 3:\n    pass\nelse:\n    {S}",
        "for i in tl.static_range(0, 4, 2):\n    {S}",
        "for i in tl.range(n, num_stages=2):\n    {S}",
    ),
    "host": (
        "for i in range({E}):\n    {S}",
        "if n > 3:\n    {S}",
        "if n:\n    pass\nelse:\n    {S}",
        "for i in (1, 2, {E}):\n    {S}",
        "for i, j in ((1, 2), (3, 4)):\n    {S}",
    ),
}
PLAIN = {
    "jit": (
        "v = {E}",
        "v, w = x, {E}",
        "v = w = {E}",
        "x += {E}",
        "tl.store(y_ptr + {E}, x)",
        "tl.static_assert({E} > 0, 'a word')",
        "v: tl.constexpr = {E}",
    ),
    "host": (
        "v = {E}",
        "v, *w = x, {E}",
        "v = w = {E}",
        "n += {E}",
        "assert {E}, 'a word'",
        "_kernel[({E},)](x, y, n, BLOCK=64)",
        "_kernel[(1,)](x, y, {E}, BLOCK=64, num_warps=4)",
        "_kernel[lambda META: ({E}, META['BLOCK'])](x, y, n, BLOCK=64)",
        "return (y, {E})",
    ),
}


def indented(text: str, by: int = 4) -> str:
    return "\n".join(" " * by + line for line in text.split("\n"))


def nested(side: Side) -> st.SearchStrategy[str]:
    """An expression with one hole, up to six levels deep."""
    layers = st.lists(st.sampled_from(AROUND[side]), max_size=6)

    def build(around: list[str]) -> str:
        text = HOLE
        for layer in around:
            text = layer.format(text)
        return text

    return layers.map(build)


@st.composite
def statement(draw: st.DrawFn, side: Side, *, whole: bool = False) -> str:
    """A statement in blocks up to four deep, with one hole; ``whole``: the hole is a statement."""
    text = HOLE if whole else draw(st.sampled_from(PLAIN[side])).format(E=draw(nested(side)))
    leaf = st.sampled_from(LEAVES[side])
    for block in draw(st.lists(st.sampled_from(BLOCKS[side]), max_size=4)):
        head, _ = block.split("{S}")
        body = indented(text) if not whole else f"    {HOLE}"
        text = head.format(E=draw(leaf)).rstrip(" ") + body if not whole else _deepen(block, text)
    return text


def _deepen(block: str, text: str) -> str:
    head = block.split("{S}")[0].replace("{E}", "n").rstrip(" ")
    return head + indented(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spliced:
    """A candidate with a hole at ``where``, what makes it legal, and its text when filled."""

    where: str
    text: str
    legal: str

    def filled(self, what: str) -> str:
        """The hole filled, with the hole's indentation where ``what`` has lines."""
        lines = []
        for line in self.text.split("\n"):
            if HOLE in line and "\n" in what:
                by = len(line) - len(line.lstrip())
                lines.append(indented(what, by))
            else:
                lines.append(line.replace(HOLE, what))
        return "\n".join(lines)


@st.composite
def candidates(draw: st.DrawFn, where: str) -> Spliced:
    """``where``: "expression", "statement", "module" or "launch"."""
    side: Side = draw(st.sampled_from(("jit", "host")))
    own = {"jit": "pass", "host": "pass"}
    other: Side = "host" if side == "jit" else "jit"
    own[other] = draw(statement(other)).replace(HOLE, draw(st.sampled_from(LEAVES[other])))
    module, launch, legal = "", "", draw(st.sampled_from(LEAVES[side]))
    if where == "expression":
        own[side] = draw(statement(side))
    elif where == "statement":
        own[side], legal = draw(statement(side, whole=True)), "pass"
    elif where == "module":
        module, legal = HOLE, "EIGHT = (8, -1.5, (None, True))"
    else:
        launch, legal = f", {HOLE}", "num_warps=4"
    text = MODULE.format(
        module=module, jit=indented(own["jit"]), host=indented(own["host"]), launch=launch
    )
    return Spliced(where=where, text=text, legal=legal)
