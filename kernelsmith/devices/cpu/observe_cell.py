"""What one access of one granule means: the IR of ``observe.cell`` (see :mod:`observe_code`)."""

from kernelsmith.devices.cpu import observe as o

# Cell: i32 writer, reader, second reader, atomic; i16 sites of writer, reader, atomic; i8 flags,
# i8 kind of atomic. Programs count from 1 there, 0 is nobody.
CELL = f"""
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
