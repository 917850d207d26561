"""Loads a candidate's source and calls its entries."""

import inspect
import linecache
import sys
import traceback
from types import FunctionType, ModuleType
from typing import Any

import torch

from kernelsmith.model import TensorMeta, TraceCall
from kernelsmith.worker.trace_source import lines_of
from kernelsmith.worker.trace_tape import SOURCE_NAME, FaultError

MODULE_NAME = "candidate"
FILL = 1


def load(source: str) -> ModuleType:
    """Executes a module's source in a namespace of its own.

    The text is registered with ``linecache``: Triton asks ``inspect`` for the source of a jit
    function. Nothing is written to disk.

    Raises:
        FaultError: ``TRACE``, the module does not load.
    """
    module = ModuleType(MODULE_NAME)
    linecache.cache[SOURCE_NAME] = (len(source), None, lines_of(source), SOURCE_NAME)
    sys.modules[MODULE_NAME] = module
    try:
        exec(compile(source, SOURCE_NAME, "exec"), module.__dict__)
    except FaultError:
        raise
    except BaseException as error:
        raise FaultError("TRACE", f"the module does not load: {describe(error)}") from None
    return module


def find_entry(module: ModuleType, name: str) -> FunctionType:
    """The entry of that name.

    Raises:
        FaultError: ``SIGNATURE``, it is missing or no plain function.
    """
    entry = module.__dict__.get(name)
    if type(entry) is not FunctionType:
        what = "is missing" if entry is None else f"is a {type(entry).__name__}, not a function"
        raise FaultError("SIGNATURE", f"entry {name} {what}")
    return entry


def match_arguments(entry: FunctionType, call: TraceCall) -> bool:
    """Checks an entry's parameters against a call's; returns whether to pass ``num_programs``.

    The parameters are the call's arguments in order, with nothing between them that has no
    default, and optionally ``num_programs`` at the end.

    Raises:
        FaultError: ``SIGNATURE``.
    """
    parameters = list(inspect.signature(entry).parameters.values())
    given = [name for name, _ in call.args]
    takes_programs = bool(parameters) and parameters[-1].name == "num_programs"
    if takes_programs and "num_programs" not in given:
        parameters = parameters[:-1]
    else:
        takes_programs = False
    plain = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    names = [parameter.name for parameter in parameters]
    needed = [each.name for each in parameters if each.default is each.empty]
    if not plain or [name for name in names if name in given] != given or set(needed) - set(given):
        text = f"entry {call.entry} takes ({', '.join(names)}); the seed's takes "
        raise FaultError("SIGNATURE", text + f"({', '.join(given)}[, num_programs])")
    return takes_programs


def make_argument(value: TensorMeta | int | float | None, device: str) -> Any:
    """The value an entry gets: tensors without data on "meta", filled ones on "cpu"."""
    if not isinstance(value, TensorMeta):
        return value
    tensor = torch.empty_strided(
        value.shape, value.strides, dtype=getattr(torch, value.dtype), device=device
    )
    if device != "meta":
        tensor.fill_(FILL)
    return tensor


def describe(error: BaseException) -> str:
    """One line for an exception of candidate code, with the candidate's innermost line."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    line = 0
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == SOURCE_NAME:
            line = number
    words = " ".join(str(error).split())[:400]
    text = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return f"line {line}: {text}" if line else text
