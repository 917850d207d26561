"""The op list: every TTIR op that the CPU device lowers, and why others are refused."""

from kernelsmith.errors import CompileError


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


BINARY_INT = _names(
    "arith.addi arith.subi arith.muli arith.divsi arith.divui arith.remsi arith.remui "
    "arith.andi arith.ori arith.xori arith.shli arith.shrsi arith.shrui arith.maxsi "
    "arith.maxui arith.minsi arith.minui arith.ceildivsi arith.floordivsi arith.ceildivui "
    "tt.mulhiui"
)
BINARY_FLOAT = _names(
    "arith.addf arith.subf arith.mulf arith.divf arith.remf tt.precise_divf "
    "arith.maxnumf arith.minnumf arith.maximumf arith.minimumf math.copysign math.powf"
)
UNARY_FLOAT = _names(
    "arith.negf math.absf math.exp math.exp2 math.log math.log2 math.sqrt math.rsqrt "
    "tt.precise_sqrt math.floor math.ceil math.sin math.cos math.erf math.tanh math.roundeven "
    "math.trunc"
)
CASTS = _names(
    "arith.extsi arith.extui arith.trunci arith.extf arith.truncf arith.sitofp arith.uitofp "
    "arith.fptosi arith.fptoui arith.bitcast tt.bitcast arith.index_cast tt.fp_to_fp "
    "tt.int_to_ptr tt.ptr_to_int"
)
OTHER_ELEMENTWISE = _names(
    "arith.select arith.cmpi arith.cmpf math.fma tt.clampf tt.addptr math.absi"
)
SHAPE = _names(
    "tt.splat tt.broadcast tt.expand_dims tt.reshape tt.trans tt.split tt.join tt.cat "
    "tt.make_range tt.unsplat"
)
STRUCTURE = _names(
    "arith.constant tt.get_program_id tt.get_num_programs tt.load tt.store tt.dot "
    "tt.call tt.return scf.for scf.if scf.while scf.yield scf.condition "
    "cf.br cf.cond_br ub.poison gpu.barrier ttg.barrier llvm.intr.assume"
)
#: Ops over a whole tensor: folds, scans, counts, indexing, a scalar function of each element.
COLLECTIVE = _names("tt.reduce tt.scan tt.histogram tt.gather tt.map_elementwise")
RETURNS = _names("tt.reduce.return tt.scan.return tt.map_elementwise.return")

#: Atomic memory operations. Which of them the gate lets pass: ADR 0012.
ATOMIC = _names("tt.atomic_rmw tt.atomic_cas tt.atomic_load tt.atomic_store tt.atomic_poll")
#: What a kernel says to its host.
REPORTS = _names("tt.print tt.assert")

ELEMENTWISE = frozenset([*BINARY_INT, *BINARY_FLOAT, *UNARY_FLOAT, *CASTS, *OTHER_ELEMENTWISE])
KNOWN_OPS = frozenset([*ELEMENTWISE, *SHAPE, *COLLECTIVE, *RETURNS, *STRUCTURE, *ATOMIC, *REPORTS])

_WHY = {
    "tt.elementwise_inline_asm": "inline assembly is for a GPU; write the formula in tl ops",
    "tt.dot_scaled": "apply the scales to the operands, in float32, and use tl.dot",
}


def refuse(name: str, line: str) -> CompileError:
    """The error for an op outside the list, naming op and Python source line."""
    where = f" at {line}" if line else ""
    why = _WHY.get(name, "rewrite the kernel without it")
    return CompileError(
        f"op {name}{where} is not lowered on the cpu device", op=name, line=line, hint=why
    )
