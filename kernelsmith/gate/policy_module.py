"""The language of a candidate's module level: imports, constants and functions."""

import ast
from functools import cache
from pathlib import Path

from kernelsmith.gate import policy_host, policy_jit
from kernelsmith.gate.policy_base import (
    ModuleNames,
    Report,
    Scope,
    dotted,
    is_literal,
    node_name,
    parameters,
    stored_names,
)
from kernelsmith.model import language as tables

_IMPORTS = "import torch, triton, triton.language as tl and names from kernelsmith.lang"
_DECORATORS = "use bare @triton.jit, or literal noinline/do_not_specialize"


@cache
def lang_functions() -> dict[str, tuple[str, ...]]:
    """Jit functions of ``kernelsmith.lang`` and their parameters, read without importing it."""
    path = Path(__file__).parent.parent / "lang.py"
    found: dict[str, tuple[str, ...]] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and is_jit(node):
            found[node.name] = tuple(a.arg for a in parameters(node))
    return found


def is_jit(node: ast.FunctionDef) -> bool:
    """Whether a function is decorated with ``triton.jit`` in one of its forms."""
    for decorator in node.decorator_list:
        if dotted(decorator.func if isinstance(decorator, ast.Call) else decorator) == "triton.jit":
            return True
    return False


def check_module(tree: ast.Module, entries: tuple[str, ...], report: Report) -> None:
    """Reports every construct of a candidate outside the language."""
    names = _module_names(tree, report)
    for entry in entries:
        if entry in names.jit or entry in names.constants:
            report(_binding(tree, entry), f"the entry `{entry}`", "make it a plain function")
    for index, node in enumerate(tree.body):
        match node:
            case ast.Import() | ast.ImportFrom():
                pass
            case ast.FunctionDef():
                _function(node, names, report)
            case ast.Assign() | ast.AnnAssign():
                _constant(node, report)
            case ast.Expr() if index == 0 and _is_docstring(node):
                pass
            case ast.Expr():
                report(node, "a statement at module level", "keep imports, constants, functions")
            case _:
                hint = "keep imports, literal constants and functions at module level"
                report(node, node_name(node), hint)


def _binding(tree: ast.Module, name: str) -> ast.AST:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    return tree.body[0]


def _is_docstring(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _module_names(tree: ast.Module, report: Report) -> ModuleNames:
    jit: dict[str, tuple[str, ...]] = {}
    host: dict[str, tuple[str, ...]] = {}
    lang: dict[str, tuple[str, ...]] = {}
    constants: set[str] = set()
    bound: set[str] = set()
    for node in tree.body:
        new: list[str] = []
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in _imported(node, report):
                lang[name] = lang_functions()[name]
                new.append(name)
        elif isinstance(node, ast.FunctionDef):
            table = jit if is_jit(node) else host
            table[node.name] = tuple(a.arg for a in parameters(node))
            new.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            new = [t.id for t in targets if isinstance(t, ast.Name)]
            constants.update(new)
        for name in new:
            if name in bound or name in tables.RESERVED:
                report(node, f"a second binding of `{name}`", "give it another name")
            bound.add(name)
    return ModuleNames(jit=jit, lang=lang, host=host, constants=frozenset(constants))


def _imported(node: ast.Import | ast.ImportFrom, report: Report) -> list[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            pair = (alias.name, alias.asname)
            if pair not in (("torch", None), ("triton", None), ("triton.language", "tl")):
                what = f"`import {alias.name}{f' as {alias.asname}' if alias.asname else ''}`"
                report(node, what, _IMPORTS)
        return []
    if node.module != "kernelsmith.lang" or node.level:
        report(node, f"`from {'.' * node.level}{node.module or ''} import`", _IMPORTS)
        return []
    known = lang_functions()
    for alias in node.names:
        if alias.name not in known or alias.asname is not None:
            what = f"`from kernelsmith.lang import {alias.name}`"
            report(node, what, f"import {', '.join(sorted(known))} under their own names")
    return [a.name for a in node.names if a.name in known and a.asname is None]


def _constant(node: ast.Assign | ast.AnnAssign, report: Report) -> None:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        if not isinstance(target, ast.Name):
            report(target, "a module-level target that is not a name", "bind one name at a time")
    if isinstance(node, ast.AnnAssign) and dotted(node.annotation) != "tl.constexpr":
        report(node.annotation, "an annotation", "use none or tl.constexpr")
    value = node.value
    if isinstance(value, ast.Call) and dotted(value.func) == "tl.constexpr":
        value = value.args[0] if len(value.args) == 1 and not value.keywords else value
    if value is None or not is_literal(value, tuples=True):
        hint = "use a number, a tuple of numbers, None, or tl.constexpr(number)"
        report(node, "a module-level value that is not a literal", hint)


def _function(node: ast.FunctionDef, names: ModuleNames, report: Report) -> None:
    jit = is_jit(node)
    _signature(node, jit, report)
    _decorators(node, jit, report)
    reserved = (*tables.IMPORT_ROOTS, *(tables.JIT_BUILTINS if jit else tables.HOST_BUILTINS))
    taken = {*reserved, *names.jit, *names.lang, *names.host, *names.constants}
    local = {a.arg for a in parameters(node)}
    for argument in parameters(node):
        if argument.arg in taken:
            report(argument, f"a parameter named `{argument.arg}`", "give it another name")
        if jit and argument.arg in tables.OPTION_NAMES:
            what = f"a kernel parameter named `{argument.arg}`"
            report(argument, what, "give it another name; the compiler reads this one")
    for name in stored_names(node):
        local.add(name.id)
        if name.id in taken:
            report(name, f"a binding of `{name.id}`", "give it another name")
    scope = Scope(module=names, local=frozenset(local), report=report)
    (policy_jit if jit else policy_host).check_body(node, scope)


def _signature(node: ast.FunctionDef, jit: bool, report: Report) -> None:
    args = node.args
    if args.vararg or args.kwarg:
        report(node, "`*` or `**` parameters", "write the parameters out")
    for argument in parameters(node):
        note = argument.annotation
        if note is not None and not (jit and dotted(note) == "tl.constexpr"):
            report(note, "an annotation", "use none; tl.constexpr in kernels")
    if node.returns is not None:
        report(node.returns, "a return annotation", "use none")
    for default in [*args.defaults, *args.kw_defaults]:
        if default is not None and not is_literal(default):
            report(default, "a default that is not a literal", "use a number or None")
    if getattr(node, "type_params", None):
        report(node, "type parameters", "use none")


def _decorators(node: ast.FunctionDef, jit: bool, report: Report) -> None:
    names = {a.arg for a in parameters(node)}
    for decorator in node.decorator_list:
        called = isinstance(decorator, ast.Call)
        name = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if name != "triton.jit" or not jit:
            hint = tables.HOST_CALL_HINTS.get(name or "", _DECORATORS)
            report(decorator, f"the decorator `{name or node_name(decorator)}`", hint)
        elif called and isinstance(decorator, ast.Call):
            _jit_keywords(decorator, names, report)


def _jit_keywords(node: ast.Call, names: set[str], report: Report) -> None:
    for argument in node.args:
        report(argument, "a positional argument of @triton.jit", _DECORATORS)
    for keyword in node.keywords:
        value = keyword.value
        listed = isinstance(value, ast.List | ast.Tuple) and all(
            isinstance(e, ast.Constant) and (e.value in names or type(e.value) is int)
            for e in value.elts
        )
        flag = isinstance(value, ast.Constant) and type(value.value) is bool
        allowed = flag if keyword.arg == "noinline" else listed
        if keyword.arg not in tables.JIT_DECORATOR_KEYWORDS or not allowed:
            report(keyword, f"`{keyword.arg}` of @triton.jit", _DECORATORS)
