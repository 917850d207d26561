"""Kernels that do the same work from other text: what null sessions time against each other.

A variant renames every jit function, writes them in another order and gives each two branches that
are never taken (run-time tests of a size against negative numbers that the compiler cannot decide).
Bits and work stay, the machine code becomes another. A *planted* subject is one whose plan repeats
a known share of its programs: true extra work.
"""

import ast
import random
from dataclasses import replace

from kernelsmith.gate.subject import Subject
from kernelsmith.model import Case, Launch, Plan

# A pointer that every launch of the function has, and an integer it can be guarded by.
TARGETS = (
    "y_ptr",
    "dx_ptr",
    "partial_ptr",
    "dw_ptr",
    "c_ptr",
    "sum_ptr",
    "dgate_ptr",
    "logprob_ptr",
)
SIZES = ("n_cols", "n_size")
# As many in every variant: one branch more was measured as 0.4 % of rms_norm's time.
DEAD_BRANCHES = 2


def variant(source: str, number: int) -> str:
    """The ``number``-th variant of a seed's source, number from 1; deterministic."""
    rng = random.Random(number)
    lines = source.splitlines(keepends=True)
    module = ast.parse(source)
    first_line = {}
    kernels = []
    for node in module.body:
        decorators = getattr(node, "decorator_list", [])
        first_line[node] = min([node.lineno, *(one.lineno for one in decorators)])
        if isinstance(node, ast.FunctionDef) and decorators:
            kernels.append(node)
    texts = [
        _with_dead_branches(lines[first_line[node] - 1 : node.end_lineno], node, rng)
        for node in kernels
    ]
    rng.shuffle(texts)
    out: list[str] = []
    at = 0
    for node, text in zip(kernels, texts, strict=True):
        out += [*lines[at : first_line[node] - 1], text]
        at = node.end_lineno or at
    renamed = "".join([*out, *lines[at:]])
    for node in kernels:
        renamed = renamed.replace(f"{node.name}[", f"{node.name}_v{number}[")
        renamed = renamed.replace(f"def {node.name}(", f"def {node.name}_v{number}(")
    return renamed


def _with_dead_branches(lines: list[str], node: ast.FunctionDef, rng: random.Random) -> str:
    names = [argument.arg for argument in node.args.args]
    target = next((name for name in TARGETS if name in names), None)
    size = next((name for name in SIZES if name in names), None)
    if target is None or size is None:
        raise ValueError(f"{node.name}: no pointer or size to write a dead branch with")
    body = node.body[1] if isinstance(node.body[0], ast.Expr) else node.body[0]
    first = body.lineno - (node.lineno - len(node.decorator_list))
    branches = [
        f"    if {size} < -{below}:\n        tl.store({target} + {rng.randrange(64)}, 0.0)\n"
        # From the lowest bound up: after a higher one the compiler would drop a lower one.
        for below in sorted(rng.sample(range(2, 1000), DEAD_BRANCHES), reverse=True)
    ]
    return "".join([*lines[:first], *branches, *lines[first:]])


def planted(
    subject: Subject, cases: list[Case], percent: float
) -> tuple[Subject, dict[str, float]]:
    """A copy of ``subject`` whose single launch in each case runs about ``percent`` % of its
    programs twice.

    Returns:
        The copy, and the exact share of repeated programs by case.
    """
    plans: dict[str, Plan] = {}
    shares: dict[str, float] = {}
    for case in cases:
        plan = subject.plans[case.id]
        launch = plan.launches[0]
        programs = launch.grid[0]
        again = max(1, round(programs * percent / 100))
        extra: Launch = replace(launch, grid=(again, *launch.grid[1:]))
        plans[case.id] = replace(plan, launches=(*plan.launches, extra))
        shares[case.id] = again / programs
    candidate = replace(subject.candidate, id=f"{subject.candidate.id}+{percent:g}%")
    copy = replace(subject, candidate=candidate, plans={**subject.plans, **plans}, timing=[])
    return copy, shares
