"""A quick look of the gate at a candidate, for whoever is still writing it. It decides nothing."""

from dataclasses import dataclass, field
from typing import Any, Literal

from kernelsmith.model.nouns import CaseGain, CheckResult, Status

LookKind = Literal["bits", "time", "code"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCode:
    """One compiled plan class: ``calls`` are the cases that launch it, ``assembly`` the machine's
    (PTX on cuda, the CPU's own on cpu), ``stats`` registers, spills, scratch as the device tells
    them."""

    kernel: str
    cases: tuple[str, ...]
    options: dict[str, Any]
    ttir: str
    assembly: str
    stats: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look found. ``status`` None: nothing wrong so far; ``checks`` are those that ran.

    "bits": policy, trace, compile, parity on both paths. "time": one screening session against
    the incumbent (``gains`` and the weighted ``gain_warm``/``gain_cold``; > 1 is faster);
    ``seed_us``: what each timed case takes now. "code": what the compiler made of it."""

    kind: LookKind
    candidate: str
    status: Status | None
    checks: tuple[CheckResult, ...]
    seconds: float
    against: str = ""
    gains: tuple[CaseGain, ...] = ()
    gain_warm: float | None = None
    gain_cold: float | None = None
    kernels: tuple[KernelCode, ...] = ()
