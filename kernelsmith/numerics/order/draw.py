"""Drawings of summation trees: SVG for people's reports, lines of text for terminals.

Regular parts are drawn as one box with their name, and long chains with their middle left out, so
that a tree of a thousand units still fits a page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from kernelsmith.numerics.order.compare import named
from kernelsmith.numerics.order.drawn import shape_of_drawn
from kernelsmith.numerics.order.shapes import describe, grouped, over, part, shape, under
from kernelsmith.numerics.order.tree import FLOAT32_BITS, Tree

_BOXES = 48
"""Leaves and boxes of one SVG, at most about so many."""
_LINES = 16
"""The same of a text."""
_WHOLE = 16
"""A tree of so few units is drawn unit by unit."""
_ENDS = 3
_LEVELS = 3


@dataclass(slots=True)
class _Item:
    """One thing that is drawn: a unit, a box for a regular part, a gap, a sum or a chain."""

    kind: str
    label: str
    items: list["_Item"]
    row: float = 0.0
    column: int = 0


def draw_text(tree: Tree, width: int = 100, terms: Sequence[int] | None = None) -> str:
    """The tree as an outline: sums above what they add, regular parts in one line.

    Args:
        tree: what to draw.
        width: columns; longer lines are cut.
        terms: if the units are drawn from a longer sum, which terms of it they are, ascending.
    """
    lines = [describe(tree, terms)]
    if tree.nodes:
        stack = [(_laid_out(tree, _LINES, terms), "", "")]
        while stack:
            item, lead, below = stack.pop()
            lines.append(lead + item.label)
            for place, child in reversed(list(enumerate(item.items))):
                last = place == len(item.items) - 1
                stack.append(
                    (child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))
                )
    return "\n".join(line if len(line) <= width else line[: width - 1] + "…" for line in lines)


def draw_svg(tree: Tree, title: str = "", terms: Sequence[int] | None = None) -> str:
    """The tree as one self-contained SVG document, readable on light and dark backgrounds.

    Units run down the left side; every sum is a dot to the right of what it adds, the root
    rightmost; a running total goes down a line, with a dot where each item joins it. A sum that
    keeps other than 24 bits, and a fused one, say so.
    """
    root = _laid_out(tree, _BOXES, terms)
    order = _in_rows(root)
    step, pitch = 46, 22
    label = 8 + 6.9 * max((len(item.label) for item in order if not item.items), default=1)
    deepest = max(item.column for item in order)
    longest = max((len(item.label) for item in order if item.items), default=0)
    heading = title or "summation tree"
    words = max(8 * len(heading), 6.7 * len(describe(tree, terms))) + 24
    width = int(max(label + 40 + step * deepest + 6.7 * longest, words))
    rows = sum(not item.items for item in order)
    height = 64 + pitch * rows

    def x_of(item: _Item) -> float:
        return label + 16 + step * item.column if item.items else label

    def y_of(item: _Item) -> float:
        return 56 + pitch * item.row

    heading = escape(heading)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" font-family="monospace" font-size="11" '
        'fill="#808080">',
        f"<title>{heading}: {escape(describe(tree, terms))}</title>",
        f'<text x="8" y="18" font-size="13" font-weight="bold">{heading}</text>',
        f'<text x="8" y="34">{escape(describe(tree, terms))}</text>',
        '<g stroke="#808080" stroke-width="1.2" fill="none">',
    ]
    for item in order:
        for child in item.items:
            out.append(
                f'<path d="M{x_of(child):.1f} {y_of(child):.1f}H{x_of(item):.1f}'
                f'V{y_of(item):.1f}"/>'
            )
    out.append("</g>")
    for item in order:
        x, y = x_of(item), y_of(item)
        if not item.items:
            place = f'x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end"'
            out.append(f"<text {place}>{escape(item.label)}</text>")
            continue
        colour = {"chain": "#d9822b", "fused": "#b04bc4"}.get(item.kind, "#3b82c4")
        # A running total goes down its line: a dot where each of its items joins it.
        dots = [y_of(child) for child in item.items[1:]] if item.kind == "chain" else [y]
        out += [f'<circle cx="{x:.1f}" cy="{dot:.1f}" r="4" fill="{colour}"/>' for dot in dots]
        if item.label != "+":
            out.append(f'<text x="{x + 8:.1f}" y="{y - 5:.1f}">{escape(item.label)}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


@dataclass(frozen=True, slots=True)
class _Page:
    """A tree that is drawn, what stands for its units, and what they are called."""

    tree: Tree
    leaves: list[_Item]
    noun: str = ""
    terms: Sequence[int] | None = None


def _laid_out(tree: Tree, room: int, terms: Sequence[int] | None) -> _Item:
    """What is drawn of a tree: of a regular one its groups, each in a box, and how they join."""
    leaves = [_Item("unit", named([unit], terms), []) for unit in range(tree.units)]
    page = _Page(tree, leaves, terms=terms)
    groups = grouped(tree) if tree.units > _WHOLE and terms is None else None
    if groups is not None:
        boxes = []
        for top in groups.tops:
            units = under(tree, top)
            name = shape(part(tree, top))
            label = named(units, terms)
            label += "" if len(units) == 1 else f": {name}"
            boxes.append(_Item("box", label, []))
        page = _Page(over(tree, groups.tops), boxes, groups.noun + " ")
    return _item(page, page.tree.root, room, 0)


def _item(page: _Page, node: int, room: int, level: int) -> _Item:
    """What is drawn of a node, in so many lines."""
    tree = page.tree
    if node < tree.units:
        return page.leaves[node]
    units = under(tree, node)
    if len(units) > min(room, _WHOLE) and level:
        name = _shape(page, node, units)
        if room <= 2 or (name is not None and level >= _LEVELS):
            text = f"{page.noun}{named(units, page.terms)}"
            return _Item("box", text + (f": {name}" if name else ", in no regular shape"), [])
    spine = _spine(tree, node)
    if len(spine) > 2 * _ENDS + 1:
        return _chain(page, spine, room, level)
    children = tree.children(node)
    fused = len(children) > 2
    label = ("+" if not fused else f"{len(children)} at once") + _bits(tree, node)
    shown = _shortened(list(children), room)
    items = _items(page, shown, room // len(shown), level)
    return _Item("fused" if fused else "sum", label, items)


def _shape(page: _Page, node: int, units: list[int]) -> str | None:
    """The shape under a node, of drawn terms by what they leave of the whole sum."""
    inner = part(page.tree, node)
    if page.terms is None:
        return shape(inner)
    return shape_of_drawn(inner, [page.terms[unit] for unit in units])


def _items(page: _Page, shown: list[int], room: int, level: int) -> list[_Item]:
    return [
        _Item("gap", f"… {-child} more …", [])
        if child < 0
        else _item(page, child, max(1, room), level + 1)
        for child in shown
    ]


def _bits(tree: Tree, node: int) -> str:
    bits = tree.bits[node - tree.units]
    return "" if bits == FLOAT32_BITS else f" ({bits} bits)"


def _shortened(nodes: list[int], room: int) -> list[int]:
    """Many children, the middle ones as minus their number."""
    if len(nodes) <= max(room, 2 * _ENDS + 1):
        return nodes
    return [*nodes[:_ENDS], -(len(nodes) - 2 * _ENDS), *nodes[-_ENDS:]]


def _spine(tree: Tree, node: int) -> list[int]:
    """The sums from a node down that each take their largest child first: a chain's, if many."""
    spine = [node]
    while True:
        inner = [child for child in tree.children(spine[-1]) if child >= tree.units]
        if not inner:
            return spine
        deep = inner[0] if len(inner) == 1 else _larger(tree, inner)
        if deep < 0:
            return spine
        spine.append(deep)


def _larger(tree: Tree, inner: list[int]) -> int:
    """The one child that is itself a sum of sums like these; -1 if none is plainly the longest."""
    sizes = {child: len(under(tree, child)) for child in inner}
    ordered = sorted(inner, key=lambda child: sizes[child])
    longest, next_one = ordered[-1], ordered[-2]
    return longest if sizes[longest] >= 2 * sizes[next_one] else -1


def _chain(page: _Page, spine: list[int], room: int, level: int) -> _Item:
    """A running total, first what it starts from, then what joins it."""
    tree = page.tree
    joining = list(tree.children(spine[-1]))
    for below, node in zip(reversed(spine[1:]), reversed(spine[:-1]), strict=True):
        joining += [child for child in tree.children(node) if child != below]
    shown = _shortened(joining, min(_WHOLE, room))
    widest = max(len(tree.children(node)) for node in spine)
    fused = "" if widest <= 2 else f", up to {widest} at once"
    odd = sorted({tree.bits[node - tree.units] for node in spine} - {FLOAT32_BITS})
    kept = f" ({', '.join(map(str, odd))} bits)" if odd else ""
    label = f"running total of {len(spine)} sums{fused}{kept}"
    return _Item("chain", label, _items(page, shown, room // len(shown), level))


def _in_rows(root: _Item) -> list[_Item]:
    """Gives every item its row and column; returns all, children before their sums."""
    order: list[_Item] = []
    stack = [(root, False)]
    row = 0
    while stack:
        item, done = stack.pop()
        if not item.items:
            item.row = row
            row += 1
            order.append(item)
        elif done:
            last = item.items[-1].row
            item.row = last if item.kind == "chain" else (item.items[0].row + last) / 2
            item.column = 1 + max(child.column for child in item.items)
            order.append(item)
        else:
            stack.append((item, True))
            stack.extend((child, False) for child in reversed(item.items))
    return order
