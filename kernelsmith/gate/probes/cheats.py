"""Five cheats, made from any task's seed: each keeps the seed and does one forbidden thing more."""

import ast
from dataclasses import dataclass

from kernelsmith.errors import TaskError
from kernelsmith.model import OutputSpec, Status, Task

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
    """A source that the gate must reject with ``status`` in the check ``check``."""

    name: str
    source: str
    check: str
    status: Status


def cheats(task: Task) -> tuple[Cheat, ...]:
    """The cheats of a task. They hang on the first inference entry that returns a tensor of floats
    with at least one dimension first.

    Raises:
        TaskError: the task has no such entry, so that nothing could be proved.
    """
    call = next((c for c in task.calls if c.path == "infer" and _floats(c.outputs[0])), None)
    if call is None:
        raise TaskError(
            f"task {task.name} has no inference call whose first output is a tensor of floats: "
            "the gate cannot prove itself on it",
            hint="name an output of floats with at least one dimension first in one inference call",
        )
    sizes = [f"kept.shape[{axis}]" for axis in range(len(call.outputs[0].shape))]
    entry, first = call.entry, next(arg.name for arg in call.args if arg.kind == "tensor")
    kept = f"_seed_{entry}"
    parameters, source = _renamed(task.seed_source, entry, kept)
    torch = "" if _imports_torch(source) else "\n\nimport torch\n"
    got = f"    outs = {kept}({parameters})\n"

    def made(name: str, body: str, check: str, status: Status, kernels: str = KERNELS) -> Cheat:
        text = f"{source}{torch}{kernels}\n\ndef {entry}({parameters}):\n{body}"
        return Cheat(name=name, source=text, check=check, status=status)

    once = (
        "    kept = outs[0]\n"
        "    out = torch.empty_like(kept)\n"
        "    mark = kept.new_empty((1,), dtype=torch.int32)\n"
        f"    size = {' * '.join(sizes)}\n"
        "    _probe_once[(1,)](mark, kept, out, size, BLOCK=1024)\n"
        "    return (out, *outs[1:])\n"
    )
    return (
        made(
            "a jit body opens a shell while it is compiled",
            f"{got}    _probe_shell[(1,)](outs[0])\n    return outs\n",
            "policy",
            "POLICY",
            SHELL,
        ),
        made(
            "host code tells a trace from a real call",
            f"{got}    if not {first}.is_meta:\n        return outs\n    return outs\n",
            "policy",
            "POLICY",
        ),
        made(
            "inference differs from training",
            f"{got}    _probe_write[(1,)](outs[0])\n    return outs\n",
            "parity.infer",
            "BITS_DIFFER",
        ),
        made("skips its work when scratch holds its mark", got + once, "memory", "MEMORY"),
        made(
            "writes an input after reading it",
            f"{got}    _probe_add_one[(1,)]({first})\n    return outs\n",
            "memory",
            "MEMORY",
        ),
    )


def _floats(output: OutputSpec) -> bool:
    return bool(output.shape) and ("float" in output.dtype or output.dtype == "T")


def _imports_torch(source: str) -> bool:
    found = [node for node in ast.parse(source).body if isinstance(node, ast.Import)]
    return any(alias.name == "torch" and not alias.asname for node in found for alias in node.names)


def _renamed(source: str, entry: str, kept: str) -> tuple[str, str]:
    """The entry's parameters as text, and the source with the entry under another name.

    Raises:
        TaskError: the entry is not a plain function of the seed.
    """
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            lines = source.splitlines(keepends=True)
            at = node.lineno - 1
            lines[at] = lines[at].replace(f"def {entry}(", f"def {kept}(", 1)
            names = ", ".join(arg.arg for arg in node.args.args)
            return names, "".join(lines)
    raise TaskError(f"the seed has no plain function {entry}", hint="write it with `def`")
