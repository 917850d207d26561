"""Reads a plan class's text on the host. The text was made where candidate Python ran: it may be
anything, and what cannot be read is refused with a word, whatever is wrong with it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelsmith.devices.cpu.ttir import Module
from kernelsmith.devices.cpu.ttir_parse import parse
from kernelsmith.devices.cuda.options import PREFIX, split_options
from kernelsmith.errors import CompileError
from kernelsmith.gate.witness import allowed
from kernelsmith.gate.witness.facts import Facts, facts_of
from kernelsmith.gate.witness.flow import Param, run
from kernelsmith.gate.witness.graph import graph_of
from kernelsmith.gate.witness.rules import Decision, decisions

TEXT_MAX = 4 << 20
LINE_MAX = 1 << 16
# What a parser of well-formed text stumbles over in text that is not.
STUMBLES = (
    CompileError,
    AssertionError,
    AttributeError,
    LookupError,
    ValueError,
    TypeError,
    ArithmeticError,
    RecursionError,
)
MANY_RESULTS = re.compile(r"%[\w.$-]+:\d{4}")
_LOCATION = re.compile(r' loc\((?:#loc\d*|"[^"()]*"\(#loc\d*\))\)')
DIVISIBLE = " {tt.divisibility = 16 : i32}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one text says of a launch: ``fault`` if it cannot be read, else the rest. ``stores``,
    ``loads``: indices of the pointers that something which hangs on floats is stored through, and
    of those that anything is loaded through."""

    fault: str = ""
    facts: Facts = field(default_factory=Facts)
    decided: tuple[Decision, ...] = ()
    stores: frozenset[int] = frozenset()
    loads: frozenset[int] = frozenset()


def plain(text: str) -> str:
    """The text without source locations and hints of alignment: what one analysis is shared by."""
    kept = [line for line in text.splitlines() if not line.startswith("#loc")]
    return _LOCATION.sub("", "\n".join(kept)).replace(DIVISIBLE, "")


def fault_of(text: str) -> str:
    """Why a text is not even looked at; "" if it is."""
    if len(text) > TEXT_MAX:
        return f"the IR has {len(text):,} characters, at most {TEXT_MAX:,} are read"
    if any(len(line) > LINE_MAX for line in text.splitlines()):
        return f"the IR has a line of more than {LINE_MAX:,} characters"
    if MANY_RESULTS.search(text):
        return "the IR has an op of a thousand results or more"
    try:
        _, body = split_options(text) if text.startswith(PREFIX) else ({}, text)
        return allowed.offence(body)
    except STUMBLES as error:
        return f"the IR cannot be read: {_brief(error)}"


def read(text: str, params: Sequence[Param] | None) -> Said:
    """What a text says of a launch with these pointers, in the order of the kernel's.

    None: as if each had a buffer of its own, of floats unless integers are loaded through it.
    Deterministic; runs nothing of it.
    """
    fault = fault_of(text)
    if fault:
        return Said(fault=fault)
    try:
        return _read(parse(text), text, params)
    except STUMBLES as error:
        return Said(fault=f"the IR cannot be read: {_brief(error)}")


def _read(module: Module, text: str, params: Sequence[Param] | None) -> Said:
    args = module.kernel.args
    numbers = [number for number, arg in enumerate(args) if arg.ty.elem == "ptr"]
    if params is None:
        params = [
            Param(buffer=number, floats=not args[number].ty.pointee.startswith("i"))
            for number in numbers
        ]
    given: list[Param | None] = [None] * len(args)
    for number, param in zip(numbers, params, strict=True):
        given[number] = param
    place = {number: at for at, number in enumerate(numbers)}
    flow = run(graph_of(module), args, given)
    return Said(
        facts=facts_of(flow, text),
        decided=tuple(
            Decision(
                kind=one.kind,
                line=one.line,
                if_read=frozenset(place[number] for number in one.if_read),
            )
            for one in decisions(flow)
        ),
        stores=frozenset(place[number] for number in flow.stores),
        loads=frozenset(place[number] for number in flow.loads),
    )


def _brief(error: BaseException) -> str:
    text = " ".join(str(error).split())[:200]
    return text if isinstance(error, CompileError) else f"{type(error).__name__}: {text}"
