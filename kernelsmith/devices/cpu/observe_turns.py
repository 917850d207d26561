"""Turns of loops: the IR that tells one that goes on from one that never ends."""

from kernelsmith.devices.cpu import observe as o
from kernelsmith.devices.cpu.observe import word

VALUE = """
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
PUSH = f"""
define internal fastcc void @observe.push(ptr %s, i64 %at, i64 %size) noinline #0 {{
entry:
  %n.p = {word(o.RING_COUNT)}
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
  %e.1 = {word(1, "%e")}
  store i64 %size, ptr %e.1
  %e.2 = {word(2, "%e")}
  %v = call fastcc i64 @observe.value(i64 %at, i64 %size)
  store i64 %v, ptr %e.2
  ret void
done:
  ret void
}}"""

SAME = f"""
define internal fastcc i1 @observe.same(ptr %s) noinline #0 {{
entry:
  %n.p = {word(o.RING_COUNT)}
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
  %e.1 = {word(1, "%e")}
  %size = load i64, ptr %e.1
  %e.2 = {word(2, "%e")}
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
TURN_TEXT = f"""
define internal fastcc i1 @observe.turn(ptr %s, i32 %program, i64 %site, i64 %state, i1 %known,
    i1 %goes) noinline #0 {{
entry:
  %last.p = {word(o.TURN_SITE)}
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
  %program.p = {word(o.TURN_PROGRAM)}
  %before = load i64, ptr %program.p
  %state.p = {word(o.TURN_STATE)}
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
  %ring.p = {word(o.RING_COUNT)}
  store i64 0, ptr %ring.p
  %same.p = {word(o.TURN_SAME)}
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
  %access.p = {word(o.LAST_SITE)}
  store i64 -1, ptr %access.p
  ret i1 true
}}"""

BEAT_TEXT = f"""
define internal fastcc i1 @observe.beat(ptr %s, i32 %program, i64 %site) noinline #0 {{
entry:
  %stop = load volatile i64, ptr %s
  %runs = icmp eq i64 %stop, 0
  br i1 %runs, label %on, label %off
off:
  ret i1 false
on:
  %pid = zext i32 %program to i64
  %site.p = {word(o.LOOP_SITE)}
  store i64 %site, ptr %site.p
  %pid.p = {word(o.LOOP_PROGRAM)}
  store i64 %pid, ptr %pid.p
  %turns.p = {word(o.LOOP_TURNS)}
  %turns = load i64, ptr %turns.p
  %turns.n = add i64 %turns, 1
  store i64 %turns.n, ptr %turns.p
  ret i1 true
}}"""
