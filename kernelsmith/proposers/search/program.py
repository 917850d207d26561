"""What the search sees in a source: kernels, launches, and how constants bound dimensions.

Everything is read from syntax; a source that does not have the shape a rewrite needs simply offers
fewer knobs. Nothing is imported or run.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_REDUCTIONS = ("tree_sum", "tl.sum", "tl.reduce", "tl.softmax", "tl.cumsum", "tl.associative_scan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A jit function. ``tiles`` maps a constexpr that is the length of a ``tl.arange`` to the
    parameter that the range is masked by (BLOCK_M -> m_size), or to "" if there is none;
    ``reduces`` tells whether it sums within a tile, so that tile lengths decide bits."""

    name: str
    params: tuple[str, ...]
    constexprs: frozenset[str]
    tiles: dict[str, str]
    reduces: bool
    tree: ast.FunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch statement, the ``index``-th of the module in order of text.

    ``arguments`` are texts by kernel parameter; ``constants`` the integers passed to constexprs;
    ``grid`` the texts of the grid's elements with locals that stand for sizes written out, empty
    when it is not a tuple; ``dims`` the names of sizes among arguments and grid, ``rows`` the one
    that counts tokens ("" when unknown).
    """

    index: int
    function: str
    kernel: str
    arguments: dict[str, str]
    constants: dict[str, int]
    options: dict[str, int]
    grid: tuple[str, ...]
    dims: tuple[str, ...]
    rows: str
    site: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A parsed candidate."""

    source: str
    kernels: dict[str, Kernel]
    launches: tuple[Launch, ...]

    @property
    def sites(self) -> dict[str, tuple[Launch, ...]]:
        """Launches of one kernel over the same dimensions with the same constants belong
        together: a rewrite of training's launch is one of inference's as well."""
        groups: dict[str, list[Launch]] = {}
        for launch in self.launches:
            groups.setdefault(launch.site, []).append(launch)
        return {site: tuple(launches) for site, launches in groups.items()}


def read(source: str, token_arguments: frozenset[str] = frozenset({"x"})) -> Program | None:
    """The program in ``source``, or None if it does not parse. ``token_arguments`` are the entry
    arguments whose first dimension counts tokens."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    kernels = {f.name: _kernel(f) for f in functions if _is_jit(f)}
    numbers = _module_numbers(tree)
    launches: list[Launch] = []
    for function in functions:
        if function.name not in kernels:
            known = _Known(values=numbers, token_arguments=token_arguments)
            launches += _launches(function, kernels, known, len(launches))
    return Program(source=source, kernels=kernels, launches=tuple(launches))


def _is_jit(node: ast.FunctionDef) -> bool:
    return any("triton.jit" in ast.unparse(d) for d in node.decorator_list)


def _kernel(node: ast.FunctionDef) -> Kernel:
    args = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    constexprs = frozenset(
        a.arg
        for a in args
        if a.annotation is not None and ast.unparse(a.annotation) == "tl.constexpr"
    )
    calls = {ast.unparse(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
    return Kernel(
        name=node.name,
        params=tuple(a.arg for a in args),
        constexprs=constexprs,
        tiles=_tiles(node, {a.arg for a in args} - constexprs, constexprs),
        reduces=any(name in calls for name in _REDUCTIONS),
        tree=node,
    )


def _tiles(node: ast.FunctionDef, params: set[str], constexprs: frozenset[str]) -> dict[str, str]:
    """Constexprs that are lengths of ranges, with the parameter each range is compared to."""
    lengths: dict[str, set[str]] = {}
    tiles: dict[str, str] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "tl.arange":
            for name in _names(inner):
                if name in constexprs:
                    tiles.setdefault(name, "")
        if isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Name):
            target = inner.targets[0].id
            found = lengths.setdefault(target, set())
            for call in ast.walk(inner.value):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "tl.arange":
                    found.update(name for name in _names(call) if name in constexprs)
            for name in _names(inner.value):
                found.update(lengths.get(name, ()))
    for inner in ast.walk(node):
        if isinstance(inner, ast.Compare) and isinstance(inner.ops[0], ast.Lt):
            left, right = inner.left, inner.comparators[0]
            if isinstance(left, ast.Subscript):  # rows[:, None] < m_size
                left = left.value
            if isinstance(left, ast.Name) and isinstance(right, ast.Name) and right.id in params:
                found = lengths.get(left.id, set())
                if len(found) == 1:
                    tiles[next(iter(found))] = right.id
    return tiles


def _names(node: ast.AST) -> list[str]:
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]


def _module_numbers(tree: ast.Module) -> dict[str, ast.expr]:
    numbers: dict[str, ast.expr] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            numbers[node.targets[0].id] = node.value
    return numbers


def _single_assignments(node: ast.FunctionDef) -> dict[str, ast.expr]:
    """Names that the function binds exactly once, by a plain assignment."""
    counts: dict[str, int] = {}
    values: dict[str, ast.expr] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            counts[inner.id] = counts.get(inner.id, 0) + 1
        if isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Name):
            values[inner.targets[0].id] = inner.value
    return {name: value for name, value in values.items() if counts[name] == 1}


def launch_calls(body: list[ast.stmt], kernels: dict[str, Kernel]) -> Iterator[ast.Call]:
    """Launch statements in order of text."""
    for statement in body:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Subscript(value=ast.Name(id=name))) as call):
                if name in kernels:
                    yield call
            case ast.If() | ast.For():
                yield from launch_calls(statement.body, kernels)
                yield from launch_calls(statement.orelse, kernels)


def _launches(
    node: ast.FunctionDef, kernels: dict[str, Kernel], known: "_Known", first: int
) -> list[Launch]:
    values = {**known.values, **_single_assignments(node)}
    known = _Known(values=values, token_arguments=known.token_arguments)
    launches = []
    for index, call in enumerate(launch_calls(node.body, kernels), start=first):
        assert isinstance(call.func, ast.Subscript)
        kernel = kernels[ast.unparse(call.func.value)]
        launches.append(_launch(index, node.name, call, kernel, known))
    return launches


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    values: dict[str, ast.expr]
    token_arguments: frozenset[str]


def _launch(index: int, function: str, call: ast.Call, kernel: Kernel, known: _Known) -> Launch:
    assert isinstance(call.func, ast.Subscript)
    values = known.values
    bound = dict(zip(kernel.params, call.args, strict=False))
    bound.update({k.arg: k.value for k in call.keywords if k.arg and k.arg in kernel.params})
    options = {
        k.arg: number
        for k in call.keywords
        if k.arg in OPTIONS and (number := _number(k.value, values)) is not None
    }
    constants = {
        name: number
        for name, value in bound.items()
        if name in kernel.constexprs and (number := _number(value, values)) is not None
    }
    arguments = {name: ast.unparse(value) for name, value in bound.items()}
    grid = _grid(call.func.slice, values)
    dims = _dims(arguments, grid, values)
    tokens = [d for d in dims if _counts_tokens(values[d], known.token_arguments)]
    sizes = [arguments.get(p, "") for p in dict.fromkeys(kernel.tiles.values()) if p]
    tiled = [str(constants[c]) for c in kernel.tiles if c in constants]
    site = f"{kernel.name}({','.join(s.replace(' ', '') for s in sizes)})[{','.join(tiled)}]"
    return Launch(
        index=index,
        function=function,
        kernel=kernel.name,
        arguments=arguments,
        constants=constants,
        options=options,
        grid=grid,
        dims=dims,
        rows=tokens[0] if tokens else "",
        site=site,
    )


def _number(node: ast.expr, values: dict[str, ast.expr]) -> int | None:
    if isinstance(node, ast.Name) and node.id in values:
        node = values[node.id]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None


def _grid(node: ast.expr, values: dict[str, ast.expr]) -> tuple[str, ...]:
    if isinstance(node, ast.Name) and node.id in values:
        node = values[node.id]
    if not isinstance(node, ast.Tuple):
        return ()
    return tuple(ast.unparse(_expanded(e, values, 0)) for e in node.elts)


def _expanded(node: ast.expr, values: dict[str, ast.expr], depth: int) -> ast.expr:
    """``node`` with locals that stand for arithmetic or literals written out; sizes read from a
    tensor (``x.shape[0]``) keep their names."""
    if isinstance(node, ast.Name) and node.id in values and depth < 8:
        value = values[node.id]
        if not isinstance(value, ast.Subscript | ast.Attribute | ast.Lambda | ast.Name):
            return _expanded(value, values, depth + 1)
    if isinstance(node, ast.BinOp):
        left, right = (_expanded(n, values, depth) for n in (node.left, node.right))
        return ast.BinOp(left=left, op=node.op, right=right)
    if isinstance(node, ast.Call):
        args = [_expanded(a, values, depth) for a in node.args]
        return ast.Call(func=node.func, args=args, keywords=node.keywords)
    return node


def _dims(
    arguments: dict[str, str], grid: tuple[str, ...], values: dict[str, ast.expr]
) -> tuple[str, ...]:
    """Names of sizes that the launch depends on, in order of appearance."""
    found: dict[str, None] = {}
    for text in (*arguments.values(), *grid):
        for name in _names(ast.parse(text, mode="eval")):
            value = values.get(name)
            if value is not None and ".shape[" in ast.unparse(value):
                found[name] = None
    return tuple(found)


def _counts_tokens(value: ast.expr, token_arguments: frozenset[str]) -> bool:
    text = ast.unparse(value)
    return text.endswith(".shape[0]") and text.removesuffix(".shape[0]") in token_arguments
