"""The check that stands in a trainer's first step: two tensors, and the ratio is 1 or it is not."""

import warnings
from typing import Any, Literal

from kernelsmith.errors import EvidenceError, InputError, OffPolicyError
from kernelsmith.onpolicy.audit import Audit, audit
from kernelsmith.onpolicy.model import HeldDump, LogProbs, Mask, Turn
from kernelsmith.onpolicy.tensors import logprobs_of, mask_of, shape_of


def check(
    sampler: Any, trainer: Any, *, mask: Any = None, on: Literal["raise", "warn"] = "raise"
) -> Audit:
    """Checks that sampler and trainer gave every trained token the same log-prob, bit by bit.

    For the first update after weights were synchronised, before the optimizer has stepped: only
    there must the importance ratio be exactly 1. Call it once, on what the loss will see. Tensors
    are copied to the host and audited there; it changes nothing and takes part in no collective, so
    each rank checks what it holds.

    Args:
        sampler: log-probs as the tokens were sampled, [tokens] or [sequences, tokens]: a torch
            tensor on any device, a numpy array or numbers.
        trainer: those of the trainer's own forward, of the same shape.
        mask: True or 1 where a token is trained on; prompt, tool output and padding are not.
        on: what an off-policy or undecidable step does: raise, or warn with a ``RuntimeWarning``.

    Returns:
        The whole audit, for logging: figures, distribution, evidence.

    Raises:
        OffPolicyError: a token's bits differ.
        EvidenceError: nothing differs, and something cannot be seen: a NaN, the same infinity on
            both sides, no trained token at all.
        InputError: other shapes, no log-probs.
    """
    if on not in ("raise", "warn"):
        raise InputError(f"on={on!r} says nothing", hint='"raise" or "warn"')
    rows, columns = _rows(sampler, trainer, mask)
    trained = None if mask is None else mask_of(mask)
    found = audit(
        _dump(logprobs_of(sampler), trained, rows, columns),
        _dump(logprobs_of(trainer), trained, rows, columns),
    )
    if found.verdict == "on-policy":
        return found
    error = _error(found)
    if on == "raise":
        raise error
    warnings.warn(f"{error.message} (hint: {error.hint})", RuntimeWarning, stacklevel=2)
    return found


def _rows(sampler: Any, trainer: Any, mask: Any) -> tuple[int, int]:
    shapes = {"sampler": shape_of(sampler), "trainer": shape_of(trainer)}
    if mask is not None:
        shapes["mask"] = shape_of(mask)
    if len(set(shapes.values())) > 1 or len(shapes["sampler"]) not in (1, 2):
        told = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise InputError(
            f"shapes do not go together: {told}",
            hint="all [tokens] or all [sequences, tokens], one log-prob a token",
        )
    shape = shapes["sampler"]
    return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])


def _dump(logprobs: LogProbs, mask: Mask | None, rows: int, columns: int) -> HeldDump:
    turns = []
    for row in range(rows):
        here = slice(row * columns, (row + 1) * columns)
        turns.append(
            Turn(
                sequence=str(row),
                logprobs=logprobs[here],
                mask=None if mask is None else mask[here],
            )
        )
    return HeldDump(held=tuple(turns))


def _error(found: Audit) -> OffPolicyError | EvidenceError:
    figures, first = found.figures, found.evidence.first
    if first is None:
        faults = "; ".join(f"{fault.kind}: {fault.detail}" for fault in found.faults if fault.hides)
        return EvidenceError(
            f"nothing shows that this step is on-policy: {faults}",
            hint="a NaN is never averaged away; is the mask the one that the loss uses?",
        )
    return OffPolicyError(
        f"off-policy: {figures.not_one:,} of {figures.tokens:,} tokens have a ratio that is not "
        f"exactly 1 ({figures.ratio_min:.9g} to {figures.ratio_max:.9g}); the first is row "
        f"{first.place.sequence}, token {first.place.token}: {first.sampler!r} at the sampler, "
        f"{first.trainer!r} at the trainer",
        hint="record both sides with kernelsmith.onpolicy.record, then `kernelsmith audit` says "
        "which layer broke",
    )
