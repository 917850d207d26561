"""Small steps on libcst trees that the rewrites share."""

from collections.abc import Callable, Iterator, Sequence

import libcst as cst
import libcst.matchers as m

_EMPTY = cst.Module([])


def code(node: cst.CSTNode) -> str:
    """Source text of a node."""
    return _EMPTY.code_for_node(node)


def expression(text: str) -> cst.BaseExpression:
    """An expression from its text."""
    return cst.parse_expression(text)


def statement(text: str) -> cst.BaseStatement:
    """A statement from its text."""
    return cst.ensure_type(cst.parse_statement(text), cst.SimpleStatementLine)


def names(node: cst.CSTNode) -> set[str]:
    """Names that stand as expressions in a node (not attributes, not keywords)."""
    found: set[str] = set()

    class Collect(cst.CSTVisitor):
        def visit_Attribute(self, node: cst.Attribute) -> bool:
            node.value.visit(self)
            return False

        def visit_Arg(self, node: cst.Arg) -> bool:
            node.value.visit(self)
            return False

        def visit_Name(self, node: cst.Name) -> None:
            found.add(node.value)

    node.visit(Collect())
    return found


def assigned(nodes: Sequence[cst.CSTNode]) -> list[str]:
    """Names that statements bind, once for each binding."""
    found: list[str] = []
    for node in nodes:
        for target in m.findall(node, m.AssignTarget() | m.AugAssign() | m.For() | m.AnnAssign()):
            inner = target.target  # type: ignore[attr-defined]
            found += sorted(names(inner))
    return found


def replace(
    node: cst.CSTNode, matches: Callable[[cst.BaseExpression], cst.BaseExpression | None]
) -> cst.CSTNode:
    """Replaces expressions bottom-up where ``matches`` returns something else than None."""

    class Replace(cst.CSTTransformer):
        def on_leave(self, original_node, updated_node):  # type: ignore[no-untyped-def]
            if isinstance(updated_node, cst.BaseExpression):
                new = matches(updated_node)
                return updated_node if new is None else new
            return updated_node

    result = node.visit(Replace())
    assert isinstance(result, cst.CSTNode)
    return result


def call_name(node: cst.CSTNode) -> str:
    """Dotted name of what a call calls, or ""."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name | cst.Attribute):
        return code(node.func).strip()
    return ""


def calls(node: cst.CSTNode, name: str) -> int:
    """How often ``name`` is called in a node."""
    return sum(call_name(c) == name for c in m.findall(node, m.Call()))


def single_assign(node: cst.CSTNode) -> tuple[str, cst.BaseExpression] | None:
    """(name, value) of a statement ``name = value``."""
    if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1:
        small = node.body[0]
        if isinstance(small, cst.Assign) and len(small.targets) == 1:
            target = small.targets[0].target
            if isinstance(target, cst.Name):
                return target.value, small.value
    return None


def body_of(function: cst.FunctionDef) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """(docstring statement if any, the rest) of a function."""
    block = cst.ensure_type(function.body, cst.IndentedBlock)
    statements = list(block.body)
    if function.get_docstring() is not None:
        return statements[:1], statements[1:]
    return [], statements


def with_body(
    function: cst.FunctionDef, statements: Sequence[cst.BaseStatement]
) -> cst.FunctionDef:
    """The function with other statements, its docstring kept."""
    head, _ = body_of(function)
    block = cst.ensure_type(function.body, cst.IndentedBlock)
    return function.with_changes(body=block.with_changes(body=[*head, *statements]))


def with_parameter(function: cst.FunctionDef, name: str, *, constexpr: bool) -> cst.FunctionDef:
    """The function with one more parameter at the end; a run-time one is not specialised, so that
    it adds no compiled variants."""
    annotation = cst.Annotation(expression("tl.constexpr")) if constexpr else None
    added = cst.Param(name=cst.Name(name), annotation=annotation)
    function = function.with_changes(params=appended(function.params, added))
    return function if constexpr else _not_specialised(function, name)


def appended(parameters: cst.Parameters, added: cst.Param) -> cst.Parameters:
    """Parameters with one more, laid out like the others."""
    params = list(parameters.params)
    if params:
        between = params[-2].comma if len(params) > 1 else cst.MaybeSentinel.DEFAULT
        added = added.with_changes(comma=params[-1].comma)
        params[-1] = params[-1].with_changes(comma=between)
    return parameters.with_changes(params=[*params, added])


def _not_specialised(function: cst.FunctionDef, name: str) -> cst.FunctionDef:
    decorator = function.decorators[0].decorator
    listed: list[str] = []
    others: list[str] = []
    if isinstance(decorator, cst.Call):
        for argument in decorator.args:
            word = argument.keyword.value if argument.keyword else ""
            if word == "do_not_specialize" and isinstance(argument.value, cst.List | cst.Tuple):
                listed = [code(e.value) for e in argument.value.elements]
            else:
                others.append(f"{word}={code(argument.value)}")
    listed.append(f'"{name}"')
    text = ", ".join([f"do_not_specialize=[{', '.join(listed)}]", *others])
    new = cst.Decorator(expression(f"triton.jit({text})"))
    return function.with_changes(decorators=[new, *function.decorators[1:]])


def loops(function: cst.FunctionDef) -> Iterator[tuple[cst.For, str, str]]:
    """(loop, P, B) for each ``for v in range(0, P, B)`` over names."""
    for loop in m.findall(function, m.For(iter=m.Call(func=m.Name("range")))):
        assert isinstance(loop, cst.For)
        args = cst.ensure_type(loop.iter, cst.Call).args
        if len(args) == 3 and code(args[0].value) == "0":
            bound, step = args[1].value, args[2].value
            if isinstance(bound, cst.Name) and isinstance(step, cst.Name):
                yield loop, bound.value, step.value
