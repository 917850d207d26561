"""The distribution of the importance ratio: exactly 1, and how far from it, decade by decade."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np

from kernelsmith.onpolicy.comparing import Compared

_LOWEST, _HIGHEST = -16, 0
_EDGES = 10.0 ** np.arange(_LOWEST, _HIGHEST + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """``low`` ≤ log ratio < ``high``, where high is positive; mirrored where it is negative. The
    bin of equal bits has both 0, that of −0 beside +0 the name ``sign of zero``."""

    name: str
    low: float
    high: float
    tokens: int


class Distribution:
    """Counts log ratios by decade and sign. Memory: its bins."""

    def __init__(self) -> None:
        self._same = self._zero_signs = 0
        self._below = np.zeros(len(_EDGES) + 1, dtype=np.int64)
        self._above = np.zeros(len(_EDGES) + 1, dtype=np.int64)

    def add(self, compared: Compared) -> None:
        """Takes one pair's tokens."""
        self._same += int(np.count_nonzero(compared.same))
        d = compared.log_ratio[~compared.same]
        self._zero_signs += int(np.count_nonzero(d == 0.0))
        for side, held in ((d < 0.0, self._below), (d > 0.0, self._above)):
            places = np.searchsorted(_EDGES, np.abs(d[side]), side="right")
            held += np.bincount(places, minlength=len(held))

    def bins(self) -> tuple[Bin, ...]:
        """From far below 1 to far above it; on each side from its first bin that has a token to its
        last."""
        edges = [0.0, *(float(edge) for edge in _EDGES), math.inf]
        below = [
            Bin(name=f"r < 1 by {_range(low, high)}", low=-high, high=-low, tokens=int(count))
            for low, high, count in zip(edges, edges[1:], self._below, strict=False)
        ]
        above = [
            Bin(name=f"r > 1 by {_range(low, high)}", low=low, high=high, tokens=int(count))
            for low, high, count in zip(edges, edges[1:], self._above, strict=False)
        ]
        middle = [Bin(name="exactly 1", low=0.0, high=0.0, tokens=self._same)]
        if self._zero_signs:
            middle.append(Bin(name="sign of zero", low=0.0, high=0.0, tokens=self._zero_signs))
        return (*_trimmed(below)[::-1], *middle, *_trimmed(above))

    def share_above(self, size: float) -> float:
        """Of the tokens whose log ratio is not 0 the share with |log ratio| ≥ ``size``, a power of
        ten from 1e-16 to 1."""
        start = int(np.searchsorted(_EDGES, size * (1 - 1e-9))) + 1
        many = int(self._below.sum() + self._above.sum())
        return int(self._below[start:].sum() + self._above[start:].sum()) / many if many else 0.0


def _range(low: float, high: float) -> str:
    if math.isinf(high):
        return f"|d| ≥ {low:.0e}"
    if low == 0.0:
        return f"|d| < {high:.0e}"
    return f"{low:.0e} ≤ |d| < {high:.0e}"


def _trimmed(bins: Sequence[Bin]) -> list[Bin]:
    """Without the empty ones at both ends."""
    full = [place for place, one in enumerate(bins) if one.tokens]
    return list(bins[full[0] : full[-1] + 1]) if full else []


def bars(bins: Sequence[Bin], width: int = 40) -> list[str]:
    """One line a bin. A bin with any token has a mark: none is rounded away."""
    most = max((one.tokens for one in bins), default=0)
    label = max((len(one.name) for one in bins), default=0)
    digits = max((len(f"{one.tokens:,}") for one in bins), default=0)
    return [
        f"{one.name:<{label}}  {one.tokens:>{digits},}  {_bar(one.tokens, most, width)}".rstrip()
        for one in bins
    ]


def _bar(count: int, most: int, width: int) -> str:
    if not count:
        return ""
    eighths = round(8 * width * _height(count, most))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip() or "▏"


def _height(count: int, most: int) -> float:
    """A share of the tallest bar, on the scale of log(1 + count): one token among millions is
    seen."""
    return math.log1p(count) / math.log1p(most)


def svg(bins: Sequence[Bin], title: str) -> str:
    """The histogram as one self-contained SVG document, readable on light and dark backgrounds.

    Heights are logarithmic (see the caption); every bar has its count beside it.
    """
    row, left, longest = 22, 10 + 7 * max((len(one.name) for one in bins), default=0), 420
    most = max((one.tokens for one in bins), default=0)
    height, width = 70 + row * len(bins), max(left + longest + 130, 24 + 8 * len(title))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="ui-monospace, monospace" font-size="12" fill="#777">',
        f"<title>{escape(title)}</title>",
        f'<text x="10" y="20" font-size="14">{escape(title)}</text>',
        '<text x="10" y="40">tokens by importance ratio r, log ratio d; bars: log(1 + tokens)'
        "</text>",
    ]
    for number, one in enumerate(bins):
        y = 54 + row * number
        long = longest * _height(one.tokens, most) if one.tokens else 0.0
        colour = "#2e8b57" if one.name == "exactly 1" else "#c0392b"
        parts += [
            f'<text x="{left}" y="{y + 13}" text-anchor="end">{escape(one.name)}</text>',
            f'<rect x="{left + 8}" y="{y + 2}" width="{long:.1f}" height="14" fill="{colour}"/>',
            f'<text x="{left + 14 + long:.1f}" y="{y + 13}">{one.tokens:,}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"
