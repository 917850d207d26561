"""Summation trees: found by probing, confirmed, compared and drawn. Pure functions on numpy."""

from kernelsmith.numerics.order.asking import (
    Ask,
    Budget,
    Exhausted,
    Outcome,
    Revealed,
    Unexplained,
    Unreachable,
)
from kernelsmith.numerics.order.formats import (
    FORMATS,
    Format,
    Reading,
    factors,
    product_format,
)
from kernelsmith.numerics.order.reveal import reveal_signed
from kernelsmith.numerics.order.tree import Tree

__all__ = [
    "FORMATS",
    "Ask",
    "Budget",
    "Exhausted",
    "Format",
    "Outcome",
    "Reading",
    "Revealed",
    "Tree",
    "Unexplained",
    "Unreachable",
    "factors",
    "product_format",
    "reveal_signed",
]
