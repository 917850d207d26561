"""What flows into what in a TTIR module: through loops, branches, regions and calls."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kernelsmith.devices.cpu.ttir import Block, Module, Op, Value
from kernelsmith.devices.cpu.ttir_branch import targets

FOLDS = ("tt.reduce", "tt.scan")
RETURNS = ("tt.reduce.return", "tt.scan.return", "tt.map_elementwise.return")


@dataclass(slots=True)
class Graph:
    """``steps``: ops and merges in the order in which values come to be; a merge is a value that
    takes whatever flows to it (``merges``): a block argument, a result of a loop or a branch.
    ``carried``: arguments that a loop hands to its next turn. ``inside``: the reduction or scan
    whose region an argument belongs to. ``made``: the op behind each other value."""

    steps: list[Op | Value] = field(default_factory=list)
    merges: dict[Value, list[Value]] = field(default_factory=dict)
    carried: set[Value] = field(default_factory=set)
    inside: dict[Value, Op] = field(default_factory=dict)
    made: dict[Value, Op] = field(default_factory=dict)

    def into(self, value: Value) -> Sequence[Value]:
        """The values that one is made of, directly."""
        if value in self.merges:
            return self.merges[value]
        op = self.made.get(value)
        return () if op is None else op.operands

    def merge(self, values: Iterable[Value], *sources: Iterable[Value]) -> None:
        """Each value takes the source of its place in every row of sources."""
        for value, *flows in zip(values, *sources, strict=True):
            self.merges.setdefault(value, []).extend(flows)


def graph_of(module: Module) -> Graph:
    """The graph of a module; calls are merged over their sites."""
    graph = Graph()
    callees = list(module.callees.values())
    returns = {f.name: _returned(f.blocks) for f in callees}
    for function in (*callees, module.kernel):
        if function is not module.kernel:
            graph.steps += function.args
            graph.merge(function.args)
        _blocks(graph, module, returns, function.blocks)
    return graph


def _returned(blocks: Iterable[Block]) -> list[Op]:
    return [block.ops[-1] for block in blocks if block.ops and block.ops[-1].name == "tt.return"]


def _blocks(
    graph: Graph, module: Module, returns: dict[str, list[Op]], blocks: Sequence[Block]
) -> None:
    labels = {block.label: block for block in blocks}
    for block in blocks:
        graph.steps += block.args
        graph.merge(block.args)
        for op in block.ops:
            for label, passed in targets(op):
                graph.merge(labels[label].args, passed)
            _op(graph, module, returns, op)


def _op(graph: Graph, module: Module, returns: dict[str, list[Op]], op: Op) -> None:
    if op.name == "scf.for":
        body = op.regions[0]
        graph.merge(body.args[1:], op.operands[3:], body.ops[-1].operands)
        graph.merges[body.args[0]] = list(op.operands[:3])
        graph.carried.update(body.args[1:])
    elif op.name == "scf.while":
        before, after = op.regions
        graph.merge(before.args, op.operands, after.ops[-1].operands)
        graph.merge(after.args, before.ops[-1].operands[1:])
        graph.carried.update(before.args)
    elif op.name in FOLDS or op.name == "tt.map_elementwise":
        for number, arg in enumerate(op.regions[0].args):
            one = op.operands[number % len(op.operands)]
            graph.merges[arg] = [one] if op.name in FOLDS else list(op.operands)
            graph.inside[arg] = op
    elif op.name == "tt.call":
        name = str(op.attrs["callee"])
        graph.merge(module.callees[name].args, op.operands)
    _blocks(graph, module, returns, op.regions)
    _results(graph, returns, op)


def _results(graph: Graph, returns: dict[str, list[Op]], op: Op) -> None:
    """Results that other values flow to; those of any other op are made by it."""
    results = op.results
    if op.name == "scf.for":
        graph.merge(results, op.operands[3:], op.regions[0].ops[-1].operands)
    elif op.name == "scf.while":
        graph.merge(results, op.regions[0].ops[-1].operands[1:])
    elif op.name == "scf.if" and results:
        graph.merge(results, *(region.ops[-1].operands for region in op.regions))
    elif op.name == "tt.call":
        graph.merge(results, *(one.operands for one in returns[str(op.attrs["callee"])]))
    elif op.name == "tt.map_elementwise":
        told = [v for b in op.regions for v in b.ops[-1].operands if b.ops[-1].name in RETURNS]
        for result in results:
            graph.merges[result] = list(told)
    else:
        graph.made.update(dict.fromkeys(results, op))
        graph.steps.append(op)
        return
    graph.steps.append(op)
    graph.steps += results
