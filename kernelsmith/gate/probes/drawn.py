"""One-spot mutants drawn from the syntax of a seed that nobody wrote mutants for.

A few operators of the engine, in turn: the order of a sum, a mask, the sign of a term, a constant.
Whether a mutant can be told from its seed is not known beforehand: a change may change nothing. One
that is not told is named, for whoever wrote the task to judge: it changes nothing, or no case sees
that spot.
"""

import itertools
from collections.abc import Sequence

from kernelsmith.gate.probes.engine import Planted, planted, within

TURNS = ("tl.sum for tree_sum", "one element too few", "plus for minus", "constant off by 2**-20")


def drawn(source: str, entries: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """(name, source) of mutants within the language, those of different operators first."""
    by_turn: dict[str, list[Planted]] = {operator: [] for operator in TURNS}
    for each in planted(source, TURNS):
        by_turn[each.operator].append(each)
    in_turn = itertools.chain.from_iterable(itertools.zip_longest(*by_turn.values()))
    return tuple(
        (each.name, each.source) for each in in_turn if each is not None and within(each, entries)
    )
