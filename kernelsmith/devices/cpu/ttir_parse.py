"""Parser of TTIR text as Triton 3.6.0, 3.7.1 and 3.9.0 print it.

The printer puts one operation on a line, with regions opened by ``{`` or ``({`` at the end of the
line, so the parser walks lines. It understands the text with or without ``loc(...)`` suffixes and
refuses, by op name and source line, whatever is not on the op list of :mod:`ttir_ops`.
"""

import re
from dataclasses import dataclass, field

from kernelsmith.devices.cpu.ttir import Block, Function, Module, Op, Ty, Value
from kernelsmith.devices.cpu.ttir_libdevice import own_op
from kernelsmith.devices.cpu.ttir_ops import KNOWN_OPS, refuse
from kernelsmith.devices.cpu.ttir_text import (
    logical_lines,
    parse_type,
    source_line,
    split_top,
    strip_loc,
    type_colon,
    unwrap,
)
from kernelsmith.errors import CompileError

_NAME = re.compile(r"%[\w.$#-]+")
_TERMINATORS = ("scf.yield", "scf.condition")
_INT_ATTR = re.compile(r"(\w+) = (-?\d+) : i\d+")
_ARRAY_ATTR = re.compile(r"(\w+) = array<i(?:32|64): ([-\d, ]*)>")
_WORD_ATTR = re.compile(r"(\w+) = (\w+)(?=[,\s}>]|$)")
_RESULTS = re.compile(r"^((?:%[\w.$-]+(?::\d+)?(?:, )?)+) = (.*)$", re.S)
_FUNC = re.compile(r'^tt\.func (public |private )?@("[^"]*"|[\w.$-]+)')
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_CALLEE = re.compile(r'^@("[^"]*"|[\w.$-]+)')


@dataclass(slots=True)
class _Cursor:
    """Lines still to parse, the values in scope, the location aliases."""

    lines: list[str]
    locs: dict[str, str]
    at: int = 0
    scopes: list[dict[str, Value]] = field(default_factory=list)

    def peek(self) -> str:
        return self.lines[self.at]

    def take(self) -> str:
        self.at += 1
        return self.lines[self.at - 1]

    def define(self, name: str, ty: Ty) -> Value:
        value = Value(name, ty)
        self.scopes[-1][name] = value
        return value

    def use(self, name: str) -> Value:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise CompileError(f"TTIR uses {name} before it is defined", op="module")


def parse(text: str) -> Module:
    """Parses a module.

    Raises:
        CompileError: an op, type or form that this device does not lower; names op and line.
    """
    cursor = _Cursor(*logical_lines(text))
    functions: list[Function] = []
    while cursor.at < len(cursor.lines):
        line, _ = strip_loc(cursor.take())
        if line.startswith("tt.func"):
            functions.append(_function(cursor, line))
        elif not (line.startswith(("module", "#", "}", "builtin.module"))):
            raise CompileError(f"unexpected line in TTIR: {line[:120]}", op="module")
    public = [f for f in functions if f.public]
    if len(public) != 1:
        raise CompileError(f"expected one public tt.func, found {len(public)}", op="tt.func")
    return Module(public[0], {f.name: f for f in functions if not f.public})


def _function(cursor: _Cursor, line: str) -> Function:
    found = _FUNC.match(line)
    if not found:
        raise CompileError(f"cannot read function header: {line[:120]}", op="tt.func")
    cursor.scopes = [{}]
    args = []
    start = found.end()
    depth, end = 0, start
    for end in range(start, len(line)):
        depth += {"(": 1, ")": -1}.get(line[end], 0)
        if depth == 0:
            break
    for part in split_top(line[start + 1 : end]):
        name, ty = part.split(": ", 1)
        args.append(cursor.define(name, parse_type(ty.split(" {")[0])))
    blocks = _blocks(cursor)
    cursor.take()
    name = found.group(2).strip('"')
    return Function(name, found.group(1) != "private ", tuple(args), blocks)


def _blocks(cursor: _Cursor) -> tuple[Block, ...]:
    """Blocks of a function up to (not including) its closing brace."""
    blocks = []
    args: tuple[Value, ...] = ()
    label = ""
    while True:
        ops = _ops(cursor)
        blocks.append(Block(args, ops, label))
        line, _ = strip_loc(cursor.peek())
        if not line.startswith("^"):
            return tuple(blocks)
        cursor.take()
        label, args = _block_header(cursor, line)


def _block_header(cursor: _Cursor, line: str) -> tuple[str, tuple[Value, ...]]:
    line = line.split("  //")[0].rstrip()
    label = re.match(r"\^[\w.$-]+", line)
    assert label is not None
    inside = line[label.end() :].rstrip(":").strip()
    args = []
    for part in split_top(inside[1:-1]) if inside else []:
        name, ty = part.split(": ", 1)
        args.append(cursor.define(name, parse_type(ty)))
    return label.group(0), tuple(args)


def _ops(cursor: _Cursor) -> tuple[Op, ...]:
    """Ops up to a line that closes the region or opens a block."""
    ops = []
    while not cursor.peek().startswith(("}", "^")):
        ops.append(_op(cursor))
    return tuple(ops)


def _region(cursor: _Cursor, args: list[tuple[str, Ty]]) -> Block:
    """A single-block region with the given arguments, or with those of its ``^bb0`` header."""
    cursor.scopes.append({})
    values = tuple(cursor.define(name, ty) for name, ty in args)
    if cursor.peek().startswith("^"):
        _, values = _block_header(cursor, strip_loc(cursor.take())[0])
    ops = _ops(cursor)
    cursor.scopes.pop()
    if cursor.peek().startswith("^"):
        raise CompileError("branches inside a region are not supported", op="cf.br")
    if not ops or ops[-1].name not in _TERMINATORS:
        ops = (*ops, Op("scf.yield", (), ()))  # the printer leaves an empty yield out
    return Block(values, ops)


def _op(cursor: _Cursor) -> Op:
    line, loc = strip_loc(cursor.take())
    names: list[str] = []
    found = _RESULTS.match(line)
    if found:
        names, line = [n.strip() for n in found.group(1).split(",")], found.group(2)
    name, _, rest = line.partition(" ")
    if name.startswith('"'):
        name, _, tail = line[1:].partition('"')
        rest = tail
    if "(" in name:  # scf.condition(%c) %x, %y
        name, _, first = name.partition("(")
        rest = f"{first.rstrip(')')} {rest}"
    where = source_line(loc or _closing_loc(cursor, line), cursor.locs)
    if name == "tt.extern_elementwise":
        name = own_op(rest, where)
    if name not in KNOWN_OPS:
        raise refuse(name, where)
    if name in _REGION_OPS:
        return _REGION_OPS[name](cursor, name, rest, names, where)
    operands, attrs, types = _plain(cursor, name, rest)
    results = _results(cursor, names, _result_types(name, types, operands, len(names)))
    return Op(name, operands, results, attrs, (), where)


def _closing_loc(cursor: _Cursor, line: str) -> str:
    """The location of an op with regions, which the printer puts behind its last brace."""
    depth, at = int(line.endswith("{")), cursor.at
    while depth and at < len(cursor.lines):
        text, loc = strip_loc(cursor.lines[at])
        depth += text.endswith("{") - text.startswith("}")
        if depth == 0:
            return loc
        at += 1
    return ""


def _results(cursor: _Cursor, names: list[str], types: list[Ty]) -> tuple[Value, ...]:
    """Defines results; ``%3:2`` names two values ``%3#0`` and ``%3#1``."""
    flat: list[str] = []
    for name in names:
        base, _, count = name.partition(":")
        flat += [f"{base}#{i}" for i in range(int(count))] if count else [base]
    if len(flat) != len(types):
        raise CompileError(f"{len(flat)} results but {len(types)} types", op="module")
    return tuple(cursor.define(n, t) for n, t in zip(flat, types, strict=True))


def _plain(
    cursor: _Cursor, name: str, rest: str
) -> tuple[tuple[Value, ...], dict[str, object], list[str]]:
    """Operands, attributes and type texts of an op without regions."""
    head, types = rest, ""
    cut = type_colon(rest)
    if cut >= 0:
        head, types = rest[:cut], rest[cut + 1 :].strip()
    if name == "tt.print":  # prefix and attributes, a colon, operands, a colon, types
        listed, _, types = types.partition(":")
        head = f"{head} : {listed}"
    attrs: dict[str, object] = {"head": head.strip()}
    attrs.update(dict(_WORD_ATTR.findall(head)))
    attrs.update({k: int(v) for k, v in _INT_ATTR.findall(head)})
    for key, items in _ARRAY_ATTR.findall(head):
        attrs[key] = tuple(int(i) for i in items.split(",") if i.strip())
    if name == "arith.constant":
        attrs["value"] = head.strip()
        return (), attrs, [types or "i1"]
    if name == "tt.call":
        callee = _CALLEE.match(head)
        assert callee is not None
        attrs["callee"], head = callee.group(1).strip('"'), head[callee.end() :]
    listed = _QUOTED.sub("", head)
    if name == "tt.print":
        listed = listed.rpartition(" : ")[2]
    operands = tuple(cursor.use(n) for n in _NAME.findall(listed.split(" {")[0]))
    return operands, attrs, [t.strip() for t in re.split(r" -> | to ", types)] if types else []


def _result_types(name: str, types: list[str], operands: tuple[Value, ...], count: int) -> list[Ty]:
    if count == 0:
        return []
    if name == "tt.load":
        pointer = operands[0].ty
        return [Ty(pointer.pointee, pointer.shape)]
    if name in ("arith.cmpi", "arith.cmpf"):
        return [Ty("i1", operands[0].ty.shape)]
    if name == "arith.select":
        return [operands[1].ty]
    if name == "tt.addptr":
        return [operands[0].ty]
    if name == "tt.unsplat":
        return [Ty(operands[0].ty.elem, (), operands[0].ty.pointee)]
    if name == "tt.split":
        return [parse_type(types[-1])] * 2
    if name == "tt.call":
        return [parse_type(t) for t in split_top(unwrap(types[-1]))]
    return [parse_type(types[-1])] * count


def _for(cursor: _Cursor, name: str, rest: str, names: list[str], where: str) -> Op:
    found = re.match(
        r"(unsigned )?(%[\w.$-]+) = (%[\w.$#-]+) to (%[\w.$#-]+) step (%[\w.$#-]+)(.*)\{$", rest
    )
    if not found:
        raise CompileError(f"cannot read scf.for: {rest[:120]}", op=name, line=where)
    tail = found.group(6)
    pairs = re.search(r"iter_args\((.*?)\) -> \((.*)\)", tail)
    carried: list[tuple[str, Value]] = []
    types: list[Ty] = []
    if pairs:
        for part in split_top(pairs.group(1)):
            arg, _, init = part.partition(" = ")
            carried.append((arg, cursor.use(init)))
        types = [parse_type(t) for t in split_top(pairs.group(2))]
    bounds = tuple(cursor.use(found.group(i)) for i in (3, 4, 5))
    args = [(found.group(2), bounds[0].ty)]
    args += [(arg, ty) for (arg, _), ty in zip(carried, types, strict=True)]
    body = _region(cursor, args)
    cursor.take()
    results = _results(cursor, names, types)
    operands = (*bounds, *(init for _, init in carried))
    attrs: dict[str, object] = {"unsigned": found.group(1) is not None}
    return Op(name, operands, results, attrs, (body,), where)


def _if(cursor: _Cursor, name: str, rest: str, names: list[str], where: str) -> Op:
    condition = cursor.use(_NAME.findall(rest)[0])
    types: list[Ty] = []
    if " -> " in rest:
        types = [parse_type(t) for t in split_top(unwrap(rest.split(" -> ")[1].rstrip("{ ")))]
    regions = [_region(cursor, [])]
    line, _ = strip_loc(cursor.take())
    if line.startswith("} else {"):
        regions.append(_region(cursor, []))
        cursor.take()
    return Op(name, (condition,), _results(cursor, names, types), {}, tuple(regions), where)


def _while(cursor: _Cursor, name: str, rest: str, names: list[str], where: str) -> Op:
    inside, _, types_text = f" {rest}".rstrip("{ ").partition(" : ")
    carried = [part.partition(" = ") for part in split_top(unwrap(inside))]
    inits = tuple(cursor.use(init) for _, _, init in carried)
    ins, _, outs = types_text.partition(" -> ")
    in_types = [parse_type(t) for t in split_top(unwrap(ins))]
    before = _region(cursor, [(arg, ty) for (arg, _, _), ty in zip(carried, in_types, strict=True)])
    cursor.take()
    after = _region(cursor, [])
    cursor.take()
    results = _results(cursor, names, [parse_type(t) for t in split_top(unwrap(outs))])
    return Op(name, inits, results, {}, (before, after), where)


def _generic(cursor: _Cursor, name: str, rest: str, names: list[str], where: str) -> Op:
    """``"tt.reduce"(%a, %b) <{axis = 0 : i32}> ({`` ... ``}) : (types) -> types``.

    The op has one region, of one or more blocks: these are its ``regions``."""
    operands = tuple(cursor.use(n) for n in _NAME.findall(rest.split(")")[0]))
    attrs: dict[str, object] = {k: int(v) for k, v in _INT_ATTR.findall(rest)}
    attrs.update({k: v == "true" for k, v in re.findall(r"(\w+) = (true|false)", rest)})
    attrs.update(dict(re.findall(r'(\w+) = "(\w*)"', rest)))
    cursor.scopes.append({})
    blocks = []
    while cursor.peek().startswith("^"):
        label, args = _block_header(cursor, strip_loc(cursor.take())[0])
        blocks.append(Block(args, _ops(cursor), label))
    cursor.scopes.pop()
    line, _ = strip_loc(cursor.take())
    outs = line[line.rindex(" -> ") + 4 :]
    results = _results(cursor, names, [parse_type(t) for t in split_top(unwrap(outs))])
    return Op(name, operands, results, attrs, tuple(blocks), where)


_REGION_OPS = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
    "tt.reduce": _generic,
    "tt.scan": _generic,
    "tt.map_elementwise": _generic,
}
