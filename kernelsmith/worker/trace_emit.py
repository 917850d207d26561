"""From a specialised kernel to TTIR text, in both pointer alignments.

The Python of a jit body runs here (it is what Triton's front end executes), so all its errors are
the candidate's.

Neither Triton's front end nor the passes of the ``ttir`` stage read ``tt.divisibility``; it only
rides on the parameters for later stages. So the text is made once, with the attribute on every
parameter that may carry it, and each variant leaves out those it has not. A test compares this
with separate emissions.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kernelsmith.model import PlanClass
from kernelsmith.worker.trace_classes import Specialised, describe
from kernelsmith.worker.trace_tape import SOURCE_NAME, FaultError

Emit = Callable[[Any, dict[str, str], dict[Any, Any], dict[Any, Any], dict[str, Any]], str]
DIVISIBLE = [["tt.divisibility", 16]]
ATTRIBUTE = re.compile(r" \{tt\.divisibility = 16 : i32\}")
PARAMETER = re.compile(r"%(\w+): [^%]*")
KERNEL_LINE = re.compile(r"^  tt\.func public @.*$", re.MULTILINE)


@dataclass(slots=True)
class Emitter:
    """Emits classes; keeps every text of this job by what decides it."""

    emit: Emit
    texts: dict[tuple[int, str, str, str], str] = field(default_factory=dict)

    def classes(self, spec: Specialised, known: frozenset[str]) -> dict[str, PlanClass]:
        """Both variants as plan classes; text is left out of those in ``known``.

        Raises:
            FaultError: ``COMPILE``.
        """
        found: dict[str, PlanClass] = {}
        for name, divisible in (
            (spec.aligned_id, spec.aligned),
            (spec.unaligned_id, spec.unaligned),
        ):
            if name not in found:
                found[name] = plan_class(
                    spec, name, divisible, "" if name in known else self._text(spec, divisible)
                )
        return found

    def _text(self, spec: Specialised, divisible: tuple[int, ...]) -> str:
        key = (
            id(spec.kernel),
            repr(spec.signature),
            repr(describe(spec, ())),
            repr(sorted(spec.options.items())),
        )
        text = self.texts.get(key)
        if text is None:
            text = self.texts[key] = self._emit(spec)
        return keep_divisible(text, [index for index, _ in spec.runtime], divisible)

    def _emit(self, spec: Specialised) -> str:
        attributes = {(index,): DIVISIBLE for index, kind in spec.runtime if may_divide(kind)}
        try:
            return self.emit(
                spec.kernel, spec.signature, dict(spec.constants), attributes, spec.options
            )
        except FaultError:
            raise
        except BaseException as error:
            raise FaultError(
                "COMPILE", compile_message(spec.kernel, error), spec.aligned_id
            ) from None


def variants(spec: Specialised) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """(class id, divisible parameters) of the aligned and the unaligned variant."""
    return (spec.aligned_id, spec.aligned), (spec.unaligned_id, spec.unaligned)


def may_divide(kind: str) -> bool:
    """Whether Triton may put ``tt.divisibility`` on a parameter of this TTIR type."""
    return kind in ("ptr", "i8", "i16", "i32", "i64")


def plan_class(spec: Specialised, name: str, divisible: tuple[int, ...], ttir: str) -> PlanClass:
    """One variant of a specialised kernel as the contract's noun."""
    return PlanClass(
        id=name,
        kernel=spec.kernel.__name__,
        options=dict(spec.options),
        specialisation=describe(spec, divisible),
        ttir=ttir,
    )


def keep_divisible(text: str, runtime: list[int], divisible: tuple[int, ...]) -> str:
    """Drops ``tt.divisibility`` from the kernel's parameters that are not in ``divisible``.

    Args:
        text: TTIR whose every pointer and integer parameter carries the attribute.
        runtime: for each parameter of the TTIR function, its index in the jit function.
        divisible: indices in the jit function that keep it.
    """
    line = KERNEL_LINE.search(text)
    if line is None:
        raise ValueError("no public kernel function in the emitted TTIR")
    position = iter(runtime)

    def trim(match: re.Match[str]) -> str:
        index = next(position)
        return match[0] if index in divisible else ATTRIBUTE.sub("", match[0])

    head, arrow, tail = line[0].partition(" attributes {")
    return text[: line.start()] + PARAMETER.sub(trim, head) + arrow + tail + text[line.end() :]


def compile_message(kernel: Any, error: BaseException) -> str:
    """One line for an error of Triton's front end, with the line of the candidate's file."""
    line = 0
    message = ""
    step: BaseException | None = error
    while step is not None:
        node, source = getattr(step, "node", None), getattr(step, "src", None)
        if node is not None and hasattr(node, "lineno") and source is not None:
            first = _first_line(kernel, source)
            line = first + node.lineno - 1 if first else line
        own = getattr(step, "error_message", None)
        if own is None and not hasattr(step, "node"):
            own = f"{type(step).__name__}: {step}" if str(step) else type(step).__name__
        message = own or message
        step = step.__cause__
    words = " ".join((message or type(error).__name__).split())
    return f"line {line}: {words[:400]}" if line else f"kernel {kernel.__name__}: {words[:400]}"


def _first_line(kernel: Any, source: str) -> int:
    """Line of ``def`` in the candidate's file of the jit function whose text is ``source``, or 0
    for one of another file."""
    scope = [kernel, *kernel.fn.__globals__.values()]
    for function in scope:
        if getattr(function, "src", None) == source:
            if function.fn.__code__.co_filename != SOURCE_NAME:
                return 0
            before = "".join(function.raw_src).split("def ", 1)[0].count("\n")
            return int(function.starting_line_number) + before
    return 0
