"""The observing mode's own machine code, as LLVM IR: what a note does.

Words, cells and kinds are those of :mod:`observe`; the numbers are written into the text here.
``observe.tensor`` is called for every access with the addresses of its elements; it answers which
of them may be performed. ``observe.lanes`` performs a store of several elements and looks what is
left of it. ``observe.turn`` is called at every turn of a ``while`` loop with its
condition and answers whether to go on, ``observe.beat`` at every turn of a ``for`` loop.
"""

from kernelsmith.devices.cpu import observe as o
from kernelsmith.devices.cpu.observe import word
from kernelsmith.devices.cpu.observe_cell import CELL
from kernelsmith.devices.cpu.observe_lanes import LANES_TEXT, PUT
from kernelsmith.devices.cpu.observe_turns import BEAT_TEXT, PUSH, SAME, TURN_TEXT, VALUE

TENSOR, LANES = "observe.tensor", "observe.lanes"
TURN, BEAT = "observe.turn", "observe.beat"


def functions() -> dict[str, str]:
    """Internal functions by name, in an order in which each follows what it calls."""
    return {
        "observe.report": _REPORT,
        "observe.cell": CELL,
        "observe.value": VALUE,
        "observe.push": PUSH,
        "observe.one": _ONE,
        TENSOR: _TENSOR,
        "observe.put": PUT,
        LANES: LANES_TEXT,
        "observe.same": SAME,
        TURN: TURN_TEXT,
        BEAT: BEAT_TEXT,
    }


# A finding is one entry for each (kind, site, other site): first program, other program and
# address, the lowest and the highest byte, and how many accesses.
_REPORT = f"""
define internal fastcc void @observe.report(ptr %s, i64 %kind, i64 %site, i64 %other, i64 %pid,
    i64 %opid, i64 %at, i64 %size) noinline #0 {{
entry:
  %n.p = {word(o.FOUND)}
  %n = load i64, ptr %n.p
  %end = add i64 %at, %size
  br label %head
head:
  %i = phi i64 [0, %entry], [%i.n, %next]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %look, label %new
look:
  %off = mul i64 %i, {o.FINDING_WORDS * 8}
  %off.b = add i64 %off, {o.FINDINGS * 8}
  %e = getelementptr i8, ptr %s, i64 %off.b
  %e.k = load i64, ptr %e
  %e.sp = {word(1, "%e")}
  %e.s = load i64, ptr %e.sp
  %e.op = {word(2, "%e")}
  %e.o = load i64, ptr %e.op
  %k.s = icmp eq i64 %e.k, %kind
  %s.s = icmp eq i64 %e.s, %site
  %o.s = icmp eq i64 %e.o, %other
  %ks = and i1 %k.s, %s.s
  %kso = and i1 %ks, %o.s
  br i1 %kso, label %merge, label %next
next:
  %i.n = add i64 %i, 1
  br label %head
merge:
  %low.p = {word(6, "%e")}
  %low = load i64, ptr %low.p
  %low.c = icmp ult i64 %at, %low
  %low.n = select i1 %low.c, i64 %at, i64 %low
  store i64 %low.n, ptr %low.p
  %high.p = {word(7, "%e")}
  %high = load i64, ptr %high.p
  %high.c = icmp ugt i64 %end, %high
  %high.n = select i1 %high.c, i64 %end, i64 %high
  store i64 %high.n, ptr %high.p
  %count.p = {word(8, "%e")}
  %count = load i64, ptr %count.p
  %count.n = add i64 %count, 1
  store i64 %count.n, ptr %count.p
  ret void
new:
  %room = icmp ult i64 %n, {o.FINDINGS_MAX}
  br i1 %room, label %add, label %full
full:
  %lost.p = {word(o.LOST)}
  %lost = load i64, ptr %lost.p
  %lost.n = add i64 %lost, 1
  store i64 %lost.n, ptr %lost.p
  ret void
add:
  %n.n = add i64 %n, 1
  store i64 %n.n, ptr %n.p
  %a.off = mul i64 %n, {o.FINDING_WORDS * 8}
  %a.b = add i64 %a.off, {o.FINDINGS * 8}
  %a = getelementptr i8, ptr %s, i64 %a.b
  store i64 %kind, ptr %a
  %a.1 = {word(1, "%a")}
  store i64 %site, ptr %a.1
  %a.2 = {word(2, "%a")}
  store i64 %other, ptr %a.2
  %a.3 = {word(3, "%a")}
  store i64 %pid, ptr %a.3
  %a.4 = {word(4, "%a")}
  store i64 %opid, ptr %a.4
  %a.5 = {word(5, "%a")}
  store i64 %at, ptr %a.5
  %a.6 = {word(6, "%a")}
  store i64 %at, ptr %a.6
  %a.7 = {word(7, "%a")}
  store i64 %end, ptr %a.7
  %a.8 = {word(8, "%a")}
  store i64 1, ptr %a.8
  ret void
}}"""

_ONE = f"""
define internal fastcc i1 @observe.one(ptr %s, i64 %pid, i64 %site, i64 %kind, i64 %param, i64 %at,
    i64 %size) noinline #0 {{
entry:
  %last = add i64 %at, %size
  %reads = icmp eq i64 %kind, {o.READ}
  %known = icmp sge i64 %param, 0
  br i1 %known, label %direct, label %head
direct:
  %d.off = mul i64 %param, {o.TABLE_WORDS * 8}
  %d.b = add i64 %d.off, {o.TABLE * 8}
  %d.e = getelementptr i8, ptr %s, i64 %d.b
  %d.start = load i64, ptr %d.e
  %d.ep = {word(1, "%d.e")}
  %d.end = load i64, ptr %d.ep
  %d.ge = icmp uge i64 %at, %d.start
  %d.le = icmp ule i64 %last, %d.end
  %d.in = and i1 %d.ge, %d.le
  br i1 %d.in, label %inside, label %outside
head:
  %i = phi i64 [0, %entry], [%i.n, %next]
  %n.p = {word(o.ENTRIES)}
  %n = load i64, ptr %n.p
  %more = icmp ult i64 %i, %n
  br i1 %more, label %look, label %outside
look:
  %l.off = mul i64 %i, {o.TABLE_WORDS * 8}
  %l.b = add i64 %l.off, {o.TABLE * 8}
  %l.e = getelementptr i8, ptr %s, i64 %l.b
  %l.start = load i64, ptr %l.e
  %l.ep = {word(1, "%l.e")}
  %l.end = load i64, ptr %l.ep
  %l.ge = icmp uge i64 %at, %l.start
  %l.le = icmp ule i64 %last, %l.end
  %l.in = and i1 %l.ge, %l.le
  br i1 %l.in, label %inside, label %next
next:
  %i.n = add i64 %i, 1
  br label %head
outside:
  %out.k = select i1 %reads, i64 {o.OUTSIDE_READ}, i64 {o.OUTSIDE_WRITE}
  call fastcc void @observe.report(ptr %s, i64 %out.k, i64 %site, i64 -1, i64 %pid, i64 -1,
    i64 %at, i64 %size)
  ret i1 false
inside:
  %e = phi ptr [%d.e, %direct], [%l.e, %look]
  %start = phi i64 [%d.start, %direct], [%l.start, %look]
  %cells.p = {word(2, "%e")}
  %cells = load i64, ptr %cells.p
  %bare = icmp eq i64 %cells, 0
  br i1 %bare, label %yes, label %celled
celled:
  %shift.p = {word(o.SHIFT)}
  %shift = load i64, ptr %shift.p
  %off = sub i64 %at, %start
  %grain = shl i64 1, %shift
  %low = sub i64 %grain, 1
  %both = or i64 %off, %size
  %odd = and i64 %both, %low
  %even = icmp eq i64 %odd, 0
  br i1 %even, label %walk, label %misaligned
misaligned:
  %mis.p = {word(o.MISALIGNED)}
  store i64 1, ptr %mis.p
  ret i1 true
walk:
  %first = lshr i64 %off, %shift
  %count = lshr i64 %size, %shift
  br label %cell
cell:
  %j = phi i64 [0, %walk], [%j.n, %cell]
  %ok = phi i1 [true, %walk], [%ok.n, %cell]
  %at.o = shl i64 %j, %shift
  %at.j = add i64 %at, %at.o
  %number = add i64 %first, %j
  %c.off = mul i64 %number, {o.CELL_BYTES}
  %c.at = add i64 %cells, %c.off
  %c = inttoptr i64 %c.at to ptr
  %good = call fastcc i1 @observe.cell(ptr %s, ptr %c, i64 %pid, i64 %site, i64 %kind, i64 %at.j,
    i64 %grain)
  %ok.n = and i1 %ok, %good
  %j.n = add i64 %j, 1
  %j.c = icmp ult i64 %j.n, %count
  br i1 %j.c, label %cell, label %checked
checked:
  br i1 %ok.n, label %yes, label %no
yes:
  br i1 %reads, label %done, label %push
push:
  call fastcc void @observe.push(ptr %s, i64 %at, i64 %size)
  ret i1 true
done:
  ret i1 true
no:
  ret i1 false
}}"""

_TENSOR = f"""
define internal fastcc void @observe.tensor(ptr %s, i32 %program, i64 %site, i64 %kind, i64 %param,
    i64 %size, ptr %at, ptr %mask, ptr %out, i64 %n) noinline #0 {{
entry:
  %pid = zext i32 %program to i64
  %stop = load volatile i64, ptr %s
  %runs = icmp eq i64 %stop, 0
  %all = icmp eq ptr %mask, null
  %writes = icmp eq i64 %kind, {o.WRITE}
  %quiet = xor i1 %runs, true
  %skip = or i1 %writes, %quiet
  br i1 %skip, label %head, label %last
last:
  %last.p = {word(o.LAST_SITE)}
  store i64 %site, ptr %last.p
  %place.p = {word(o.LAST_AT)}
  %place = load i64, ptr %at
  store i64 %place, ptr %place.p
  br label %head
head:
  %i = phi i64 [0, %entry], [0, %last], [%i.n, %put]
  br i1 %all, label %on, label %ask
ask:
  %m.p = getelementptr i8, ptr %mask, i64 %i
  %m = load i8, ptr %m.p
  %m.on = icmp ne i8 %m, 0
  br i1 %m.on, label %on, label %put
on:
  br i1 %runs, label %note, label %put
note:
  %a.o = mul i64 %i, 8
  %a.p = getelementptr i8, ptr %at, i64 %a.o
  %a = load i64, ptr %a.p
  %ok = call fastcc i1 @observe.one(ptr %s, i64 %pid, i64 %site, i64 %kind, i64 %param, i64 %a,
    i64 %size)
  %ok8 = zext i1 %ok to i8
  br label %put
put:
  %res = phi i8 [0, %ask], [0, %on], [%ok8, %note]
  %o.p = getelementptr i8, ptr %out, i64 %i
  store i8 %res, ptr %o.p
  %i.n = add i64 %i, 1
  %i.c = icmp ult i64 %i.n, %n
  br i1 %i.c, label %head, label %done
done:
  ret void
}}"""
