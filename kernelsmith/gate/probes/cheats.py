"""Five cheats, made from any task's seed: each keeps the seed and does one forbidden thing more."""

import ast
import copy
import io
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass

from kernelsmith.errors import TaskError
from kernelsmith.model import Call, OutputSpec, Status, Task

KERNELS = """

@triton.jit
def _probe_write(p):
    tl.store(p, 7.5)


@triton.jit
def _probe_add_one(p):
    tl.store(p, tl.load(p) + 1.0)


@triton.jit
def _probe_once(mark_ptr, from_ptr, to_ptr, size, BLOCK: tl.constexpr):
    if tl.load(mark_ptr) != 1234567:
        for start in range(0, size, BLOCK):
            at = start + tl.arange(0, BLOCK)
            inside = at < size
            tl.store(to_ptr + at, tl.load(from_ptr + at, mask=inside), mask=inside)
        tl.store(mark_ptr, 1234567)
"""


SHELL = """

@triton.jit
def _probe_shell(p):
    tl.core.inspect.os.system("true")
    tl.store(p, 7.5)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cheat:
    """A source that the gate must reject with ``status`` in one of ``checks``."""

    name: str
    source: str
    checks: tuple[str, ...]
    status: Status


def cheats(task: Task) -> tuple[Cheat, ...]:
    """The cheats of a task. They hang on an inference entry that returns a tensor with at least one
    dimension, of floats where there is one.

    Raises:
        TaskError: the task has no such entry, so that nothing could be proved.
    """
    call, index = _place(task)
    entry, first = call.entry, next(arg.name for arg in call.args if arg.kind == "tensor")
    tree = ast.parse(task.seed_source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if entry not in functions:
        raise TaskError(f"the seed has no plain function {entry}", hint="write it with `def`")
    source = _renamed(task.seed_source, entry, f"_seed_{entry}")
    torch = "" if _imports_torch(tree) else "\n\nimport torch\n"
    # An entry that both paths share cheats on both.
    shared = any(each.entry == entry and each.path == "train" for each in task.calls)
    parity = ("parity.train", "parity.infer") if shared else ("parity.infer",)

    def made(
        name: str, body: str, checks: tuple[str, ...], status: Status, kernels: str = KERNELS
    ) -> Cheat:
        function = _cheating(functions, entry, index, body)
        text = f"{source}{torch}{kernels}\n\n{function}\n"
        return Cheat(name=name, source=text, checks=checks, status=status)

    size = _product(call.outputs[index])
    once = (
        "probe_kept = OUT\n"
        "OUT = torch.empty_like(probe_kept)\n"
        "probe_mark = probe_kept.new_empty((1,), dtype=torch.int32)\n"
        f"_probe_once[(1,)](probe_mark, probe_kept, OUT, {size}, BLOCK=1024)"
    )
    return (
        made(
            "a jit body opens a shell while it is compiled",
            "_probe_shell[(1,)](OUT)",
            ("policy",),
            "POLICY",
            SHELL,
        ),
        made(
            "host code tells a trace from a real call",
            f"if not {first}.is_meta:\n    OUT = OUT",
            ("policy",),
            "POLICY",
        ),
        made("inference differs from training", "_probe_write[(1,)](OUT)", parity, "BITS_DIFFER"),
        made("skips its work when scratch holds its mark", once, ("memory",), "MEMORY"),
        made(
            "writes an input after reading it",
            # An empty input has no word to write: that would be out of bounds, another fault.
            f"if {first}.numel() > 0:\n    _probe_add_one[(1,)]({first})",
            ("memory",),
            "MEMORY",
        ),
    )


def _place(task: Task) -> tuple[Call, int]:
    """The inference call, and the number of its output, that the cheats hang on."""
    found = [
        (call, index)
        for call in task.calls
        if call.path == "infer"
        for index, output in enumerate(call.outputs)
        if output.shape
    ]
    if not found:
        raise TaskError(
            f"task {task.name} has no inference call that returns a tensor with at least one "
            "dimension: the gate cannot prove itself on it",
            hint='give it a call with path = "infer" and such an output',
        )
    return next((each for each in found if _floats(each[0].outputs[each[1]])), found[0])


def _floats(output: OutputSpec) -> bool:
    return "float" in output.dtype or output.dtype == "T"


def _product(output: OutputSpec) -> str:
    return " * ".join(f"probe_kept.shape[{axis}]" for axis in range(len(output.shape)))


def _imports_torch(tree: ast.Module) -> bool:
    found = [node for node in tree.body if isinstance(node, ast.Import)]
    return any(alias.name == "torch" and not alias.asname for node in found for alias in node.names)


def _cheating(functions: Mapping[str, ast.FunctionDef], entry: str, index: int, body: str) -> str:
    """The entry with ``body`` before each of its returns; OUT in it is the output of that number,
    which is returned after it, in a tuple or bare as it was."""

    def before(value: ast.expr) -> list[ast.stmt]:
        elements = value.elts if isinstance(value, ast.Tuple | ast.List) else None
        if elements is not None and len(elements) <= index:
            return [ast.Return(value=value)]  # a call form without this output
        lines = [f"probe_outs = {ast.unparse(value)}", "probe_out = probe_outs"]
        told = "probe_out"
        if _is_tuple(value, functions[entry], functions):
            lines[1] = f"probe_out = probe_outs[{index}]"
            told = f"(*probe_outs[:{index}], probe_out, *probe_outs[{index + 1}:])"
        text = "\n".join([*lines, body.replace("OUT", "probe_out")])
        return [*ast.parse(text).body, ast.Return(value=ast.parse(told, mode="eval").body)]

    def walked(statements: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for each in statements:
            if isinstance(each, ast.Return) and each.value is not None:
                out += before(each.value)
                continue
            if isinstance(each, ast.If | ast.For):
                each.body, each.orelse = walked(each.body), walked(each.orelse)
            out.append(each)
        return out

    function = copy.deepcopy(functions[entry])
    function.body = walked(function.body)
    return ast.unparse(ast.fix_missing_locations(function))


def _is_tuple(
    node: ast.expr | None,
    function: ast.FunctionDef,
    functions: Mapping[str, ast.FunctionDef],
    follow: bool = True,
    deep: int = 0,
) -> bool:
    """Whether what a function returns is a tuple, not a bare tensor, of which an index would take
    a row."""
    match node:
        case ast.Tuple() | ast.List():
            return True
        case ast.IfExp():
            return _is_tuple(node.body, function, functions, follow, deep)
        case ast.Call(func=ast.Name(id=name)) if name in functions and deep < len(functions):
            inner = functions[name]
            found = [each.value for each in ast.walk(inner) if isinstance(each, ast.Return)]
            return any(_is_tuple(each, inner, functions, True, deep + 1) for each in found)
        case ast.Name(id=name) if follow:
            return any(
                _is_tuple(each.value, function, functions, False, deep)
                for each in ast.walk(function)
                if isinstance(each, ast.Assign)
                and any(isinstance(t, ast.Name) and t.id == name for t in each.targets)
            )
    return False


def _renamed(source: str, entry: str, kept: str) -> str:
    """The source with the entry under another name, also where other functions call it: they stay
    the seed's."""
    lines = io.StringIO(source).readlines()
    before = ""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string == entry and before != ".":
            found.append(token.start)
        before = token.string
    for row, column in reversed(found):
        line = lines[row - 1]
        lines[row - 1] = f"{line[:column]}{kept}{line[column + len(entry) :]}"
    return "".join(lines)
