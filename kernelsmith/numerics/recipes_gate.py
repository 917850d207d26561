"""Coupled inputs of gated activations: gates whose sigmoid is at an edge, and factors that put
``silu(gate) * factor`` beside a tie of bfloat16.

Elementwise kernels have no order to show; what their regimes make visible in bfloat16 is one ulp
of a float32 step: another ``exp``, another association, a contraction, a rounding left out.

=========  =====================================================================================
ties       the bfloat16 gates and factors whose products, of all there are, come closest to
           the middle of two bfloat16 values
cancel     gates beside -1.278, where silu has its minimum: its derivative is rounding noise
absorb     gates where 1 + exp(-gate) loses one of its terms, and where exp overflows
others     as in ``recipes_regimes``
=========  =====================================================================================
"""

import numpy as np

from kernelsmith.numerics import recipes_exp
from kernelsmith.numerics.recipes_float import (
    Bits,
    Shape,
    bell_table,
    compose,
    exponent_table,
    random_words,
)
from kernelsmith.numerics.recipes_regimes import REGIMES

_SIGN = np.uint32(0x80000000)
_LEAST_SILU = np.uint32(0xBFA3A4BA)  # -1.2784646
_GATES = 128


def gate(rng: np.random.Generator, shape: Shape, regime: str, seed: int) -> Bits:
    """What goes through the sigmoid, [M, N]."""
    words = random_words(rng, int(np.prod(shape))).reshape(shape)
    if regime == "ties":
        table, _ = _beside_ties()
        bits: Bits = table[(words >> np.uint32(8)) % np.uint32(_GATES)]
        return bits
    if regime == "cancel":
        return (_LEAST_SILU + words % np.uint32(1 << 17) - np.uint32(1 << 16)).astype(np.uint32)
    if regime == "absorb":
        return _edges(words)
    if regime in ("normal", "pairs"):
        return compose(words, bell_table(1))
    return REGIMES[regime](rng, shape, "token", seed)


def factor(
    rng: np.random.Generator, shape: Shape, regime: str, seed: int, gate_bits: Bits | None
) -> Bits:
    """What silu(gate) is multiplied by, [M, N]: the other half, or the gradient of the product."""
    words = random_words(rng, int(np.prod(shape))).reshape(shape)
    if regime == "ties" and gate_bits is not None:
        table, partners = _beside_ties()
        mantissas = partners[np.searchsorted(table, gate_bits)]
        exponent = (np.uint32(126) + (words >> np.uint32(8)) % np.uint32(3)) << np.uint32(23)
        found: Bits = (words & _SIGN) | exponent | (mantissas << np.uint32(16))
        return found
    if regime in ("cancel", "absorb"):
        return compose(words, exponent_table(-6, 6))
    if regime == "special":
        # One row on: an edge of the factor meets an ordinary gate, and the other way round.
        moved: Bits = np.roll(REGIMES[regime](rng, shape, "token", seed), 1, axis=0)
        return moved
    if regime in ("normal", "pairs", "ties", "each", "huge", "tiny"):
        # Beside every gate an ordinary factor: nothing but the gate decides.
        return compose(words, bell_table())
    return REGIMES[regime](rng, shape, "token", seed)


def _beside_ties() -> tuple[Bits, Bits]:
    """The bfloat16 gates with magnitudes from 1/4 to 8 that have the best partners, as sorted
    patterns, and the partner of each: the mantissa (7 bits) of its factor."""
    magnitudes = np.arange(0x3E80, 0x4100, dtype=np.uint32) << np.uint32(16)
    gates = np.concatenate([magnitudes, magnitudes | _SIGN])
    value = gates.view(np.float32).astype(np.float64)
    silu = value / (1.0 + recipes_exp.exp(-value))
    product = np.abs(silu)[:, None] * (1.0 + np.arange(128) / 128.0)
    mantissa = np.frexp(product)[0] * 256.0  # bfloat16 keeps its integer part
    distance = np.abs(mantissa - np.floor(mantissa) - 0.5)
    best = np.argsort(distance.min(axis=1), kind="stable")[:_GATES]
    best = best[np.argsort(gates[best])]
    return gates[best], distance[best].argmin(axis=1).astype(np.uint32)


def _edges(words: Bits) -> Bits:
    """A third each: 12 to 20, -20 to -12, -105 to -85."""
    part = (words >> np.uint32(9)).astype(np.float64) * 2.0**-23
    kind = words % np.uint32(3)
    values = np.select([kind == 0, kind == 1], [12.0 + 8.0 * part, -20.0 + 8.0 * part])
    values = np.where(kind == 2, -105.0 + 20.0 * part, values)
    return values.astype(np.float32).view(np.uint32)
