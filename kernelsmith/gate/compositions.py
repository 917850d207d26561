"""In which batches a token must give the same bits: how serving and training compose them."""

from dataclasses import dataclass

import numpy as np

DECODE_BATCHES = (1, 2, 7, 16, 33)
PADDING = -1
"""A row of another token's making: padding or a neighbour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """A batch made of tokens of another: ``rows`` index the base batch, -1 is a padding row."""

    name: str
    rows: tuple[int, ...]


def serving(tokens: int, seed: int) -> tuple[Composition, ...]:
    """How inference meets the tokens of a training batch of ``tokens`` rows.

    Prefill of all, prefill in three uneven chunks, decode steps of 1, 2, 7, 16 and 33 tokens
    drawn from anywhere, all in another order, and padded on both sides. Deterministic in ``seed``.
    """
    draw = np.random.default_rng(seed)
    whole = tuple(range(tokens))
    found = [Composition(name="prefill", rows=whole)]
    first = max(1, tokens // 5)
    second = max(first + 1, tokens // 2 + 1)
    for number, (begin, end) in enumerate(((0, first), (first, second), (second, tokens))):
        if begin < end <= tokens:
            found.append(Composition(name=f"chunk {number + 1} of 3", rows=whole[begin:end]))
    for size in DECODE_BATCHES:
        picked = draw.choice(tokens, size=size, replace=size > tokens)
        found.append(Composition(name=f"decode of {size}", rows=tuple(picked.tolist())))
    found += recomposed(tokens, seed)
    return tuple(found)


def recomposed(tokens: int, seed: int) -> tuple[Composition, ...]:
    """The same tokens in another order, and between padding rows: 3 before, up to 16 after."""
    draw = np.random.default_rng((seed, 1))
    order = tuple(draw.permutation(tokens).tolist())
    pad_after = 16 - (tokens + 3) % 16
    padded = (PADDING,) * 3 + tuple(range(tokens)) + (PADDING,) * pad_after
    return (
        Composition(name="permuted", rows=order),
        Composition(name="padded", rows=padded),
    )


def parts(tokens: int, seed: int) -> tuple[Composition, ...]:
    """Pieces of a batch that training meets when it is cut otherwise: one token, an odd part."""
    draw = np.random.default_rng((seed, 2))
    odd = max(1, (tokens // 3) | 1)
    begin = int(draw.integers(0, tokens - odd + 1)) if tokens > odd else 0
    return (
        Composition(name="one token", rows=(int(draw.integers(0, tokens)),)),
        Composition(name=f"{odd} tokens", rows=tuple(range(begin, min(begin + odd, tokens)))),
    )


def splits(tokens: int, block: int) -> tuple[int, ...]:
    """Where a batch may be cut in two: the first, a middle and the last multiple of ``block``
    inside it. Empty if it has no more than one block."""
    inside = list(range(block, tokens, block))
    if not inside:
        return ()
    return tuple(sorted({inside[0], inside[len(inside) // 2], inside[-1]}))
