"""What verifying a library finds: nouns, and how they decide."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "bits",
    "digest",
    "kernel_fails",
    "seed_fails",
    "memory",
    "file_changed",
    "file_missing",
    "seed_missing",
    "certificate_unreadable",
    "certificate_of_another",
    "certificate_altered",
    "triton_differs",
    "device_differs",
    "lang_differs",
    "dispatch_differs",
    "shadowed",
    "not_recorded",
]
EPOCH_KINDS = ("triton_differs", "device_differs")
"""Another epoch is no fault of a kernel: what is compared here decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One thing that is not as it was certified. ``case``, ``path`` ("train" or "infer") and
    ``output`` of a call, ``file`` within the library, where the drift has one; ``message``: one
    line for people."""

    kind: Kind
    expected: str
    actual: str
    message: str
    case: str = ""
    path: str = ""
    output: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFacts:
    """Both facts of one case; None: it was not compared."""

    case: str
    path: str
    equals_seed_here: bool | None
    matches_certificate: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpFindings:
    """An op in its current epoch. ``equals_seed_here`` None: nothing could be compared, or it was
    compared with something else than the certified seed; ``lacking``: because the device that it
    is certified on is not what was asked for."""

    op: str
    epoch: str
    current: bool = True
    candidate: str = ""
    device: str = ""
    epoch_here: str = ""
    equals_seed_here: bool | None = None
    matches_certificate: bool | None = None
    cases: tuple[CaseFacts, ...] = ()
    drifts: tuple[Drift, ...] = ()
    lacking: bool = False


def exit_code(ops: Sequence[OpFindings], dispatch: Sequence[Drift], *, strict: bool) -> int:
    """0: every winner has its seed's bits here, and an import runs it (``strict``: and all is as
    it was certified); 1: one has not; 3: a device is missing; 5: nothing shows it.

    Args:
        dispatch: drifts of the modules between a caller and the kernels: what an import would
            run is then not what was compared.
    """
    if any(each.equals_seed_here is False for each in ops):
        return 1
    if strict and (dispatch or any(each.matches_certificate is False for each in ops)):
        return 1
    if any(each.lacking for each in ops):
        return 3
    undecided = bool(dispatch) or any(each.equals_seed_here is None for each in ops)
    if strict:
        undecided = undecided or any(each.matches_certificate is None for each in ops)
    return 5 if undecided or not ops else 0
