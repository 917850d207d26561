"""Cheats made from any task's seed: each keeps the seed and does one forbidden thing more."""

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


BUILT = ("policy", "trace", "compile")
"""What every walk needs first."""

SHARED = """

@triton.jit
def _probe_same(p):
    tl.store(p, tl.load(p))


@triton.jit
def _probe_atomic(p):
    tl.atomic_add(p, 0.0)


@triton.jit
def _probe_recognise(p):
    if tl.load(p).to(tl.float32) > 1.0e30:
        tl.store(p, 7.5)
"""


SHELL = """

@triton.jit
def _probe_shell(p):
    tl.core.inspect.os.system("true")
    tl.store(p, 7.5)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cheat:
    """A source that the gate must reject with ``status`` in one of ``checks``.

    ``walk``: the checks that it meets, if not all: those that would stop it before are left out,
    so that the one it is made for must see it by itself.
    """

    name: str
    source: str
    checks: tuple[str, ...]
    status: Status
    walk: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a task's cheats hang: ``source`` is the seed with ``entry`` under another name."""

    source: str
    functions: Mapping[str, ast.FunctionDef]
    entry: str
    first: str
    index: int
    output: OutputSpec
    shared: bool
    """An entry that both paths share cheats on both."""

    def cheat(
        self,
        name: str,
        body: str,
        checks: tuple[str, ...],
        status: Status,
        kernels: str = KERNELS,
        walk: tuple[str, ...] = (),
    ) -> Cheat:
        function = _cheating(self.functions, self.entry, self.index, body)
        text = f"{self.source}{kernels}\n\n{function}\n"
        return Cheat(name=name, source=text, checks=checks, status=status, walk=walk)


def cheats(task: Task) -> tuple[Cheat, ...]:
    """The cheats of a task. They hang on an inference entry that returns a tensor with at least one
    dimension, of floats where there is one.

    Raises:
        TaskError: the task has no such entry, so that nothing could be proved.
    """
    place = _place_in(task)
    races = _told_by_observing(place) if task.device == "cpu" else []
    return (
        *_told_before_a_run(place),
        *_told_by_bits(place),
        *races,
        *_told_by_memory(place),
    )


def _told_before_a_run(place: _Place) -> list[Cheat]:
    found = [
        place.cheat(
            "a jit body opens a shell while it is compiled",
            "_probe_shell[(1,)](OUT)",
            ("policy",),
            "POLICY",
            SHELL,
        ),
        place.cheat(
            "host code tells a trace from a real call",
            f"if not {place.first}.is_meta:\n    OUT = OUT",
            ("policy",),
            "POLICY",
        ),
        place.cheat(
            "an output has another shape",
            "OUT = OUT.new_empty((3, 5, 7))",
            ("trace",),
            "SIGNATURE",
        ),
    ]
    if not _floats(place.output):
        return found
    return [
        *found,
        place.cheat(
            "adds to a float by an atomic",
            "if OUT.numel() > 0:\n    _probe_atomic[(1,)](OUT)",
            ("witness",),
            "NONDETERMINISTIC",
            SHARED,
        ),
        place.cheat(
            "a kernel recognises numbers that probe it",
            "if OUT.numel() > 0:\n    _probe_recognise[(1,)](OUT)",
            ("witness",),
            "POLICY",
            SHARED,
        ),
    ]


def _told_by_bits(place: _Place) -> list[Cheat]:
    parity = ("parity.train", "parity.infer") if place.shared else ("parity.infer",)
    name, body = "inference differs from training", "_probe_write[(1,)](OUT)"
    found = [place.cheat(name, body, parity, "BITS_DIFFER")]
    if not place.shared:
        alone = (*BUILT, "cross_path")
        named = f"{name}, seen from the other path alone"
        found.append(place.cheat(named, body, ("cross_path",), "PATHS_DIFFER", walk=alone))
    return found


def _told_by_observing(place: _Place) -> list[Cheat]:
    """What needs a device that notes every access."""
    return [
        place.cheat(
            "two programs write one address",
            # The value is the one that lies there: nothing but what they touch tells.
            "if OUT.numel() > 0:\n    _probe_same[(2,)](OUT)",
            ("determinism",),
            "NONDETERMINISTIC",
            SHARED,
            walk=(*BUILT, "parity.train", "parity.infer", "determinism"),
        )
    ]


def _told_by_memory(place: _Place) -> list[Cheat]:
    """Repeats that these pass anyway are left out."""
    walk = (*BUILT, "parity.train", "parity.infer", "memory")
    once = (
        "probe_kept = OUT\n"
        "OUT = torch.empty_like(probe_kept)\n"
        "probe_mark = probe_kept.new_empty((1,), dtype=torch.int32)\n"
        f"_probe_once[(1,)](probe_mark, probe_kept, OUT, {_product(place.output)}, BLOCK=1024)"
    )
    add_one = f"if {place.first}.numel() > 0:\n    _probe_add_one[(1,)]({place.first})"
    return [
        place.cheat(
            "skips its work when scratch holds its mark", once, ("memory",), "MEMORY", walk=walk
        ),
        place.cheat(
            "writes an input after reading it",
            # An empty input has no word to write: that would be out of bounds, another fault.
            add_one,
            ("memory",),
            "MEMORY",
            walk=walk,
        ),
    ]


def _place_in(task: Task) -> _Place:
    call, index = _place(task)
    tree = ast.parse(task.seed_source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if call.entry not in functions:
        raise TaskError(f"the seed has no plain function {call.entry}", hint="write it with `def`")
    source = _renamed(task.seed_source, call.entry, f"_seed_{call.entry}")
    return _Place(
        source=source if _imports_torch(tree) else f"{source}\n\nimport torch\n",
        functions=functions,
        entry=call.entry,
        first=next(arg.name for arg in call.args if arg.kind == "tensor"),
        index=index,
        output=call.outputs[index],
        shared=any(each.entry == call.entry and each.path == "train" for each in task.calls),
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
