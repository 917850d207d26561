"""How arguments, outputs and sizes are written on the command line, read and written back.

``T[M,N]`` a tensor of the case's dtype; ``float32[M]``; ``T[M,N]?`` one that may be None, so both
ways are judged; ``T[M,N]@matrix`` with an input recipe; ``1e-6`` a number; ``M`` the size of a
dimension; ``none``. An output is ``row:T[M,N]`` or ``batch:float32[N]:block=32:carry=dw_carry``.
"""

import re
from dataclasses import dataclass
from typing import Literal

from kernelsmith.authoring.facts import DIMENSION
from kernelsmith.errors import InputError
from kernelsmith.numerics.recipes import RECIPES

DTYPES = ("T", "bfloat16", "float16", "float32", "int8", "int32", "int64", "uint8", "bool")
FLOATS = ("bfloat16", "float16", "float32")
_SHORT = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32"}
_TENSOR = re.compile(r"(\w+)\s*\[([^\]]*)\]\s*(\?)?\s*(?:@(\w+))?")
_ARG_HINT = "T[M,N], float32[M], T[M,N]? (may be None), 1e-6, M (a size) or none"
_OUTPUT_HINT = "row:T[M,N] or batch:float32[N]:block=32:carry=dw_carry"
LARGEST_SIZE = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument as it was written. ``kind`` "dim": the size of ``dim`` is passed."""

    kind: Literal["tensor", "int", "float", "dim", "none"]
    shape: tuple[str | int, ...] = ()
    dtype: str = ""
    optional: bool = False
    recipe: str = ""
    value: int | float | None = None
    dim: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """An output as it was written."""

    cls: Literal["row", "batch"]
    shape: tuple[str | int, ...]
    dtype: str
    block: int | None = None
    carry: str | None = None


def dtype(text: str) -> str:
    """A dtype's name from the ways people write it: ``bf16``, ``torch.bfloat16``.

    Raises:
        InputError: there is none such.
    """
    word = text.strip().removeprefix("torch.")
    word = _SHORT.get(word, word)
    if word not in DTYPES:
        raise InputError(f"no dtype {text!r}", hint="dtypes: " + ", ".join(DTYPES))
    return word


def float_dtype(text: str) -> str:
    """A dtype that cases are drawn in.

    Raises:
        InputError: it is none of the floats.
    """
    found = dtype(text)
    if found not in FLOATS:
        raise InputError(f"cases in {text!r}", hint="cases are in: " + ", ".join(FLOATS))
    return found


def shape(text: str) -> tuple[str | int, ...]:
    """``M, N`` as dimensions.

    Raises:
        InputError: a part is neither a dimension nor a size.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise InputError("a tensor without dimensions", hint="write T[M,N] or float32[M]")
    for part in parts:
        if not DIMENSION.fullmatch(part) and not (part.isdigit() and int(part) <= LARGEST_SIZE):
            raise InputError(
                f"{part!r} in [{text}] is no dimension",
                hint="dimensions are capitals (M, N, HEADS) or sizes (128)",
            )
    return tuple(int(part) if part.isdigit() else part for part in parts)


def argument(text: str) -> Argument:
    """An argument from its text.

    Raises:
        InputError: it reads as nothing.
    """
    word = text.strip()
    match = _TENSOR.fullmatch(word)
    if match is not None:
        recipe = match.group(4) or ""
        if recipe and recipe not in RECIPES:
            raise InputError(f"no recipe {recipe!r}", hint="recipes: " + ", ".join(RECIPES))
        return Argument(
            kind="tensor",
            shape=shape(match.group(2)),
            dtype=dtype(match.group(1)),
            optional=match.group(3) is not None,
            recipe=recipe,
        )
    if word.lower() == "none":
        return Argument(kind="none")
    if DIMENSION.fullmatch(word):
        return Argument(kind="dim", dim=word)
    number = re.sub(r"^(int|float)=", "", word)
    try:
        if re.fullmatch(r"[+-]?\d+", number) and not word.startswith("float="):
            return Argument(kind="int", value=int(number))
        value = float(number)
    except ValueError as error:
        raise InputError(f"{text!r} is no argument", hint=f"write {_ARG_HINT}") from error
    if value - value != 0:
        raise InputError(f"{text!r} is no number a case can pass", hint="write a finite number")
    return Argument(kind="float", value=value)


def output(text: str) -> Output:
    """An output from its text.

    Raises:
        InputError: it reads as nothing.
    """
    cls, _, rest = text.strip().partition(":")
    body, *options = rest.split(":")
    match = _TENSOR.fullmatch(body.strip())
    if cls == "sequence":
        raise InputError(
            "class sequence cannot be judged yet", hint="declare outputs of row or batch"
        )
    if cls not in ("row", "batch") or match is None or match.group(3) or match.group(4):
        raise InputError(f"{text!r} is no output", hint=f"write {_OUTPUT_HINT}")
    given = dict(option.partition("=")[::2] for option in options)
    block, carry = given.pop("block", None), given.pop("carry", None)
    if given or (block is not None and not (block.isdigit() and int(block))):
        raise InputError(f"{text!r} is no output", hint=f"write {_OUTPUT_HINT}")
    if cls == "row" and (block or carry):
        raise InputError(f"{text!r}: block and carry belong to class batch", hint=_OUTPUT_HINT)
    if (block is None) != (carry is None):
        raise InputError(
            f"{text!r}: block and carry come together",
            hint="block=32 (tokens of one step of the sum) and carry=NAME (the argument that "
            "takes the sum of the batch's earlier part)",
        )
    return Output(
        cls="row" if cls == "row" else "batch",
        shape=shape(match.group(2)),
        dtype=dtype(match.group(1)),
        block=None if block is None else int(block),
        carry=carry,
    )


def sizes(text: str) -> tuple[int, ...]:
    """``128,1000`` as sizes, each once, in their order.

    Raises:
        InputError: a part is no size.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdigit() and int(part) <= LARGEST_SIZE for part in parts):
        raise InputError(f"{text!r} is no list of sizes", hint="write 1024 or 128,1000,1024")
    return tuple(dict.fromkeys(int(part) for part in parts))


def token_range(text: str) -> tuple[int, int]:
    """``0:300`` as the range of token counts.

    Raises:
        InputError: it is none.
    """
    match = re.fullmatch(r"\s*(\d+)\s*[:-]\s*(\d+)\s*", text)
    low, high = (int(match.group(1)), int(match.group(2))) if match else (1, 0)
    if not 0 <= low <= high <= LARGEST_SIZE or high < 1:
        raise InputError(f"{text!r} is no range of tokens", hint="write lowest:highest, as 0:300")
    return low, high


def shown(dims: tuple[str | int, ...], dtype_name: str) -> str:
    """A tensor as it is written."""
    return f"{dtype_name}[{','.join(str(dim) for dim in dims)}]"


def written(argument: Argument) -> str:
    """An argument as it is written."""
    match argument.kind:
        case "tensor":
            recipe = f"@{argument.recipe}" if argument.recipe else ""
            mark = "?" if argument.optional else ""
            return f"{shown(argument.shape, argument.dtype)}{mark}{recipe}"
        case "dim":
            return argument.dim
        case "none":
            return "none"
    return repr(argument.value)
