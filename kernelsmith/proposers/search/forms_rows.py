"""Forms of kernels with one row a program and loops over blocks of columns."""

from collections.abc import Callable
from dataclasses import replace

import libcst as cst

from kernelsmith.proposers.search import cst_text as text
from kernelsmith.proposers.search.forms import Form, Rewritten, Subject

_ITEM = "this_item"
MAX_BLOCKS = 8


def _columns(subject: Subject, value: str) -> Rewritten | None:
    """Loops over column blocks become one block ("single", where the row fits it) or are unrolled
    ("static"), so that a row that a second pass reads again can stay in registers."""
    found = {(bound, step) for _, bound, step in text.loops(subject.function)}
    if len(found) != 1 or text.calls(subject.function, "tl.dot"):
        return None
    bound, step = next(iter(found))
    size, width = subject.launch.arguments.get(bound), subject.launch.constants.get(step)
    if subject.kernel.tiles.get(step) != bound or size is None or width is None:
        return None
    plan = subject.plan
    if value == "single":
        function = _transform_loops(subject.function, lambda loop: _one_block(loop))
        plan = plan.setting(**{step: f"triton.next_power_of_2({size})"})
        guard = f"{size} <= {width}"
    else:
        function = _transform_loops(subject.function, lambda loop: _static(loop, "COLUMNS"))
        function = text.with_parameter(function, "COLUMNS", constexpr=True)
        plan = plan.setting(COLUMNS=size)
        guard = f"{size} <= {MAX_BLOCKS * width}"
    function = _without_repeats(_stores_last(function))
    return function, replace(plan, guards=(*plan.guards, guard))


Replacement = cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]


def _transform_loops(
    function: cst.FunctionDef, change: Callable[[cst.For], Replacement]
) -> cst.FunctionDef:
    class Change(cst.CSTTransformer):
        def leave_For(self, original_node: cst.For, updated_node: cst.For) -> Replacement:
            return change(updated_node) if text.loop_of(updated_node) else updated_node

    return cst.ensure_type(function.visit(Change()), cst.FunctionDef)


def _one_block(loop: cst.For) -> "cst.FlattenSentinel[cst.BaseStatement]":
    body = cst.ensure_type(loop.body, cst.IndentedBlock).body
    start = text.statement(f"{text.code(loop.target)} = 0")
    return cst.FlattenSentinel([start, *body])


def _static(loop: cst.For, bound: str) -> cst.For:
    step = cst.ensure_type(loop.iter, cst.Call).args[2].value
    return loop.with_changes(
        iter=text.expression(f"tl.static_range(0, {bound}, {text.code(step)})")
    )


def _is_store(node: cst.BaseStatement) -> bool:
    if isinstance(node, cst.If):
        block = node.body
        return (
            node.orelse is None
            and isinstance(block, cst.IndentedBlock)
            and all(_is_store(s) for s in block.body)
        )
    return (
        isinstance(node, cst.SimpleStatementLine)
        and isinstance(node.body[0], cst.Expr)
        and text.call_name(node.body[0].value) == "tl.store"
    )


def _stores_last(function: cst.FunctionDef) -> cst.FunctionDef:
    """Moves stores whose operands stay as they are behind later loads: a load may then be taken
    from registers by the compiler."""
    _, statements = text.body_of(function)
    kept: list[cst.BaseStatement] = []
    moved: list[cst.BaseStatement] = []
    for index, node in enumerate(statements):
        later = set(text.assigned(statements[index + 1 :]))
        if _is_store(node) and not (text.names(node) & later):
            moved.append(node)
        else:
            kept.append(node)
    return text.with_body(function, [*kept, *moved])


def _without_repeats(function: cst.FunctionDef) -> cst.FunctionDef:
    """Drops a top-level assignment that repeats an earlier one whose names are unchanged."""
    _, statements = text.body_of(function)
    kept: list[cst.BaseStatement] = []
    for node in statements:
        pair = text.single_assign(node)
        if pair is not None:
            used = text.names(node)
            same = [i for i, k in enumerate(kept) if _same(k, node)]
            if same and not (used & set(text.assigned(kept[same[-1] + 1 :]))):
                continue
        kept.append(node)
    return text.with_body(function, kept)


def _same(one: cst.BaseStatement, other: cst.BaseStatement) -> bool:
    first, second = text.single_assign(one), text.single_assign(other)
    if first is None or second is None:
        return False
    return first[0] == second[0] and text.code(first[1]) == text.code(second[1])


def _programs(subject: Subject, value: str) -> Rewritten | None:
    """One item a program becomes a run of neighbouring items ("4") or, on a persistent grid, every
    ``num_programs``-th item ("persistent"); what no item changes is computed once."""
    function, grid = subject.function, subject.grid()
    if text.calls(function, "tl.program_id") != 1 or len(grid) != 1:
        return None
    if text.calls(function, "tl.num_programs") or _ITEM in text.code(function):
        return None
    total = "n_loops" if "n_items" in text.code(function.params) else "n_items"
    function = cst.ensure_type(
        text.replace(
            function,
            lambda n: cst.Name(_ITEM) if text.call_name(n) == "tl.program_id" else None,
        ),
        cst.FunctionDef,
    )
    before, inside = _hoisted(function)
    if value == "persistent":
        over = f"range(tl.program_id(0), {total}, tl.num_programs(0))"
        new_grid = f"min({grid[0]}, num_programs)"
    else:
        over = f"range(first_item, min(first_item + RUN, {total}))"
        before = [text.statement("first_item = tl.program_id(0) * RUN"), *before]
        new_grid = f"triton.cdiv({grid[0]}, {value})"
    loop = cst.For(
        target=cst.Name(_ITEM),
        iter=text.expression(over),
        body=cst.IndentedBlock(body=inside),
    )
    function = text.with_parameter(
        text.with_body(function, [*before, loop]), total, constexpr=False
    )
    plan = subject.plan.setting(**{total: grid[0]})
    if value != "persistent":
        function = text.with_parameter(function, "RUN", constexpr=True)
        plan = plan.setting(RUN=value)
    return function, replace(plan, grid=(new_grid,), num_programs=value == "persistent")


def _hoisted(
    function: cst.FunctionDef,
) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """Splits the body: assignments that do not depend on the item, and the rest."""
    _, statements = text.body_of(function)
    bound = text.assigned(statements)
    varying = {_ITEM, *bound}
    before: list[cst.BaseStatement] = []
    inside: list[cst.BaseStatement] = []
    for node in statements:
        pair = text.single_assign(node)
        constant = pair is not None and bound.count(pair[0]) == 1
        if pair is not None and constant and not (text.names(pair[1]) & varying):
            varying.discard(pair[0])
            before.append(node)
        else:
            inside.append(node)
    return before, inside


def _unroll(subject: Subject, value: str) -> Rewritten | None:
    """Loops over a constexpr count are written out by the compiler."""
    changed = False

    class Change(cst.CSTTransformer):
        def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.For:
            nonlocal changed
            call = updated_node.iter
            if isinstance(call, cst.Call) and text.call_name(call) == "range":
                sizes = [text.code(a.value) for a in call.args]
                if all(s.isdigit() or s in subject.kernel.constexprs for s in sizes):
                    changed = True
                    func = text.expression("tl.static_range")
                    return updated_node.with_changes(iter=call.with_changes(func=func))
            return updated_node

    function = cst.ensure_type(subject.function.visit(Change()), cst.FunctionDef)
    return (function, subject.plan) if changed else None


COLUMNS = Form(name="columns", values=("single", "static"), rewrite=_columns)
PROGRAMS = Form(name="programs", values=("2", "4", "8", "16", "persistent"), rewrite=_programs)
UNROLL = Form(name="unroll", values=("on",), rewrite=_unroll)
