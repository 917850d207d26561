"""Atomic memory operations: read-modify-write, compare-and-swap, load, store, poll.

They are atomic between the threads that programs run on, with the ordering that the op names
(``relaxed`` is LLVM's monotonic); scopes are all the whole machine. The elements of one op run in
row-major order, one after another, each returning what it found. A masked-off element touches no
memory and returns 0. ``fadd`` adds as :mod:`lower_float` does: rounded once, 16-bit floats through
float32, a NaN result canonical. Float ``max`` and ``min`` are integer ops in Triton's front end.
"""

from kernelsmith.devices.cpu import lower_elementwise
from kernelsmith.devices.cpu import lower_float as fl
from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.codegen_text import Emitter, Stream
from kernelsmith.devices.cpu.lower_evaluate import evaluate, write_buffer
from kernelsmith.devices.cpu.lower_forms import Form, as_vector, llvm, vec
from kernelsmith.devices.cpu.lower_memory import lane_pointers
from kernelsmith.devices.cpu.lower_nest import lane_axis, over
from kernelsmith.devices.cpu.lower_state import Context, Lowering, Scalar
from kernelsmith.devices.cpu.ttir import BITS, FLOATS, Op
from kernelsmith.devices.cpu.ttir_ops import refuse
from kernelsmith.errors import CompileError

_ORDERS = {
    "relaxed": "monotonic",
    "acquire": "acquire",
    "release": "release",
    "acq_rel": "acq_rel",
}
_NATIVE = {"add": "add", "and": "and", "or": "or", "xor": "xor", "exch": "xchg", "max": "max",
           "min": "min", "umax": "umax", "umin": "umin"}  # fmt: skip
_MEMORY = ("i8", "i16", "i32", "i64")


def atomic(lo: Lowering, op: Op) -> None:
    """Any ``tt.atomic_*``: runs all its elements now; the result, if any, is memory as found."""
    if op.name == "tt.atomic_poll":
        _poll(lo, op)
        return
    pointer = op.operands[0]
    result = op.results[0] if op.results else None
    used = result is not None and bool(lo.uses.get(result))
    buffer = lo.new_buffer(result.ty, False) if result and used and result.ty.shape else None

    def body(ctx: Context, index: tuple[Form, ...]) -> None:
        forms = [evaluate(lo, ctx, v, index) for v in op.operands]
        got = _vector(lo, ctx, op, forms)
        if buffer is not None and got is not None:
            write_buffer(lo, ctx, buffer, index, got)
        elif result is not None and got is not None and not result.ty.shape:
            lo.env[result] = Scalar(got)

    shape = pointer.ty.shape
    over(lo, shape, lane_axis(shape), body)
    if buffer is not None and result is not None:
        lo.env[result] = buffer


def _vector(lo: Lowering, ctx: Context, op: Op, forms: list[Form]) -> Form | None:
    """One vector of lanes, or one scalar: lane after lane. Returns what was found."""
    em, level, lanes = lo.em, lo.em.depth, ctx.lanes
    elem = op.operands[0].ty.pointee
    count = {"tt.atomic_cas": 2, "tt.atomic_load": 0}.get(op.name, 1)
    values = [_words(lo, f, elem, lanes) for f in forms[1 : 1 + count]]
    mask = forms[1 + count] if len(forms) > 1 + count else None
    if mask is not None and mask.is_const and mask.val:
        mask = None
    pointers = lane_pointers(em, lanes, forms[0], mask, level)
    t = f"i{max(8, BITS[elem])}"
    found = []
    for lane, address in enumerate(pointers):
        given = list(values) if lanes == 1 else [
            em.op(level, f"extractelement <{lanes} x {t}> {v}, i64 {lane}") for v in values
        ]  # fmt: skip
        found.append(_one(em, level, op, elem, address, given))
    if not op.results:
        return None
    word = found[0]
    many = t if lanes == 1 else f"<{lanes} x {t}>"
    if lanes > 1:
        word = "poison"
        for lane, one in enumerate(found):
            word = em.op(level, f"insertelement {many} {word}, {t} {one}, i64 {lane}")
    if mask is not None:
        bits = str(mask.val) if lanes == 1 else as_vector(em, mask, lanes)
        kind = "i1" if lanes == 1 else f"<{lanes} x i1>"
        nothing = "0" if lanes == 1 else "zeroinitializer"
        word = em.op(level, f"select {kind} {bits}, {many} {word}, {many} {nothing}")
    return _back(lo, word, elem, t, lanes, level)


def _words(lo: Lowering, form: Form, elem: str, lanes: int) -> str:
    """An operand as integers of its memory width, NaNs canonical."""
    em, level = lo.em, lo.em.depth
    form = lower_elementwise.clean(Asm(em, form.level, lanes), form, lanes)
    text = str(form.val) if lanes == 1 else as_vector(em, form, lanes)
    t = f"i{max(8, BITS[elem])}"
    source = llvm(elem)
    if source == t:
        return text
    kinds = (source, t) if lanes == 1 else (f"<{lanes} x {source}>", f"<{lanes} x {t}>")
    cast = {"i1": "zext", "ptr": "ptrtoint"}.get(source, "bitcast")
    return em.op(level, f"{cast} {kinds[0]} {text} to {kinds[1]}")


def _back(lo: Lowering, word: str, elem: str, t: str, lanes: int, level: int) -> Form:
    """Integers of memory width as a form of the element type."""
    target = llvm(elem)
    kind = "U" if lanes == 1 else "V"
    if target != t:
        kinds = (t, target) if lanes == 1 else (f"<{lanes} x {t}>", vec(elem, lanes))
        cast = {"i1": "trunc", "ptr": "inttoptr"}.get(target, "bitcast")
        word = lo.em.op(level, f"{cast} {kinds[0]} {word} to {kinds[1]}")
    return Form(kind, elem, word, level)


def _one(em: Emitter, level: int, op: Op, elem: str, address: str, values: list[str]) -> str:
    """One atomic access of one address."""
    words = [w.strip(" ,") for w in str(op.attrs["head"]).split()[:3]]
    order = next((_ORDERS[w] for w in words if w in _ORDERS), "acq_rel")
    t = f"i{max(8, BITS[elem])}"
    align = f"align {max(1, BITS[elem] // 8)}"
    if op.name == "tt.atomic_cas":
        failed = "acquire" if order in ("acquire", "acq_rel") else "monotonic"
        text = f"cmpxchg ptr {address}, {t} {values[0]}, {t} {values[1]} {order} {failed}, {align}"
        return em.op(level, f"extractvalue {{ {t}, i1 }} {em.op(level, text)}, 0")
    if op.name == "tt.atomic_load":
        return em.op(level, f"load atomic {t}, ptr {address} {order}, {align}")
    if op.name == "tt.atomic_store":
        em.do(level, f"store atomic {t} {values[0]}, ptr {address} {order}, {align}")
        return ""
    kind = words[0]
    if kind == "fadd":
        name = _float_add(em, elem, order)
        return em.op(level, f"call fastcc {t} @{name}(ptr {address}, {t} {values[0]})")
    if kind not in _NATIVE or t not in _MEMORY:
        raise refuse(f"{op.name} {kind}", op.line)
    return em.op(
        level, f"atomicrmw {_NATIVE[kind]} ptr {address}, {t} {values[0]} {order}, {align}"
    )


def _float_add(em: Emitter, elem: str, order: str) -> str:
    """An internal function that adds to memory and returns what was there: a loop of
    compare-and-swap around the device's own addition."""
    name = f"atomic.fadd.{elem}.{order}"
    if name in em.functions:
        return name
    if elem not in FLOATS:
        raise CompileError(f"a float atomic on {elem}", op="tt.atomic_rmw")
    t = f"i{BITS[elem]}"
    # The formulas are emitted into a stream of their own, which becomes the function's loop.
    body = Emitter(em.features, [Stream()], em.declarations, em.functions, em.counter)
    s = Asm(body, 0, 0)
    compute = fl.compute_type(elem)
    operands = []
    for word in ("%old", "%by"):
        value = word if llvm(elem) == t else s.cast("bitcast", t, word, llvm(elem))
        operands.append(fl.to_float(s, elem, value))
    total = fl.from_float(s, elem, s.bin("fadd", compute, *operands))
    total = fl.canonical(s, elem, total)
    new = total if llvm(elem) == t else s.cast("bitcast", llvm(elem), total, t)
    em.counter = body.counter
    failed = "acquire" if order in ("acquire", "acq_rel") else "monotonic"
    size = BITS[elem] // 8
    lines = [
        f"define internal fastcc {t} @{name}(ptr %p, {t} %by) noinline #0 {{",
        "entry:",
        f"  %first = load atomic {t}, ptr %p monotonic, align {size}",
        "  br label %again",
        "again:",
        f"  %old = phi {t} [%first, %entry], [%seen, %again]",
        *body.streams[0].lines,
        f"  %pair = cmpxchg ptr %p, {t} %old, {t} {new} {order} {failed}, align {size}",
        f"  %seen = extractvalue {{ {t}, i1 }} %pair, 0",
        f"  %done = extractvalue {{ {t}, i1 }} %pair, 1",
        "  br i1 %done, label %out, label %again",
        "out:",
        f"  ret {t} %old",
        "}",
    ]
    em.functions[name] = "\n".join(lines)
    return name


def _poll(lo: Lowering, op: Op) -> None:
    """Waits until every element has its expected value; the result is then true throughout."""
    if "timeout" in str(op.attrs["head"]):
        raise CompileError(
            "tt.atomic_poll with a timeout is not lowered on the cpu device",
            op=op.name,
            line=op.line,
            hint="what it returns depends on the clock; poll without timeout_ns",
        )
    elem = op.operands[0].ty.pointee
    em = lo.em
    em.declare("llvm.x86.sse2.pause", "void @llvm.x86.sse2.pause()")

    def body(ctx: Context, index: tuple[Form, ...]) -> None:
        pointer, expected = (evaluate(lo, ctx, v, index) for v in op.operands)
        level = em.depth
        t = llvm(elem)
        name = em.fresh("poll")
        em.do(level, f"br label %{name}")
        em.block(level, name)
        seen = _one(em, level, Op("tt.atomic_load", (), (), op.attrs), elem, str(pointer.val), [])
        same = em.op(level, f"icmp eq {t} {seen}, {expected.val}")
        em.do(level, f"br i1 {same}, label %{name}.end, label %{name}.wait")
        em.block(level, f"{name}.wait")
        em.do(level, "call void @llvm.x86.sse2.pause()")
        em.do(level, f"br label %{name}")
        em.block(level, f"{name}.end")

    shape = op.operands[0].ty.shape
    over(lo, shape, lane_axis(shape), body, lanes=1)
    lo.env[op.results[0]] = Scalar(Form("U", "i1", 1, 0))
