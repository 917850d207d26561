"""Which knobs a program offers, with the values worth trying."""

import ast
from dataclasses import dataclass, field

import libcst as cst

from kernelsmith.proposers.search import cst_text as text
from kernelsmith.proposers.search.forms import Plan, Subject, apply
from kernelsmith.proposers.search.program import Kernel, Launch, Program
from kernelsmith.proposers.search.render import FORMS

OPTION_VALUES = {"num_warps": ("1", "2", "4", "8", "16"), "num_stages": ("1", "2", "3", "4", "5")}
_TILES = tuple(str(1 << power) for power in range(11))


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A group of launches: what it is and what can be set on it.

    ``constants`` and ``forms`` map names to values to try; ``ordered`` names tile constants whose
    length decides the order of a sum, so that only fitting them to the row is likely to keep bits;
    ``steps`` those that a loop steps by; ``default`` gives the seed's values; ``tiles`` maps a
    tile constant to the host text of the size it covers; ``row_operands`` counts the arguments
    that are loaded at addresses which depend on the program; ``sums`` the sums within a tile.
    """

    name: str
    kernel: str
    functions: tuple[str, ...]
    rows: str
    dims: tuple[str, ...]
    constants: dict[str, tuple[str, ...]]
    ordered: frozenset[str]
    steps: frozenset[str]
    forms: dict[str, tuple[str, ...]]
    tiles: dict[str, str]
    default: dict[str, str] = field(default_factory=dict)
    has_dot: bool = False
    row_operands: int = 0
    sums: int = 0


def sites(program: Program) -> tuple[Site, ...]:
    """All groups of launches of ``program`` that offer a knob."""
    module = text.module(program.source)
    functions = {f.name.value: f for f in module.body if isinstance(f, cst.FunctionDef)}
    found = []
    for name, launches in program.sites.items():
        found.append(_site(name, launches, program, functions[launches[0].kernel]))
    return tuple(found)


def _site(
    name: str, launches: tuple[Launch, ...], program: Program, function: cst.FunctionDef
) -> Site:
    launch = launches[0]
    kernel = program.kernels[launch.kernel]
    subject = Subject(kernel=kernel, launch=launch, function=function, plan=Plan())
    forms = {}
    for form in FORMS:
        if apply(subject, form, form.values[0]) is not None:
            forms[form.name] = form.values
    steps = frozenset(step for _, _, step in text.loops(function))
    has_dot = text.calls(function, "tl.dot") > 0
    constants = {c: _TILES for c in kernel.tiles if c in launch.constants}
    ordered = frozenset(c for c in constants if kernel.reduces and c in steps)
    default = {name: str(value) for name, value in launch.constants.items()}
    default.update({name: str(value) for name, value in launch.options.items()})
    return Site(
        name=name,
        kernel=launch.kernel,
        functions=tuple(dict.fromkeys(one.function for one in launches)),
        rows=launch.rows,
        dims=launch.dims,
        constants=constants,
        ordered=ordered,
        steps=steps,
        forms=forms,
        tiles={t: launch.arguments.get(p, "") for t, p in kernel.tiles.items() if p},
        default=default,
        has_dot=has_dot,
        row_operands=_row_operands(kernel),
        sums=text.calls(function, "tree_sum") + text.calls(function, "tl.sum"),
    )


def _row_operands(kernel: Kernel) -> int:
    roots = {
        node.targets[0].id
        for node in ast.walk(kernel.tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and "tl.program_id" in ast.unparse(node.value)
    }
    found: set[str] = set()
    for node in ast.walk(kernel.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.load" and node.args:
            used = {n.id for n in ast.walk(node.args[0]) if isinstance(n, ast.Name)}
            if used & roots:
                found |= used & set(kernel.params)
    strides = {name for name in found if "stride" in name}
    return len(found - strides)
