"""What a one-spot mutant of a seed is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """``old`` is replaced by ``new`` where it first stands (everywhere if ``everywhere``).

    ``order``: it sums in another order, which the order check must see by itself.
    """

    name: str
    old: str
    new: str
    everywhere: bool = False
    order: bool = False
