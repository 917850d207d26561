"""Plan classes: what makes two launches run the same machine code, and its stable name.

A class is a kernel's text (with the text of every jit function it can reach), the values of its
constants, its options and its specialisation key. Line numbers take no part, so a class keeps its
id when code elsewhere in the file moves.
"""

import hashlib
import inspect
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from kernelsmith.model import LaunchArg
from kernelsmith.worker.trace_source import check_text, names_of

# Triton's scalar type names -> TTIR's.
SCALARS = {
    "u1": "i1",
    "i1": "i1",
    "i8": "i8",
    "u8": "i8",
    "i16": "i16",
    "u16": "i16",
    "i32": "i32",
    "u32": "i32",
    "i64": "i64",
    "u64": "i64",
    "fp16": "f16",
    "bf16": "bf16",
    "fp32": "f32",
    "fp64": "f64",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialised:
    """One specialisation of a kernel, ready to be emitted in both pointer alignments.

    ``signature``, ``constants``: as ``ASTSource`` takes them. ``aligned``/``unaligned``: indices
    of the parameters that carry ``tt.divisibility = 16`` in either variant, and the class ids.
    ``runtime``: (parameter index, TTIR kind) in the order of the TTIR function.
    """

    kernel: Any
    signature: dict[str, str]
    constants: dict[tuple[int, ...], Any]
    options: dict[str, Any]
    aligned: tuple[int, ...]
    unaligned: tuple[int, ...]
    aligned_id: str
    unaligned_id: str
    runtime: tuple[tuple[int, str], ...]


def specialise(
    kernel: Any,
    specialisation: list[tuple[str, Any]],
    values: list[Any],
    options: dict[str, Any],
    *,
    text_hash: str,
    device: str,
) -> Specialised:
    """Builds both classes of a launch.

    Args:
        kernel: the ``JITFunction``.
        specialisation: (type, key) a parameter, as Triton's binder gives it for 16-aligned bases.
        values: bound arguments, constants unwrapped.
        options: launch options.
        text_hash: :func:`text_hash` of the kernel.
        device: the device's name; its ``ttir`` stage decides the text.
    """
    names = [param.name for param in kernel.params]
    signature = {name: kind for name, (kind, _) in zip(names, specialisation, strict=True)}
    constants: dict[tuple[int, ...], Any] = {
        (index,): values[index]
        for index, (kind, _) in enumerate(specialisation)
        if kind == "constexpr"
    }
    divisible = tuple(
        index
        for index, (kind, key) in enumerate(specialisation)
        if kind != "constexpr" and isinstance(key, str) and "D" in key
    )
    integers = tuple(index for index in divisible if not specialisation[index][0].startswith("*"))
    fixed = [
        device,
        text_hash,
        kernel.__name__,
        str(bool(kernel.noinline)),
        repr(sorted(options.items())),
        repr(list(signature.items())),
        repr([(index, constant_key(value)) for (index, *_), value in constants.items()]),
    ]
    runtime = tuple(
        (index, "ptr" if kind.startswith("*") else SCALARS[kind])
        for index, (kind, _) in enumerate(specialisation)
        if kind != "constexpr"
    )
    return Specialised(
        kernel=kernel,
        signature=signature,
        constants=constants,
        options=options,
        aligned=divisible,
        unaligned=integers,
        aligned_id=_digest([*fixed, repr(divisible)]),
        unaligned_id=_digest([*fixed, repr(integers)]),
        runtime=runtime,
    )


def describe(spec: Specialised, divisible: tuple[int, ...]) -> str:
    """The specialisation key for people: ``x_ptr:*bf16/16 n_cols:i32 BLOCK=1024``."""
    words = []
    for index, (name, kind) in enumerate(spec.signature.items()):
        if kind == "constexpr":
            words.append(f"{name}={constant_key(spec.constants[(index,)])}")
        else:
            words.append(f"{name}:{kind}" + ("/16" if index in divisible else ""))
    return " ".join(words)


def constant_key(value: Any) -> str:
    """A text that two constants share only if Triton compiles the same code for them."""
    if hasattr(value, "cache_key"):
        return f"jit:{text_hash(value)}"
    # True == 1 == 1.0 and 0.0 == -0.0, yet they compile to different code.
    return f"{type(value).__name__}:{value!r}"


def text_hash(kernel: Any) -> str:
    """Hash of all that a jit function's body can mean: its source, and whatever any name in it
    stands for, through every jit function it can reach.

    A verdict on one kernel must never be given to another, so too much is taken in rather than
    too little: a value that has no stable description makes the hash differ in every process.

    Raises:
        FaultError: ``TRACE``, the text of one of them is not what stands in the file.
    """
    parts: list[str] = []
    _collect(kernel, parts, set())
    return _digest(parts)


def _collect(kernel: Any, parts: list[str], seen: set[int]) -> None:
    seen.add(id(kernel))
    check_text(kernel)
    function = kernel.fn
    parts += [kernel.src, str(bool(getattr(kernel, "noinline", False)))]
    names, attributes = names_of(kernel.src)
    scope = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    for name in sorted(names & scope.keys()):
        _add(name, scope[name], attributes, parts, seen)
    for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        _add("default", default, frozenset(), parts, seen)
    # An annotation alone makes a module's plain value a constant that bodies may read.
    for name, annotation in sorted(function.__globals__.get("__annotations__", {}).items()):
        if name in names:
            parts.append(f"{name}: {annotation!r}")


def _add(
    name: str, value: Any, attributes: frozenset[str], parts: list[str], seen: set[int]
) -> None:
    """Takes in what ``name`` stands for; of a module, the members that could be meant."""
    if id(value) in seen:
        return
    if hasattr(value, "cache_key") and hasattr(value, "src"):
        parts.append(f"{name} is a jit function")
        _collect(value, parts, seen)
    elif isinstance(value, ModuleType):
        parts.append(f"{name} is module {value.__name__}")
        # A module is named by one word and its member by another: every member that any
        # attribute in the body could mean. Triton's own cannot differ within one release.
        if value.__name__ != "triton" and not value.__name__.startswith("triton."):
            seen.add(id(value))
            for attribute in sorted(attributes & vars(value).keys()):
                _add(attribute, vars(value)[attribute], attributes, parts, seen)
    elif type(value).__name__ == "constexpr":
        _add(f"constant {name}", value.value, attributes, parts, seen)
    elif isinstance(value, tuple | list):
        parts.append(f"{name} is {type(value).__qualname__} of {len(value)}")
        for item in value:
            _add(name, item, attributes, parts, seen)
    elif isinstance(value, FunctionType | type) and value.__module__.startswith("triton."):
        parts.append(f"{name} is {value.__module__}.{value.__qualname__}")
    else:
        parts.append(f"{name} = {type(value).__qualname__} {value!r}")


def _digest(parts: list[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()[:16]


def scalar(kind: str, value: Any) -> LaunchArg:
    """A bound scalar argument; unsigned 64-bit values wrap to the signed ones TTIR has."""
    if isinstance(value, bool):
        value = int(value)
    if kind == "i64" and value >= 1 << 63:
        value -= 1 << 64
    return LaunchArg(kind=kind, value=value)
