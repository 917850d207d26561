"""What a trainer or a harness holds in memory, as the audit's nouns; bits are kept.

torch is looked at only where a tensor of it arrives: nothing here imports it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from kernelsmith.errors import InputError
from kernelsmith.onpolicy.model import LogProbs, Mask, TokenIds
from kernelsmith.onpolicy.storage import from_array, from_words


def logprobs_of(values: Any) -> LogProbs:
    """Log-probs of a torch tensor on any device, a numpy array or numbers, in their own dtype,
    flattened. Python numbers are float64; None among them is a NaN.

    Raises:
        InputError: no floats of 16, 32 or 64 bits.
    """
    if isinstance(values, LogProbs):
        return values
    try:
        if is_torch(values):
            return _of_torch(values)
        held = values if isinstance(values, np.ndarray) else np.asarray(values, dtype=np.float64)
        return from_array(held.reshape(-1))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"these are no log-probs: {error}",
            hint="a tensor, an array or a list of floats, one a token",
        ) from error


def tokens_of(values: Any) -> TokenIds:
    """Token ids, flattened.

    Raises:
        InputError: not whole numbers.
    """
    held = _array(values)
    if held.size and held.dtype.kind not in "iu":
        raise InputError(f"token ids are {held.dtype.name}", hint="whole numbers, one a token")
    return held.astype(np.int64)


def mask_of(values: Any) -> Mask:
    """A mask of booleans, or of 0 and 1 in any dtype; True where a token is trained on. Flattened.

    Raises:
        InputError: something else stands in it (weights are no mask).
    """
    held = _array(values)
    mask: Mask = np.not_equal(held, 0)
    if held.dtype != np.bool_ and not np.array_equal(held, mask):
        raise InputError(
            "a mask holds something else than 0 and 1", hint="pass `weights != 0` if that is meant"
        )
    return mask


def shape_of(values: Any) -> tuple[int, ...]:
    """Its shape; a list of lists has the one that numpy would give it."""
    if isinstance(values, LogProbs):
        return (len(values),)
    return tuple(values.shape) if hasattr(values, "shape") else np.shape(values)


def is_torch(values: Any) -> bool:
    """Whether this is a tensor of torch (or of a class made from it)."""
    return any(kind.__module__.partition(".")[0] == "torch" for kind in type(values).__mro__)


def _array(values: Any) -> npt.NDArray[Any]:
    held = values.detach().cpu().numpy() if is_torch(values) else np.asarray(values)
    return held.reshape(-1)


def _of_torch(values: Any) -> LogProbs:
    held = values.detach().cpu().contiguous().reshape(-1)
    if str(held.dtype) != "torch.bfloat16":
        return from_array(held.numpy())
    import torch

    return from_words(held.view(torch.int16).numpy().tobytes(), "bfloat16")
