"""What a Triton file says about itself: entries, their parameters, and what is known of each.

Read from the syntax tree alone; the file is never imported. An *entry* is a public function of the
module that launches kernels, itself or through another function of the module.
"""

import ast
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from kernelsmith.authoring.pointers import bound, kernel_pointers, launched
from kernelsmith.errors import TaskError
from kernelsmith.gate.policy_base import parameters
from kernelsmith.gate.policy_module import is_jit

NUM_PROGRAMS = "num_programs"
"""A last parameter of this name is the gate's to give: programs of a persistent grid."""
TASK_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""What a task can name: itself, entries, arguments, outputs."""
DIMENSION = re.compile(r"[A-Z][A-Z0-9_]{0,15}")
_TENSOR_USES = frozenset(
    ("shape", "stride", "dtype", "new_empty", "numel", "size", "dim", "ndim", "view", "reshape")
)
_DTYPES = ("bfloat16", "float16", "float32", "int64", "int32", "int8", "uint8", "bool")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaped:
    """A tensor's declared shape and dtype ("T" is the case's own), and what says so."""

    shape: tuple[str | int, ...]
    dtype: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of an entry. ``optional``: the code asks whether it is None. ``axes``: axes whose
    sizes or strides the code reads; ``strided``: it reads strides. ``said``: the docstring's word
    on its shape."""

    name: str
    tensor: bool
    optional: bool
    default: int | float | None
    axes: tuple[int, ...]
    strided: bool
    said: Shaped | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A public function that launches kernels. ``host``: all host functions of its module."""

    name: str
    line: int
    parameters: tuple[Parameter, ...]
    function: ast.FunctionDef
    host: Mapping[str, ast.FunctionDef]

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name."""
        return next((each for each in self.parameters if each.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedFacts:
    """What a file says. ``quiet``: public functions that launch nothing, so no entries."""

    summary: str
    entries: tuple[Entry, ...]
    quiet: tuple[str, ...]
    kernels: tuple[str, ...]


def parsed(source: str, name: str) -> ast.Module:
    """The syntax tree of a file.

    Raises:
        TaskError: it is not Python.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 0
        reason = getattr(error, "msg", None) or str(error) or type(error).__name__
        raise TaskError(
            f"{name} is not Python: line {line}: {reason}", hint="name one Triton module"
        ) from error


def read_seed(source: str, name: str) -> SeedFacts:
    """The facts of a file.

    Args:
        source: its text.
        name: its name, for messages.

    Raises:
        TaskError: it is not Python.
    """
    tree = parsed(source, name)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    kernels = {each: node for each, node in functions.items() if is_jit(node)}
    host = {each: node for each, node in functions.items() if each not in kernels}
    pointers = {each: kernel_pointers(node) for each, node in kernels.items()}
    entries, quiet = [], []
    for each, node in host.items():
        if each.startswith("_"):
            continue
        if _launches(node, host, frozenset(kernels), frozenset()):
            entries.append(_entry(node, host, kernels, pointers))
        else:
            quiet.append(each)
    text = (ast.get_docstring(tree) or "").strip().splitlines()
    return SeedFacts(
        summary=text[0].rstrip(".") if text else "",
        entries=tuple(entries),
        quiet=tuple(quiet),
        kernels=tuple(kernels),
    )


def _launches(
    node: ast.FunctionDef,
    host: Mapping[str, ast.FunctionDef],
    kernels: frozenset[str],
    seen: frozenset[str],
) -> bool:
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        if isinstance(call.func, ast.Subscript) and isinstance(call.func.value, ast.Name):
            if call.func.value.id in kernels:
                return True
        elif isinstance(call.func, ast.Name) and call.func.id in host:
            called = call.func.id
            if called not in seen and _launches(host[called], host, kernels, seen | {called}):
                return True
    return False


def _entry(
    node: ast.FunctionDef,
    host: Mapping[str, ast.FunctionDef],
    kernels: Mapping[str, ast.FunctionDef],
    pointers: Mapping[str, frozenset[str]],
) -> Entry:
    arguments = parameters(node)
    if arguments and arguments[-1].arg == NUM_PROGRAMS:
        arguments = arguments[:-1]
    defaults = _defaults(node)
    said = _documented(ast.get_docstring(node) or "", [each.arg for each in arguments])
    passed = launched(node, host, kernels, pointers)
    found = []
    for each in arguments:
        axes, strided = _axes(node, each.arg, host)
        uses = _attributes(node, each.arg) & _TENSOR_USES
        named = _by_suffix(each.arg)
        found.append(
            Parameter(
                name=each.arg,
                tensor=bool(uses) or each.arg in passed or each.arg in said,
                optional=_asked_for_none(node, each.arg, host) or defaults.get(each.arg, 0) is None,
                default=defaults.get(each.arg),
                axes=tuple(sorted(axes)),
                strided=strided,
                said=said.get(each.arg) or named,
            )
        )
    return Entry(
        name=node.name, line=node.lineno, parameters=tuple(found), function=node, host=host
    )


def _defaults(node: ast.FunctionDef) -> dict[str, int | float | None]:
    """Literal defaults; None is one."""
    positional = [*node.args.posonlyargs, *node.args.args]
    values = node.args.defaults
    pairs = [*zip(positional[len(positional) - len(values) :], values, strict=True)]
    pairs += [
        (argument, value)
        for argument, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if value is not None
    ]
    found: dict[str, int | float | None] = {}
    for argument, value in pairs:
        try:
            literal = ast.literal_eval(value)
        except ValueError:
            continue
        if literal is None or (isinstance(literal, int | float) and not isinstance(literal, bool)):
            found[argument.arg] = literal
    return found


def _attributes(node: ast.FunctionDef, name: str) -> set[str]:
    found = {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == name
    }
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "torch.empty_like":
            found |= {"shape" for a in each.args[:1] if isinstance(a, ast.Name) and a.id == name}
    return found


def _axes(
    node: ast.FunctionDef,
    name: str,
    host: Mapping[str, ast.FunctionDef],
    seen: frozenset[str] = frozenset(),
) -> tuple[set[int], bool]:
    """Axes whose size or stride is read by number, and whether strides are read, by the function
    or by one that it hands the argument to."""
    axes: set[int] = set()
    strided = False
    for each in ast.walk(node):
        index: ast.expr | None = None
        if isinstance(each, ast.Subscript) and ast.unparse(each.value) == f"{name}.shape":
            index = each.slice
        elif isinstance(each, ast.Call):
            called = ast.unparse(each.func)
            if called in (f"{name}.size", f"{name}.stride"):
                strided = strided or called.endswith("stride")
                index = each.args[0] if each.args else None
            elif called in host and called not in seen:
                for given, parameter in bound(host[called], each):
                    if given == name:
                        more, further = _axes(host[called], parameter, host, seen | {called})
                        axes, strided = axes | more, strided or further
        if isinstance(index, ast.Constant) and isinstance(index.value, int):
            axes.add(index.value)
    return axes, strided


def _asked_for_none(
    node: ast.FunctionDef,
    name: str,
    host: Mapping[str, ast.FunctionDef],
    seen: frozenset[str] = frozenset(),
) -> bool:
    """Whether the function, or one that it hands the argument to, asks if it is None."""
    for each in ast.walk(node):
        if isinstance(each, ast.Compare) and ast.unparse(each) in (
            f"{name} is None",
            f"{name} is not None",
        ):
            return True
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
            callee = host.get(each.func.id)
            if callee is None or callee.name in seen:
                continue
            for given, parameter in bound(callee, each):
                if given == name and _asked_for_none(callee, parameter, host, seen | {callee.name}):
                    return True
    return False


def _documented(text: str, names: list[str]) -> dict[str, Shaped]:
    """Shapes that a docstring gives: ``name: [M, N] of dtype T`` or ``name [M, N] float32``."""
    found = {}
    for name in names:
        match = re.search(
            rf"^\s*{re.escape(name)}\b[^\n\[]*?:?[^\n\[]*\[([^\]\n]*)\](.*)$", text, re.M
        )
        shape = _shape(match.group(1)) if match else None
        if match is None or shape is None:
            continue
        rest = match.group(2)
        named = [dtype for dtype in _DTYPES if re.search(rf"\b{dtype}\b", rest)]
        own = re.search(r"\bdtype T\b", rest) is not None or len(named) != 1
        found[name] = Shaped(
            shape=shape, dtype="T" if own else named[0], source="its docstring says so"
        )
    return found


def _shape(text: str) -> tuple[str | int, ...] | None:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(DIMENSION.fullmatch(part) or part.isdigit() for part in parts):
        return None
    return tuple(int(part) if part.isdigit() else part for part in parts)


def _by_suffix(name: str) -> Shaped | None:
    """``x_MN`` is [M, N]: the field's shape suffixes."""
    match = re.fullmatch(r".+_([A-Z]{1,4})", name)
    if match is None:
        return None
    return Shaped(shape=tuple(match.group(1)), dtype="T", source="the suffix of its name")
