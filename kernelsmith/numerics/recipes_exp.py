"""float64 exponential and logarithm out of additions, products and bit fields alone.

Inputs must be the same bytes on every machine, and a library's ``exp`` need not be: these round
as IEEE says, operation by operation. Accuracy is what inputs need, not what a function owes.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_LN2 = 0.6931471805599453
_LOG2E = 1.4426950408889634
_LOWEST = -700.0
_EXP_TERMS = 10
_LOG_TERMS = 12


def exp(values: Floats) -> Floats:
    """e to the power of values of at most 700, within 1e-11 of it; NaN stays NaN.

    Values below -700, minus infinity included, count as -700: 1e-304 is nothing in any sum.
    """
    with np.errstate(invalid="ignore"):
        x = np.maximum(values, _LOWEST)  # a NaN stays
        whole = np.rint(x * _LOG2E)
        rest = x - whole * _LN2
        result = np.full_like(x, 1.0)
        for term in range(_EXP_TERMS, 0, -1):
            result = 1.0 + result * rest / term
        power = np.nan_to_num(whole, nan=0.0, posinf=0.0).astype(np.int64)
    return np.asarray(result * ((power + 1023) << 52).view(np.float64))


def log(values: Floats) -> Floats:
    """Natural logarithm of normal positive values, within 1e-11; NaN stays NaN."""
    mantissa, exponent = np.frexp(values)
    z = (mantissa - 1.0) / (mantissa + 1.0)  # in [-1/3, 0)
    square = z * z
    series = np.zeros_like(z)
    for term in range(_LOG_TERMS, -1, -1):
        series = series * square + 1.0 / (2 * term + 1)
    return np.asarray(exponent * _LN2 + 2.0 * z * series)


def sum_rows(values: Floats) -> Floats:
    """Row sums by halving, an order that does not depend on NumPy's build."""
    while values.shape[1] > 1:
        if values.shape[1] % 2:
            values = np.concatenate([values, np.zeros((values.shape[0], 1))], axis=1)
        values = values[:, ::2] + values[:, 1::2]
    return values[:, 0] if values.shape[1] else np.zeros(values.shape[0])
