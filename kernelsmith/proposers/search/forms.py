"""Forms: structural rewrites of a kernel, each with what it asks of its launches.

A form takes the kernel as it stands after the forms before it (``FORMS`` gives the order) and
returns the new function and a new ``Plan`` of the launch; None where it does not apply. Forms are
written to keep the order of every sum; whether bits hold is for the gate to say.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import libcst as cst

from kernelsmith.proposers.search.program import Kernel, Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A launch to be written: ``grid`` texts, None to keep the original's; ``arguments`` to set by
    keyword; ``guards`` host conditions under which this form may run; ``suffix`` of the kernel's
    name; ``num_programs`` whether the host function needs that parameter."""

    grid: tuple[str, ...] | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    guards: tuple[str, ...] = ()
    suffix: str = ""
    num_programs: bool = False

    def setting(self, **arguments: str) -> "Plan":
        return replace(self, arguments={**self.arguments, **arguments})


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a form works on."""

    kernel: Kernel
    launch: Launch
    function: cst.FunctionDef
    plan: Plan

    def constant(self, name: str) -> str:
        """Text of a constexpr at this launch, as set so far."""
        return self.plan.arguments.get(name, self.launch.arguments.get(name, ""))

    def grid(self) -> tuple[str, ...]:
        return self.launch.grid if self.plan.grid is None else self.plan.grid


Rewritten = tuple[cst.FunctionDef, Plan]
Rewrite = Callable[[Subject, str], Rewritten | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A named rewrite with the values it takes besides "off"."""

    name: str
    values: tuple[str, ...]
    rewrite: Rewrite


def apply(subject: Subject, form: Form, value: str) -> Subject | None:
    """The subject after ``form``; None where it does not apply."""
    result = form.rewrite(subject, value)
    if result is None:
        return None
    function, plan = result
    word = form.name + (f"_{value}" if value.isalpha() and value != "on" else "")
    plan = replace(plan, suffix=f"{plan.suffix}_{word}")
    return replace(subject, function=function, plan=plan)
