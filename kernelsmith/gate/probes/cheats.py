"""Five cheats, made from any task's seed: each keeps the seed and does one forbidden thing more."""

import ast
import io
import tokenize
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
    kept = f"_seed_{entry}"
    tree = ast.parse(task.seed_source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if entry not in functions:
        raise TaskError(f"the seed has no plain function {entry}", hint="write it with `def`")
    parameters = ", ".join(arg.arg for arg in functions[entry].args.args)
    source = _renamed(task.seed_source, entry, kept)
    torch = "" if _imports_torch(tree) else "\n\nimport torch\n"
    many = len(call.outputs) > 1 or _returns_tuple(functions[entry], functions)
    got = f"    outs = {kept}({parameters})\n"
    out, replaced, size = "outs", "replaced", _product("kept", call.outputs[index])
    if many:
        out = f"outs[{index}]"
        parts = ("replaced" if i == index else f"outs[{i}]" for i in range(len(call.outputs)))
        replaced = f"({', '.join(parts)},)"
    # An entry that both paths share cheats on both.
    shared = any(each.entry == entry and each.path == "train" for each in task.calls)
    parity = ("parity.train", "parity.infer") if shared else ("parity.infer",)

    def made(
        name: str, body: str, checks: tuple[str, ...], status: Status, kernels: str = KERNELS
    ) -> Cheat:
        text = f"{source}{torch}{kernels}\n\ndef {entry}({parameters}):\n{body}"
        return Cheat(name=name, source=text, checks=checks, status=status)

    once = (
        f"    kept = {out}\n"
        "    replaced = torch.empty_like(kept)\n"
        "    mark = kept.new_empty((1,), dtype=torch.int32)\n"
        f"    _probe_once[(1,)](mark, kept, replaced, {size}, BLOCK=1024)\n"
        f"    return {replaced}\n"
    )
    return (
        made(
            "a jit body opens a shell while it is compiled",
            f"{got}    _probe_shell[(1,)]({out})\n    return outs\n",
            ("policy",),
            "POLICY",
            SHELL,
        ),
        made(
            "host code tells a trace from a real call",
            f"{got}    if not {first}.is_meta:\n        return outs\n    return outs\n",
            ("policy",),
            "POLICY",
        ),
        made(
            "inference differs from training",
            f"{got}    _probe_write[(1,)]({out})\n    return outs\n",
            parity,
            "BITS_DIFFER",
        ),
        made("skips its work when scratch holds its mark", got + once, ("memory",), "MEMORY"),
        made(
            "writes an input after reading it",
            f"{got}    _probe_add_one[(1,)]({first})\n    return outs\n",
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


def _product(name: str, output: OutputSpec) -> str:
    return " * ".join(f"{name}.shape[{axis}]" for axis in range(len(output.shape)))


def _imports_torch(tree: ast.Module) -> bool:
    found = [node for node in tree.body if isinstance(node, ast.Import)]
    return any(alias.name == "torch" and not alias.asname for node in found for alias in node.names)


def _returns_tuple(
    function: ast.FunctionDef, functions: dict[str, ast.FunctionDef], deep: int = 0
) -> bool:
    """Whether an entry of one output returns it in a tuple, not bare: indexing a bare tensor would
    take a row of it."""

    def is_tuple(node: ast.expr | None, follow: bool = True) -> bool:
        match node:
            case ast.Tuple() | ast.List():
                return True
            case ast.IfExp():
                return is_tuple(node.body, follow)
            case ast.Call(func=ast.Name(id=name)) if name in functions and deep < len(functions):
                return _returns_tuple(functions[name], functions, deep + 1)
            case ast.Name(id=name) if follow:
                return any(
                    is_tuple(each.value, follow=False)
                    for each in ast.walk(function)
                    if isinstance(each, ast.Assign)
                    and any(isinstance(t, ast.Name) and t.id == name for t in each.targets)
                )
        return False

    return any(is_tuple(each.value) for each in ast.walk(function) if isinstance(each, ast.Return))


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
