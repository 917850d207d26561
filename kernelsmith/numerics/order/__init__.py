"""Summation trees: found by probing, confirmed, compared and drawn. Pure functions on numpy."""

from kernelsmith.numerics.order.asking import (
    Ask,
    Budget,
    Exhausted,
    Outcome,
    Revealed,
    Rows,
    Steps,
    Unexplained,
    Unreachable,
)
from kernelsmith.numerics.order.compare import Comparison, compare
from kernelsmith.numerics.order.draw import draw_svg, draw_text
from kernelsmith.numerics.order.formats import (
    FORMATS,
    Format,
    Reading,
    factors,
    product_format,
)
from kernelsmith.numerics.order.nonnegative import nonnegative_steps, reveal_nonnegative
from kernelsmith.numerics.order.reveal import reveal_signed, signed_steps
from kernelsmith.numerics.order.shapes import describe
from kernelsmith.numerics.order.terms import Terms, exponentials, magnitudes, squares
from kernelsmith.numerics.order.tree import Tree

__all__ = [
    "FORMATS",
    "Ask",
    "Budget",
    "Comparison",
    "Exhausted",
    "Format",
    "Outcome",
    "Reading",
    "Revealed",
    "Rows",
    "Steps",
    "Terms",
    "Tree",
    "Unexplained",
    "Unreachable",
    "compare",
    "describe",
    "draw_svg",
    "draw_text",
    "exponentials",
    "factors",
    "magnitudes",
    "nonnegative_steps",
    "product_format",
    "reveal_nonnegative",
    "reveal_signed",
    "signed_steps",
    "squares",
]
