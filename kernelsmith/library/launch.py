"""``launch.py`` of an epoch: what was certified, in the form that the dispatch reads.

Call forms with their types, sizes and ranges come from the task, plan classes from a trace of the
winner; every option of a launch is written down, those that host code leaves to Triton as well.
"""

import pprint
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kernelsmith import cases as forms_of_task
from kernelsmith.errors import EvidenceError, InputError
from kernelsmith.library.certificate import PlanClassFacts
from kernelsmith.library.package._pinned import DEFAULTS, FUSION
from kernelsmith.model import ArgSpec, Case, Task

HEAD = '''"""What was certified of this kernel. Made by kernelsmith, for the dispatch."""

CERTIFIED = '''
DIVISIBLE = re.compile(r"^(\w+):([*\w]+)/16$")


def text(
    task: Task, classes: Sequence[PlanClassFacts], device_facts: Mapping[str, Any], triton: str
) -> str:
    """The module's text: equal facts, equal bytes."""
    facts = {
        "device": task.device,
        "triton": triton,
        "machine": _machine(task, device_facts),
        "forms": call_forms(task),
        "classes": [launch_class(each) for each in classes],
    }
    return HEAD + pprint.pformat(facts, width=98, sort_dicts=True) + "\n"


def call_forms(task: Task) -> list[dict[str, Any]]:
    """Every call form in every dtype that was judged, as ``package._forms`` takes them."""
    found = []
    low, high = task.token_range
    for (name, dtype), own in sorted(forms_of_task.forms_of(task).items()):
        call = task.call(name)
        counts = {dict(case.dims).get(task.token_dim, low) for case in own}
        sizes = [{d: n for d, n in case.dims if d != task.token_dim} for case in own]
        found.append(
            {
                "call": name,
                "entry": call.entry,
                "dtypes": [dtype],
                "args": [_arg(arg, own) for arg in call.args],
                "tokens": [task.token_dim, low, high],
                "more_tokens": sorted(n for n in counts if not low <= n <= high),
                "sizes": [dict(pairs) for pairs in sorted({tuple(each.items()) for each in sizes})],
                "ranges": {dim: list(values) for dim, values in task.ranges},
            }
        )
    return found


def launch_class(facts: PlanClassFacts) -> dict[str, Any]:
    """A plan class as ``package._launching`` takes it.

    Raises:
        InputError: a jit function is one of its constants; nobody but the trace can name those.
    """
    words = facts.specialisation.split(" ")
    if any("=jit:" in word for word in words):
        raise InputError(
            f"kernel {facts.kernel} takes a jit function as a constant: its launches cannot "
            "be certified",
            hint="let the kernel call the function by name",
        )
    divisible = [match[1] for word in words if (match := DIVISIBLE.match(word))]
    return {
        "id": facts.id,
        "kernel": facts.kernel,
        "parameters": " ".join(
            f"{match[1]}:{match[2]}" if (match := DIVISIBLE.match(word)) else word for word in words
        ),
        "divisible": divisible,
        "options": {**DEFAULTS, **facts.options, **FUSION},
        "ttir_sha256": facts.ttir_sha256,
    }


def _arg(arg: ArgSpec, own: list[Case]) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": arg.name, "kind": arg.kind}
    if arg.kind == "tensor":
        return {**facts, "shape": list(arg.shape), "dtype": arg.dtype}
    if arg.kind == "int":
        values = {forms_of_task.scalar_of(arg, case) for case in own}
        return {**facts, "dim": arg.dim or "", "values": sorted(v for v in values if v is not None)}
    return facts


def _machine(task: Task, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What of the device's facts decides the machine code, and can be asked for at a call: the CPU
    device's key, or a GPU's model (its compiler is Triton's own)."""
    asked = {"cpu": ("key",), "cuda": ("gpu", "arch")}.get(task.device, ())
    if not asked or any(name not in facts for name in asked):
        raise EvidenceError(
            f"nothing is known of what decides the code of {task.device}",
            hint="judge the candidate anew on that device: `kernelsmith gate --again CANDIDATE`",
        )
    return {name: facts[name] for name in asked}
