"""TTIR of jit kernels and what it says, without a gate."""

from typing import Any

from kernelsmith.devices.cpu.emit import cpu_backend, emit_ttir
from kernelsmith.devices.cpu.ttir_parse import parse
from kernelsmith.gate.witness import flow, graph, rules


def text_of(kernel: Any, types: str = "", **constants: Any) -> str:
    """What the front end prints of a kernel; ``types`` of its arguments, all ``*fp32`` by default,
    those that are constants left out."""
    names = [name for name in kernel.arg_names if name not in constants]
    given = types.split() or ["*fp32"] * len(names)
    signature = dict.fromkeys(kernel.arg_names, "constexpr")
    signature |= dict(zip(names, given, strict=True))
    backend = cpu_backend()
    paths = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    return emit_ttir(kernel, signature, paths, {}, backend.parse_options({}))


def decided(text: str, floats: tuple[bool, ...] | None = None) -> list[rules.Decision]:
    """What the kernel lets loaded floats decide; ``floats``: of each argument, whether what lies
    there hangs on floats, by default as its type says."""
    module = parse(text)
    args = module.kernel.args
    params = [
        flow.Param(
            buffer=number,
            floats=floats[number] if floats else not arg.ty.pointee.startswith("i"),
        )
        if arg.ty.elem == "ptr"
        else None
        for number, arg in enumerate(args)
    ]
    return rules.decisions(flow.run(graph.graph_of(module), args, params))
