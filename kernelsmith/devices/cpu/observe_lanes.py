"""Two lanes of one store that write different values to one address: the IR that finds them.

A GPU decides by its threads which of them stays. Here all values are written, in order, and those
that do not stand in memory afterwards have lost. The store itself, which follows, changes nothing.
"""

from kernelsmith.devices.cpu import observe as o

PUT = """
define internal fastcc void @observe.put(i64 %at, i64 %size, i64 %value) noinline #0 {
entry:
  %p = inttoptr i64 %at to ptr
  switch i64 %size, label %one [ i64 2, label %two
    i64 4, label %four
    i64 8, label %eight ]
one:
  %v1 = trunc i64 %value to i8
  store i8 %v1, ptr %p
  ret void
two:
  %v2 = trunc i64 %value to i16
  store i16 %v2, ptr %p, align 1
  ret void
four:
  %v4 = trunc i64 %value to i32
  store i32 %v4, ptr %p, align 1
  ret void
eight:
  store i64 %value, ptr %p, align 1
  ret void
}"""


def _each(name: str, act: list[str]) -> str:
    """A loop over the lanes that go on: ``%<name>.a`` is the address, ``%<name>.v`` the value of
    one; ``act`` ends in a branch to ``<name>.next``, and the loop in one to ``<name>.done``."""
    n = f"%{name}"
    return "\n".join([
        f"  br label {n}.head",
        f"{name}.head:",
        f"  {n}.i = phi i64 [0, %{name}.from], [{n}.n, {n}.next]",
        f"  {n}.gp = getelementptr i8, ptr %goes, i64 {n}.i",
        f"  {n}.g = load i8, ptr {n}.gp",
        f"  {n}.on = icmp ne i8 {n}.g, 0",
        f"  br i1 {n}.on, label {n}.do, label {n}.next",
        f"{name}.do:",
        f"  {n}.ao = mul i64 {n}.i, 8",
        f"  {n}.ap = getelementptr i8, ptr %at, i64 {n}.ao",
        f"  {n}.a = load i64, ptr {n}.ap",
        f"  {n}.vo = mul i64 {n}.i, %size",
        f"  {n}.vp = add i64 %base, {n}.vo",
        f"  {n}.v = call fastcc i64 @observe.value(i64 {n}.vp, i64 %size)",
        *act,
        f"{name}.next:",
        f"  {n}.n = add i64 {n}.i, 1",
        f"  {n}.c = icmp ult i64 {n}.n, %n",
        f"  br i1 {n}.c, label {n}.head, label {n}.done",
        f"{name}.done:",
    ])  # fmt: skip


_WRITE = [
    "  call fastcc void @observe.put(i64 %put.a, i64 %size, i64 %put.v)",
    "  br label %put.next",
]
_LOOK = [
    "  %is = call fastcc i64 @observe.value(i64 %look.a, i64 %size)",
    "  %kept = icmp eq i64 %is, %look.v",
    "  br i1 %kept, label %look.next, label %tell",
    "tell:",
    f"  call fastcc void @observe.report(ptr %s, i64 {o.LANES}, i64 %site, i64 %site, i64 %pid,",
    "    i64 %pid, i64 %look.a, i64 %size)",
    "  br label %look.next",
]
LANES_TEXT = "\n".join([
    "define internal fastcc void @observe.lanes(ptr %s, i32 %program, i64 %site, i64 %size,",
    "    ptr %at, ptr %goes, ptr %values, i64 %n) noinline #0 {",
    "put.from:",
    "  %pid = zext i32 %program to i64",
    "  %base = ptrtoint ptr %values to i64",
    _each("put", _WRITE),
    "  br label %look.from",
    "look.from:",
    _each("look", _LOOK),
    "  ret void",
    "}",
])  # fmt: skip
