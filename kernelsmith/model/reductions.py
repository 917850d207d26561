"""The sums that a task declares, so that their order can be found by probing."""

from dataclasses import dataclass
from typing import Literal

Terms = Literal["values", "squares", "exps", "weighted_exps"]
SIGNED: tuple[Terms, ...] = ("values",)
"""Kinds of terms that may be negative; the others never are (``weighted_exps`` never positive)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """One sum: ``output`` of each call form in ``calls`` is made of a sum over dimension ``over``.

    ``terms`` says what is summed, given an element v of a carrier:
    ``values``: v itself, times arguments that are held at one; ``squares``: v * v;
    ``exps``: exp(v - largest v); ``weighted_exps``: (v - largest v) * exp(v - largest v).

    ``carriers`` are the arguments that may carry the terms along ``over``, one at a time while the
    others are one. ``ones`` and ``zeros`` are tensors held so; ``carry`` is a tensor that enters
    the sum as one more term, the sum of an earlier part; ``index`` an integer tensor that picks an
    element of the carrier. ``then`` says what the output is of a sum S of n values: ``sum`` S;
    ``centred`` own value - f * (S / n) at every place along ``over``, where the value is the
    carrier's element times f, the element there of ``beside``. What follows a sum of terms that
    are never negative is not declared: whether a step of the sum shows is tried out on the seed.

    ``sizes``: sizes of ``over`` whose order is verified node by node, () for all that cases have;
    other cases get one launch of probes each. ``probes_max``: most queries a verdict spends on it.
    """

    name: str
    calls: tuple[str, ...]
    output: str
    over: str
    terms: Terms
    carriers: tuple[str, ...]
    ones: tuple[str, ...] = ()
    zeros: tuple[str, ...] = ()
    carry: str = ""
    index: str = ""
    then: Literal["sum", "centred"] = "sum"
    beside: str = ""
    sizes: tuple[int, ...] = ()
    probes_max: int = 1 << 16
