"""From a program and a genome to the source of a candidate."""

import ast
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from kernelsmith.proposers.search import cst_text as text
from kernelsmith.proposers.search import forms_dot, forms_rows, forms_tile
from kernelsmith.proposers.search.forms import Form, Plan, Subject, apply
from kernelsmith.proposers.search.genome import Bucket, Genome, Knob
from kernelsmith.proposers.search.program import OPTIONS, Program

# In the order in which they are applied.
FORMS: tuple[Form, ...] = (
    forms_rows.COLUMNS,
    forms_rows.UNROLL,
    forms_dot.LOAD_A,
    forms_dot.LOAD_B,
    forms_dot.DOT,
    forms_dot.ORDER,
    forms_tile.ROWS,
    forms_rows.PROGRAMS,
)
_FORM_NAMES = frozenset(form.name for form in FORMS)


@dataclass(slots=True, kw_only=True)
class _Output:
    """What rendering collects: new kernels by the one they come from, new launch statements by
    index, host functions that need ``num_programs``."""

    kernels: dict[str, dict[str, cst.FunctionDef]] = field(default_factory=dict)
    launches: dict[int, list[cst.BaseStatement]] = field(default_factory=dict)
    num_programs: set[str] = field(default_factory=set)


def render(program: Program, genome: Genome, entries: tuple[str, ...]) -> str | None:
    """The source with ``genome`` applied, or None where a setting does not apply."""
    module = text.module(program.source)
    functions = {f.name.value: f for f in module.body if isinstance(f, cst.FunctionDef)}
    calls = _launch_calls(module, program)
    output = _Output()
    known: set[Knob] = set()
    for site, launches in program.sites.items():
        settings = {k: v for k, v in genome.items() if k.site == site}
        known |= settings.keys()
        if not settings:
            continue
        for launch in launches:
            subject = Subject(
                kernel=program.kernels[launch.kernel],
                launch=launch,
                function=functions[launch.kernel],
                plan=Plan(),
            )
            statements = _branches(subject, settings, calls[launch.index], output)
            if statements is None:
                return None
            output.launches[launch.index] = statements
    if known != set(genome) or not output.num_programs <= set(entries):
        return None
    return _assembled(module, program, output)


def _launch_calls(module: cst.Module, program: Program) -> list[cst.Call]:
    """Launches in order of text."""
    found: list[cst.Call] = []

    def note(line: cst.SimpleStatementLine, call: cst.Call) -> list[cst.BaseStatement]:
        found.append(call)
        return [line]

    for node in module.body:
        if isinstance(node, cst.FunctionDef) and node.name.value not in program.kernels:
            _each_launch(node.body, program, note)
    return found


Change = Callable[[cst.SimpleStatementLine, cst.Call], list[cst.BaseStatement]]


def _each_launch(suite: cst.BaseSuite, program: Program, change: Change) -> cst.BaseSuite:
    """The suite with ``change`` put in place of each launch, nested ones too, in order of text."""
    if not isinstance(suite, cst.IndentedBlock):
        return suite
    body: list[cst.BaseStatement] = []
    for node in suite.body:
        call = _launch_of(node, program)
        if call is not None:
            body += change(cst.ensure_type(node, cst.SimpleStatementLine), call)
        else:
            body.append(_within(node, program, change))
    return suite.with_changes(body=body)


def _within(node: cst.BaseStatement, program: Program, change: Change) -> cst.BaseStatement:
    if not isinstance(node, cst.If | cst.For):
        return node
    node = node.with_changes(body=_each_launch(node.body, program, change))
    if isinstance(node.orelse, cst.If):
        return node.with_changes(orelse=_within(node.orelse, program, change))
    if isinstance(node.orelse, cst.Else):
        body = _each_launch(node.orelse.body, program, change)
        return node.with_changes(orelse=node.orelse.with_changes(body=body))
    return node


def _launch_of(line: cst.CSTNode, program: Program) -> cst.Call | None:
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(line.body[0], cst.Expr):
        return None
    call = line.body[0].value
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Subscript):
        name = call.func.value
        if isinstance(name, cst.Name) and name.value in program.kernels:
            return call
    return None


def _branches(
    subject: Subject, settings: Genome, call: cst.Call, output: _Output
) -> list[cst.BaseStatement] | None:
    """The launch as an if/elif/else over buckets, in order of bound."""
    usual = {k.name: v for k, v in settings.items() if k.bucket is None}
    buckets = sorted({k.bucket for k in settings if k.bucket is not None})
    if len({b.dim for b in buckets}) > 1 or any(b.dim not in subject.launch.dims for b in buckets):
        return None
    tests: list[tuple[Bucket | None, list[cst.BaseStatement]]] = []
    for bucket in [*buckets, None]:
        own = {k.name: v for k, v in settings.items() if k.bucket == bucket}
        statements = _guarded(subject, {**usual, **own}, call, output)
        if statements is None:
            return None
        tests.append((bucket, statements))
    return _chain(tests)


def _chain(
    tests: list[tuple[Bucket | None, list[cst.BaseStatement]]],
) -> list[cst.BaseStatement]:
    _, result = tests[-1]
    orelse: cst.If | cst.Else | None = None
    for bucket, statements in reversed(tests[:-1]):
        if orelse is None and _text(statements) == _text(result):
            continue
        assert bucket is not None
        orelse = orelse or cst.Else(body=cst.IndentedBlock(body=result))
        orelse = cst.If(
            test=text.expression(f"{bucket.dim} <= {bucket.bound}"),
            body=cst.IndentedBlock(body=statements),
            orelse=orelse,
        )
    return [orelse] if isinstance(orelse, cst.If) else result


def _text(statements: list[cst.BaseStatement]) -> str:
    return "\n".join(text.code(s) for s in statements)


def _guarded(
    subject: Subject, settings: Mapping[str, str], call: cst.Call, output: _Output
) -> list[cst.BaseStatement] | None:
    """One launch, or `if guard: launch else: launch without the guarded form`."""
    subject_ = _with_constants(subject, settings)
    if subject_ is None:
        return None
    plain = dict(settings)
    for form in FORMS:
        value = settings.get(form.name, "off")
        if value == "off":
            continue
        before = len(subject_.plan.guards)
        after = apply(subject_, form, value)
        if after is None:
            return None
        subject_ = after
        if len(subject_.plan.guards) > before:
            plain.pop(form.name)
    statement = _statement(subject_, settings, call, output)
    if not subject_.plan.guards:
        return [statement]
    other = _guarded(subject, plain, call, output)
    if other is None:
        return None
    test = text.expression(" and ".join(subject_.plan.guards))
    return [
        cst.If(
            test=test,
            body=cst.IndentedBlock(body=[statement]),
            orelse=cst.Else(body=cst.IndentedBlock(body=other)),
        )
    ]


def _with_constants(subject: Subject, settings: Mapping[str, str]) -> Subject | None:
    """The subject with tile constants set, in arguments and in the grid alike."""
    launch, plan = subject.launch, subject.plan
    grid = launch.grid
    for name, value in settings.items():
        if name in _FORM_NAMES or name in OPTIONS:
            continue
        if name not in launch.constants:
            return None
        size = launch.arguments.get(subject.kernel.tiles.get(name, ""), "")
        if value == "fit":
            if not size:
                return None
            value = f"min({launch.constants[name]}, triton.next_power_of_2({size}))"
        changed = _grid_with(grid, size, launch.constants[name], value)
        if changed is None and _stands_alone(subject, name):
            return None
        grid = changed or grid
        plan = plan.setting(**{name: value})
    if grid != launch.grid:
        plan = replace(plan, grid=grid)
    return replace(subject, plan=plan)


def _grid_with(grid: tuple[str, ...], size: str, old: int, new: str) -> tuple[str, ...] | None:
    """The grid with ``triton.cdiv(size, old)`` written anew; None if it is not there."""
    was, now = f"triton.cdiv({size}, {old})", f"triton.cdiv({size}, {new})"
    if not size or not any(was in text for text in grid):
        return None
    return tuple(text.replace(was, now) for text in grid)


def _stands_alone(subject: Subject, name: str) -> bool:
    """Whether the grid holds the constant's value in a place that no tile explains."""
    launch = subject.launch
    grid = launch.grid
    for tile, param in subject.kernel.tiles.items():
        size = launch.arguments.get(param, "")
        if tile in launch.constants:
            grid = _grid_with(grid, size, launch.constants[tile], "0") or grid
    old = launch.constants[name]
    return any(
        isinstance(node, ast.Constant) and node.value == old
        for element in grid
        for node in ast.walk(ast.parse(element))
    )


def _statement(
    subject: Subject, settings: Mapping[str, str], call: cst.Call, output: _Output
) -> cst.BaseStatement:
    """The launch statement; its kernel and needs go to ``output``."""
    launch, plan = subject.launch, subject.plan
    name = launch.kernel + plan.suffix
    if plan.suffix:
        function = subject.function.with_changes(name=cst.Name(name), lines_after_decorators=[])
        output.kernels.setdefault(launch.kernel, {})[name] = function
    if plan.num_programs:
        output.num_programs.add(launch.function)
    values = {**plan.arguments, **{k: v for k, v in settings.items() if k in OPTIONS}}
    args = []
    for index, argument in enumerate(call.args):
        keyword = argument.keyword.value if argument.keyword else subject.kernel.params[index]
        if keyword in values:
            argument = argument.with_changes(value=text.expression(values.pop(keyword)))
        args.append(argument)
    at = next(
        (i for i, a in enumerate(args) if a.keyword is not None and a.keyword.value in OPTIONS),
        len(args),
    )
    added = [_keyword(k, v) for k, v in values.items() if k not in OPTIONS]
    tail = [_keyword(k, v) for k, v in values.items() if k in OPTIONS]
    args = _laid_out([*args[:at], *added, *args[at:], *tail], call.args)
    func = cst.ensure_type(call.func, cst.Subscript).with_changes(value=cst.Name(name))
    if plan.grid is not None:
        grid = text.expression(f"({', '.join(plan.grid)},)")
        func = func.with_changes(slice=[cst.SubscriptElement(cst.Index(grid))])
    new = call.with_changes(func=func, args=args)
    return cst.SimpleStatementLine([cst.Expr(new)])


def _keyword(name: str, value: str) -> cst.Arg:
    return cst.ensure_type(text.expression(f"f({name}={value})"), cst.Call).args[0]


def _laid_out(args: Sequence[cst.Arg], original: Sequence[cst.Arg]) -> list[cst.Arg]:
    """``args`` with commas as in the original call: one a line if it has one a line."""
    if not original:
        return list(args)
    between = original[0].comma if len(original) > 1 else cst.Comma()
    return [
        *(a.with_changes(comma=between) for a in args[:-1]),
        args[-1].with_changes(comma=original[-1].comma),
    ]


def _assembled(module: cst.Module, program: Program, output: _Output) -> str:
    """The module with new launches and kernels, without kernels that nothing uses any more."""
    indices = itertools.count()

    def put(line: cst.SimpleStatementLine, call: cst.Call) -> list[cst.BaseStatement]:
        statements = output.launches.get(next(indices))
        if statements is None:
            return [line]
        first = statements[0].with_changes(leading_lines=line.leading_lines)
        return [first, *statements[1:]]

    body: list[cst.BaseStatement] = []
    for node in module.body:
        if not isinstance(node, cst.FunctionDef):
            body.append(node)
            continue
        name = node.name.value
        if name not in program.kernels:
            node = node.with_changes(body=_each_launch(node.body, program, put))
        if name in output.num_programs and "num_programs" not in text.code(node.params):
            added = cst.Param(name=cst.Name("num_programs"))
            node = node.with_changes(params=text.appended(node.params, added))
        body.append(node)
        body += [f for _, f in sorted(output.kernels.get(name, {}).items())]
    return module.with_changes(body=_used(body, program)).code


def _used(body: list[cst.BaseStatement], program: Program) -> list[cst.BaseStatement]:
    """Without the original kernels that no other function names."""
    named: set[str] = set()
    for node in body:
        if isinstance(node, cst.FunctionDef):
            named |= text.names(node)
    return [
        node
        for node in body
        if not isinstance(node, cst.FunctionDef)
        or node.name.value not in program.kernels
        or node.name.value in named
    ]
