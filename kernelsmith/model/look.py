"""A quick look of the gate at a candidate, for whoever is still writing it. It decides nothing."""

from collections.abc import Mapping
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

    "bits": policy, trace, compile, parity on both paths. "time": also one screening session
    against the incumbent: ``gains`` and ``gains_cold`` by case (warm and cold caches), weighted
    ``gain_warm`` and ``gain_cold``; > 1 is faster. ``against_us`` and ``candidate_us``: median
    microseconds of each case that was timed, warm; a case in which both run the same code is not.
    "code": what the compiler made of it."""

    kind: LookKind
    candidate: str
    status: Status | None
    checks: tuple[CheckResult, ...]
    seconds: float
    against: str = ""
    gains: tuple[CaseGain, ...] = ()
    gains_cold: tuple[CaseGain, ...] = ()
    gain_warm: float | None = None
    gain_cold: float | None = None
    against_us: Mapping[str, float] = field(default_factory=dict)
    candidate_us: Mapping[str, float] = field(default_factory=dict)
    kernels: tuple[KernelCode, ...] = ()
