"""The observing mode's own machine code, as LLVM IR: what a note does.

Words, cells and kinds are those of :mod:`observe`; the numbers are written into the text here.
``observe.tensor`` is called for every access with the addresses of its elements; it answers which
of them may be performed. ``observe.turn`` is called at every turn of a ``while`` loop with its
condition and answers whether to go on, ``observe.beat`` at every turn of a ``for`` loop.
"""

from kernelsmith.devices.cpu import observe as o

TENSOR, TURN, BEAT = "observe.tensor", "observe.turn", "observe.beat"


def functions() -> dict[str, str]:
    """Internal functions by name, in an order in which each follows what it calls."""
    return {
        "observe.report": _REPORT,
        "observe.cell": _CELL,
        "observe.value": _VALUE,
        "observe.push": _PUSH,
        "observe.one": _ONE,
        TENSOR: _TENSOR,
        "observe.same": _SAME,
        TURN: _TURN,
        BEAT: _BEAT,
    }


def _word(index: int | str, name: str = "%s", scale: int = 8) -> str:
    return f"getelementptr i8, ptr {name}, i64 {int(index) * scale}"


# A finding is one entry for each (kind, site, other site): first program, other program and
# address, the lowest and the highest byte, and how many accesses.
_REPORT = f"""
define internal fastcc void @observe.report(ptr %s, i64 %kind, i64 %site, i64 %other, i64 %pid,
    i64 %opid, i64 %at, i64 %size) noinline #0 {{
entry:
  %n.p = {_word(o.FOUND)}
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
  %e.sp = {_word(1, "%e")}
  %e.s = load i64, ptr %e.sp
  %e.op = {_word(2, "%e")}
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
  %low.p = {_word(6, "%e")}
  %low = load i64, ptr %low.p
  %low.c = icmp ult i64 %at, %low
  %low.n = select i1 %low.c, i64 %at, i64 %low
  store i64 %low.n, ptr %low.p
  %high.p = {_word(7, "%e")}
  %high = load i64, ptr %high.p
  %high.c = icmp ugt i64 %end, %high
  %high.n = select i1 %high.c, i64 %end, i64 %high
  store i64 %high.n, ptr %high.p
  %count.p = {_word(8, "%e")}
  %count = load i64, ptr %count.p
  %count.n = add i64 %count, 1
  store i64 %count.n, ptr %count.p
  ret void
new:
  %room = icmp ult i64 %n, {o.FINDINGS_MAX}
  br i1 %room, label %add, label %full
full:
  %lost.p = {_word(o.LOST)}
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
  %a.1 = {_word(1, "%a")}
  store i64 %site, ptr %a.1
  %a.2 = {_word(2, "%a")}
  store i64 %other, ptr %a.2
  %a.3 = {_word(3, "%a")}
  store i64 %pid, ptr %a.3
  %a.4 = {_word(4, "%a")}
  store i64 %opid, ptr %a.4
  %a.5 = {_word(5, "%a")}
  store i64 %at, ptr %a.5
  %a.6 = {_word(6, "%a")}
  store i64 %at, ptr %a.6
  %a.7 = {_word(7, "%a")}
  store i64 %end, ptr %a.7
  %a.8 = {_word(8, "%a")}
  store i64 1, ptr %a.8
  ret void
}}"""

# Cell: i32 writer, reader, second reader, atomic; i16 sites of writer, reader, atomic; i8 flags,
# i8 kind of atomic. Programs count from 1 there, 0 is nobody.
_CELL = f"""
define internal fastcc i1 @observe.cell(ptr %s, ptr %c, i64 %pid, i64 %site, i64 %kind, i64 %at,
    i64 %size) noinline #0 {{
entry:
  %p64 = add i64 %pid, 1
  %p = trunc i64 %p64 to i32
  %site16 = trunc i64 %site to i16
  %kind8 = trunc i64 %kind to i8
  %f.p = getelementptr i8, ptr %c, i64 22
  %f = load i8, ptr %f.p
  %reads = icmp eq i64 %kind, {o.READ}
  %writes = icmp eq i64 %kind, {o.WRITE}
  %in = and i8 %f, {o.INSIDE}
  %inside = icmp ne i8 %in, 0
  br i1 %inside, label %own, label %gap
gap:
  %gap.k = select i1 %reads, i64 {o.GAP_READ}, i64 {o.GAP_WRITE}
  call fastcc void @observe.report(ptr %s, i64 %gap.k, i64 %site, i64 -1, i64 %pid, i64 -1,
    i64 %at, i64 %size)
  ret i1 false
own:
  %h = and i8 %f, {o.HOLDS}
  %holds = icmp ne i8 %h, 0
  %fine = or i1 %holds, %writes
  br i1 %fine, label %writer, label %unwritten
unwritten:
  call fastcc void @observe.report(ptr %s, i64 {o.UNWRITTEN_READ}, i64 %site, i64 -1, i64 %pid,
    i64 -1, i64 %at, i64 %size)
  br label %writer
writer:
  %w = load i32, ptr %c
  %w.any = icmp ne i32 %w, 0
  %w.else = icmp ne i32 %w, %p
  %w.race = and i1 %w.any, %w.else
  br i1 %w.race, label %w.tell, label %reader
w.tell:
  %ws.p = getelementptr i8, ptr %c, i64 16
  %ws = load i16, ptr %ws.p
  %ws64 = zext i16 %ws to i64
  %w64 = zext i32 %w to i64
  %w.pid = sub i64 %w64, 1
  call fastcc void @observe.report(ptr %s, i64 {o.RACE}, i64 %site, i64 %ws64, i64 %pid,
    i64 %w.pid, i64 %at, i64 %size)
  br label %reader
reader:
  %r.p = getelementptr i8, ptr %c, i64 4
  %r = load i32, ptr %r.p
  %r2.p = getelementptr i8, ptr %c, i64 8
  %r2 = load i32, ptr %r2.p
  %r.any = icmp ne i32 %r, 0
  %r.else = icmp ne i32 %r, %p
  %r.other = and i1 %r.any, %r.else
  %rr = select i1 %r.other, i32 %r, i32 %r2
  %rr.any = icmp ne i32 %rr, 0
  %rr.else = icmp ne i32 %rr, %p
  %rr.other = and i1 %rr.any, %rr.else
  %changes = xor i1 %reads, true
  %r.race = and i1 %rr.other, %changes
  br i1 %r.race, label %r.tell, label %atomics
r.tell:
  %rs.p = getelementptr i8, ptr %c, i64 18
  %rs = load i16, ptr %rs.p
  %rs64 = zext i16 %rs to i64
  %rr64 = zext i32 %rr to i64
  %rr.pid = sub i64 %rr64, 1
  %r.kind = select i1 %writes, i64 {o.RACE}, i64 {o.ATOMIC_RACE}
  call fastcc void @observe.report(ptr %s, i64 %r.kind, i64 %site, i64 %rs64, i64 %pid,
    i64 %rr.pid, i64 %at, i64 %size)
  br label %atomics
atomics:
  %a.p = getelementptr i8, ptr %c, i64 12
  %a = load i32, ptr %a.p
  %ak.p = getelementptr i8, ptr %c, i64 23
  %ak = load i8, ptr %ak.p
  %as.p = getelementptr i8, ptr %c, i64 20
  %as = load i16, ptr %as.p
  %as64 = zext i16 %as to i64
  %m = and i8 %f, {o.SHARED}
  %many = icmp ne i8 %m, 0
  %a.any = icmp ne i32 %a, 0
  %a.else = icmp ne i32 %a, %p
  %a.else2 = or i1 %a.else, %many
  %a.other = and i1 %a.any, %a.else2
  %a64 = zext i32 %a to i64
  %a.pid1 = sub i64 %a64, 1
  %a.pid = select i1 %a.else, i64 %a.pid1, i64 -1
  %plain = icmp ule i64 %kind, {o.WRITE}
  br i1 %plain, label %mixed, label %kinds
mixed:
  %mix.k = select i1 %writes, i64 {o.RACE}, i64 {o.ATOMIC_RACE}
  br i1 %a.other, label %mixed.tell, label %update
mixed.tell:
  call fastcc void @observe.report(ptr %s, i64 %mix.k, i64 %site, i64 %as64, i64 %pid, i64 %a.pid,
    i64 %at, i64 %size)
  br label %update
kinds:
  %float = icmp eq i64 %kind, {o.FLOAT}
  br i1 %float, label %float.tell, label %order
float.tell:
  %f.site = select i1 %a.other, i64 %as64, i64 -1
  %f.pid = select i1 %a.other, i64 %a.pid, i64 -1
  call fastcc void @observe.report(ptr %s, i64 {o.FLOAT_ATOMIC}, i64 %site, i64 %f.site, i64 %pid,
    i64 %f.pid, i64 %at, i64 %size)
  br label %update
order:
  %k.else = icmp ne i8 %ak, %kind8
  %k.never = icmp eq i64 %kind, {o.MIXED}
  %k.bad = or i1 %k.else, %k.never
  %o.bad = and i1 %k.bad, %a.other
  br i1 %o.bad, label %order.tell, label %update
order.tell:
  call fastcc void @observe.report(ptr %s, i64 {o.ATOMIC_ORDER}, i64 %site, i64 %as64, i64 %pid,
    i64 %a.pid, i64 %at, i64 %size)
  br label %update
update:
  br i1 %reads, label %u.read, label %u.change
u.read:
  %r.none = icmp eq i32 %r, 0
  br i1 %r.none, label %u.first, label %u.later
u.first:
  store i32 %p, ptr %r.p
  %rs.q = getelementptr i8, ptr %c, i64 18
  store i16 %site16, ptr %rs.q
  ret i1 true
u.later:
  %r2.none = icmp eq i32 %r2, 0
  %r2.set = and i1 %r2.none, %r.else
  br i1 %r2.set, label %u.second, label %u.done
u.second:
  store i32 %p, ptr %r2.p
  ret i1 true
u.done:
  ret i1 true
u.change:
  %f.h = or i8 %f, {o.HOLDS}
  br i1 %plain, label %u.write, label %u.atomic
u.write:
  store i8 %f.h, ptr %f.p
  store i32 %p, ptr %c
  %ws.q = getelementptr i8, ptr %c, i64 16
  store i16 %site16, ptr %ws.q
  ret i1 true
u.atomic:
  %a.none = icmp eq i32 %a, 0
  %a.several = and i1 %a.any, %a.else
  %f.m = or i8 %f.h, {o.SHARED}
  %f.n = select i1 %a.several, i8 %f.m, i8 %f.h
  store i8 %f.n, ptr %f.p
  %a.n = select i1 %a.none, i32 %p, i32 %a
  store i32 %a.n, ptr %a.p
  %as.n = select i1 %a.none, i16 %site16, i16 %as
  store i16 %as.n, ptr %as.p
  %ak.same = icmp eq i8 %ak, %kind8
  %ak.keep = or i1 %a.none, %ak.same
  %ak.n = select i1 %ak.keep, i8 %kind8, i8 {o.MIXED}
  store i8 %ak.n, ptr %ak.p
  ret i1 true
}}"""

_VALUE = """
define internal fastcc i64 @observe.value(i64 %at, i64 %size) noinline #0 {
entry:
  %p = inttoptr i64 %at to ptr
  switch i64 %size, label %one [ i64 2, label %two
    i64 4, label %four
    i64 8, label %eight ]
one:
  %v1 = load i8, ptr %p
  %w1 = zext i8 %v1 to i64
  ret i64 %w1
two:
  %v2 = load i16, ptr %p, align 1
  %w2 = zext i16 %v2 to i64
  ret i64 %w2
four:
  %v4 = load i32, ptr %p, align 1
  %w4 = zext i32 %v4 to i64
  ret i64 %w4
eight:
  %v8 = load i64, ptr %p, align 1
  ret i64 %v8
}"""

# What a loop changes is known by what its writes found: value before, kept for RING_MAX writes.
_PUSH = f"""
define internal fastcc void @observe.push(ptr %s, i64 %at, i64 %size) noinline #0 {{
entry:
  %n.p = {_word(o.RING_COUNT)}
  %n = load i64, ptr %n.p
  %room = icmp ult i64 %n, {o.RING_MAX}
  br i1 %room, label %put, label %done
put:
  %n.n = add i64 %n, 1
  store i64 %n.n, ptr %n.p
  %off = mul i64 %n, {o.RING_WORDS * 8}
  %off.b = add i64 %off, {o.RING * 8}
  %e = getelementptr i8, ptr %s, i64 %off.b
  store i64 %at, ptr %e
  %e.1 = {_word(1, "%e")}
  store i64 %size, ptr %e.1
  %e.2 = {_word(2, "%e")}
  %v = call fastcc i64 @observe.value(i64 %at, i64 %size)
  store i64 %v, ptr %e.2
  ret void
done:
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
  %d.ep = {_word(1, "%d.e")}
  %d.end = load i64, ptr %d.ep
  %d.ge = icmp uge i64 %at, %d.start
  %d.le = icmp ule i64 %last, %d.end
  %d.in = and i1 %d.ge, %d.le
  br i1 %d.in, label %inside, label %outside
head:
  %i = phi i64 [0, %entry], [%i.n, %next]
  %n.p = {_word(o.ENTRIES)}
  %n = load i64, ptr %n.p
  %more = icmp ult i64 %i, %n
  br i1 %more, label %look, label %outside
look:
  %l.off = mul i64 %i, {o.TABLE_WORDS * 8}
  %l.b = add i64 %l.off, {o.TABLE * 8}
  %l.e = getelementptr i8, ptr %s, i64 %l.b
  %l.start = load i64, ptr %l.e
  %l.ep = {_word(1, "%l.e")}
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
  %cells.p = {_word(2, "%e")}
  %cells = load i64, ptr %cells.p
  %bare = icmp eq i64 %cells, 0
  br i1 %bare, label %yes, label %celled
celled:
  %shift.p = {_word(o.SHIFT)}
  %shift = load i64, ptr %shift.p
  %off = sub i64 %at, %start
  %grain = shl i64 1, %shift
  %low = sub i64 %grain, 1
  %both = or i64 %off, %size
  %odd = and i64 %both, %low
  %even = icmp eq i64 %odd, 0
  br i1 %even, label %walk, label %misaligned
misaligned:
  %mis.p = {_word(o.MISALIGNED)}
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
  %last.p = {_word(o.LAST_SITE)}
  store i64 %site, ptr %last.p
  %place.p = {_word(o.LAST_AT)}
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

_SAME = f"""
define internal fastcc i1 @observe.same(ptr %s) noinline #0 {{
entry:
  %n.p = {_word(o.RING_COUNT)}
  %n = load i64, ptr %n.p
  %few = icmp ult i64 %n, {o.RING_MAX}
  br i1 %few, label %head, label %no
head:
  %i = phi i64 [0, %entry], [%i.n, %next]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %look, label %yes
look:
  %off = mul i64 %i, {o.RING_WORDS * 8}
  %off.b = add i64 %off, {o.RING * 8}
  %e = getelementptr i8, ptr %s, i64 %off.b
  %at = load i64, ptr %e
  %e.1 = {_word(1, "%e")}
  %size = load i64, ptr %e.1
  %e.2 = {_word(2, "%e")}
  %was = load i64, ptr %e.2
  %is = call fastcc i64 @observe.value(i64 %at, i64 %size)
  %kept = icmp eq i64 %is, %was
  br i1 %kept, label %next, label %no
next:
  %i.n = add i64 %i, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}}"""

# A program whose loop carries the same values as a turn ago, and has changed no byte since, goes on
# for ever unless another program ends it: programs share nothing else.
_TURN = f"""
define internal fastcc i1 @observe.turn(ptr %s, i32 %program, i64 %site, i64 %state, i1 %known,
    i1 %goes) noinline #0 {{
entry:
  %last.p = {_word(o.TURN_SITE)}
  br i1 %goes, label %on, label %leave
leave:
  store i64 -1, ptr %last.p
  ret i1 false
on:
  %alive = call fastcc i1 @observe.beat(ptr %s, i32 %program, i64 %site)
  br i1 %alive, label %judge, label %stop
stop:
  ret i1 false
judge:
  %pid = zext i32 %program to i64
  %last = load i64, ptr %last.p
  %program.p = {_word(o.TURN_PROGRAM)}
  %before = load i64, ptr %program.p
  %state.p = {_word(o.TURN_STATE)}
  %was = load i64, ptr %state.p
  %s.site = icmp eq i64 %last, %site
  %s.pid = icmp eq i64 %before, %pid
  %s.state = icmp eq i64 %was, %state
  %s.mem = call fastcc i1 @observe.same(ptr %s)
  %s.1 = and i1 %s.site, %s.pid
  %s.2 = and i1 %s.state, %s.mem
  %s.3 = and i1 %s.1, %s.2
  %s.all = and i1 %s.3, %known
  store i64 %site, ptr %last.p
  store i64 %pid, ptr %program.p
  store i64 %state, ptr %state.p
  %ring.p = {_word(o.RING_COUNT)}
  store i64 0, ptr %ring.p
  %same.p = {_word(o.TURN_SAME)}
  %same = load i64, ptr %same.p
  %same.1 = add i64 %same, 1
  %same.n = select i1 %s.all, i64 %same.1, i64 0
  store i64 %same.n, ptr %same.p
  %endless = icmp uge i64 %same.n, {o.SAME_TURNS}
  br i1 %endless, label %spins, label %turns
spins:
  store volatile i64 {o.SPINNING}, ptr %s
  ret i1 false
turns:
  %access.p = {_word(o.LAST_SITE)}
  store i64 -1, ptr %access.p
  ret i1 true
}}"""

_BEAT = f"""
define internal fastcc i1 @observe.beat(ptr %s, i32 %program, i64 %site) noinline #0 {{
entry:
  %stop = load volatile i64, ptr %s
  %runs = icmp eq i64 %stop, 0
  br i1 %runs, label %on, label %off
off:
  ret i1 false
on:
  %pid = zext i32 %program to i64
  %site.p = {_word(o.LOOP_SITE)}
  store i64 %site, ptr %site.p
  %pid.p = {_word(o.LOOP_PROGRAM)}
  store i64 %pid, ptr %pid.p
  %turns.p = {_word(o.LOOP_TURNS)}
  %turns = load i64, ptr %turns.p
  %turns.n = add i64 %turns, 1
  store i64 %turns.n, ptr %turns.p
  ret i1 true
}}"""
