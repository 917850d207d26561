"""A summation tree: which terms are added to which, and how many bits each sum keeps.

A tree is stored flat (chains are thousands of sums deep, and Python's recursion is not) and in one
canonical form, so that two trees are equal exactly when ``==`` says so: children by their least
unit (addition commutes), inner sums in post-order.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelsmith.errors import InputError

FLOAT32_BITS = 24
"""Significand bits of a float32 sum, the leading one included."""

Nested = int | Sequence["Nested"]


@dataclass(frozen=True, slots=True)
class Tree:
    """A rooted tree over the units 0 .. units-1.

    Attributes:
        units: how many leaves there are; leaf ``k`` is unit ``k``.
        nodes: the children of inner sum ``units + index``, each a unit or an inner sum with a
            lower number; two or more, ordered by their least unit. The last one is the root. A
            sum of more than two children is one fused sum: nothing is rounded in between.
        bits: significand bits that each inner sum keeps, 24 for float32.
    """

    units: int
    nodes: tuple[tuple[int, ...], ...]
    bits: tuple[int, ...]

    @staticmethod
    def of(nested: Nested) -> "Tree":
        """The tree of nested sequences, such as ``((0, 1), 2)``."""
        names: dict[int, tuple[int, ...]] = {}
        return joined(_unnest(nested, names), names)

    @staticmethod
    def parse(text: str) -> "Tree":
        """The tree of a text that ``str`` wrote.

        Raises:
            InputError: the text is no tree.
        """
        names: dict[int, tuple[int, ...]] = {}
        bits: dict[int, int] = {}
        open_sums: list[list[int]] = [[]]
        position = 0
        for found in re.finditer(r"\(|\)(?:~(\d+))?|\d+|\+", text):
            if found.start() != position:
                break
            position = found.end()
            token = found.group()
            if token == "(":
                open_sums.append([])
            elif token.startswith(")"):
                if len(open_sums) < 2:
                    raise _no_tree(text)
                name = -1 - len(names)
                names[name] = tuple(open_sums.pop())
                bits[name] = int(found.group(1) or FLOAT32_BITS)
                open_sums[-1].append(name)
            elif token != "+":
                open_sums[-1].append(int(token))
        if position != len(text) or len(open_sums) != 1 or len(open_sums[0]) != 1:
            raise _no_tree(text)
        return joined(open_sums[0][0], names, bits)

    def __str__(self) -> str:
        parts = [str(unit) for unit in range(self.units)]
        # Joining strings bottom up would copy a chain n times; pieces are walked instead.
        if not self.nodes:
            return parts[0]
        out: list[str] = []
        stack: list[int | str] = [self.root]
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                out.append(item)
            elif item < self.units:
                out.append(parts[item])
            else:
                kept = self.bits[item - self.units]
                out.append("(")
                stack.append(")" if kept == FLOAT32_BITS else f")~{kept}")
                children = self.children(item)
                for child in reversed(children[1:]):
                    stack.extend((child, "+"))
                stack.append(children[0])
        return "".join(out)

    @property
    def root(self) -> int:
        """The number of the outermost sum (unit 0 if there is only one unit)."""
        return self.units + len(self.nodes) - 1 if self.nodes else 0

    @property
    def digest(self) -> str:
        """SHA-256 of the text, in hexadecimal."""
        return hashlib.sha256(str(self).encode()).hexdigest()

    @property
    def widest(self) -> int:
        """The most terms that one sum adds at once: 2 if no sum is fused."""
        return max((len(children) for children in self.nodes), default=1)

    def children(self, node: int) -> tuple[int, ...]:
        """The children of an inner sum; none of a unit."""
        return self.nodes[node - self.units] if node >= self.units else ()

    def leaves(self) -> list[tuple[int, ...]]:
        """The units under every node, by node number, each ascending.

        Memory is the sum of all sums' sizes: n²/2 for a chain.
        """
        under: list[tuple[int, ...]] = [(unit,) for unit in range(self.units)]
        for children in self.nodes:
            under.append(tuple(sorted(unit for child in children for unit in under[child])))
        return under

    def least(self) -> list[int]:
        """The least unit under every node, by node number."""
        least = list(range(self.units))
        for children in self.nodes:
            least.append(least[children[0]])
        return least

    def sizes(self) -> list[int]:
        """How many units are under every node, by node number."""
        sizes = [1] * self.units
        for children in self.nodes:
            sizes.append(sum(sizes[child] for child in children))
        return sizes

    def parents(self) -> list[int]:
        """The sum that takes each node, by node number; -1 for the root."""
        parents = [-1] * (self.units + len(self.nodes))
        for index, children in enumerate(self.nodes):
            for child in children:
                parents[child] = self.units + index
        return parents

    def with_bits(self, bits: Sequence[int]) -> "Tree":
        """The same tree with other widths, one for each inner sum."""
        return Tree(self.units, self.nodes, tuple(bits))


def joined(
    root: int, names: dict[int, tuple[int, ...]], bits: dict[int, int] | None = None
) -> Tree:
    """The canonical tree of inner sums under any names.

    Args:
        root: the outermost sum, or the only unit.
        names: children of every inner sum by its name, which is negative; units are >= 0.
        bits: what each sum keeps, by name; 24 where nothing is said.

    Raises:
        InputError: a unit is missing or added twice, or a sum has fewer than two children.
    """
    order: list[int] = []
    stack = [root]
    while stack:
        name = stack.pop()
        if name < 0:
            order.append(name)
            stack.extend(names[name])
    least: dict[int, int] = {}
    seen: list[int] = [root] if root >= 0 else []
    for name in reversed(order):
        children = names[name]
        seen.extend(child for child in children if child >= 0)
        if len(children) < 2:
            raise InputError("a sum of one term", hint="give every sum two terms or more")
        least[name] = min(least.get(child, child) for child in children)
    if sorted(seen) != list(range(len(seen))):
        raise InputError(
            f"the {len(seen)} units of a tree are not 0 .. {len(seen) - 1}, each once",
            hint="number the units from 0 and name each of them once",
        )
    return _numbered(root, names, bits or {}, least, len(seen))


def _numbered(
    root: int,
    names: dict[int, tuple[int, ...]],
    bits: dict[int, int],
    least: dict[int, int],
    units: int,
) -> Tree:
    """Numbers the sums in post-order, children by their least unit."""
    numbers: dict[int, int] = {}
    nodes: list[tuple[int, ...]] = []
    kept: list[int] = []
    stack: list[tuple[int, bool]] = [(root, False)]
    while stack:
        name, done = stack.pop()
        if name >= 0:
            continue
        children = sorted(names[name], key=lambda child: least.get(child, child))
        if done:
            numbers[name] = units + len(nodes)
            nodes.append(tuple(numbers.get(child, child) for child in children))
            kept.append(bits.get(name, FLOAT32_BITS))
        else:
            stack.append((name, True))
            stack.extend((child, False) for child in reversed(children))
    return Tree(units, tuple(nodes), tuple(kept))


def chain(order: Iterable[int]) -> Tree:
    """The tree that adds one unit after another, in ``order``."""
    names: dict[int, tuple[int, ...]] = {}
    total: int | None = None
    for unit in order:
        if total is None:
            total = unit
        else:
            names[-1 - len(names)] = (total, unit)
            total = -len(names)
    if total is None:
        raise InputError("a tree of no units", hint="give at least one unit")
    return joined(total, names)


def _unnest(nested: Nested, names: dict[int, tuple[int, ...]]) -> int:
    if isinstance(nested, int):
        return nested
    children = tuple(_unnest(child, names) for child in nested)
    names[-1 - len(names)] = children
    return -len(names)


def _no_tree(text: str) -> InputError:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return InputError(f"no summation tree: {shown!r}", hint="write it as ((0+1)+2)")
