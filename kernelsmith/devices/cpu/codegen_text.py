"""Growing LLVM IR text: one function body made of nested streams.

A *stream* is the code of one loop level. While an inner loop is being written, code whose
operands do not depend on it can still be appended to the enclosing stream, so loop-invariant
code is placed outside the loop when it is emitted instead of being moved there by a pass.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kernelsmith.errors import CompileError

#: Lanes of a vector: a full AVX-512 register of 32-bit elements. Part of the reduce order.
LANES = 16
#: Longest kernel: LLVM takes about 15 s for it, and longer ones far more.
MAX_INSTRUCTIONS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What the lowering may rely on. The bits of results never depend on it."""

    cpu: str
    fma: bool
    f16c: bool
    wide: bool


@dataclass(slots=True)
class Stream:
    """Straight text of one loop level; ``label`` is the block being filled."""

    lines: list[str] = field(default_factory=list)
    label: str = "entry"


@dataclass(slots=True)
class Emitter:
    """Streams from the function body (0) to the innermost open loop, plus what the module
    needs once: declarations and internal functions by name."""

    features: Features
    streams: list[Stream] = field(default_factory=lambda: [Stream()])
    declarations: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    counter: int = 0
    loops: int = 0
    arena_bytes: int = 0

    @property
    def depth(self) -> int:
        """Level of the innermost open loop."""
        return len(self.streams) - 1

    def fresh(self, prefix: str = "v") -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def op(self, level: int, text: str) -> str:
        """Emits ``%new = text`` at a level and returns ``%new``.

        Raises:
            CompileError: the kernel has become too long to be compiled in seconds.
        """
        self.counter += 1
        if self.counter > MAX_INSTRUCTIONS:
            raise CompileError(
                f"the kernel is longer than {MAX_INSTRUCTIONS} instructions on the cpu device",
                op="lowering",
                hint="write loops with range, not static_range, or split the kernel",
            )
        name = f"%v{self.counter}"
        self.streams[level].lines.append(f"  {name} = {text}")
        return name

    def do(self, level: int, text: str) -> None:
        """Emits an instruction without a result."""
        self.streams[level].lines.append(f"  {text}")

    def block(self, level: int, label: str) -> None:
        """Starts a block; the one before must have been ended."""
        stream = self.streams[level]
        stream.lines.append(f"{label}:")
        stream.label = label

    def label(self, level: int) -> str:
        return self.streams[level].label

    def loop_mark(self) -> str:
        """Metadata for a loop's back edge: its code starts on a cache line, so that its speed
        does not depend on what precedes it."""
        self.loops += 1
        return f", !llvm.loop !{self.loops}"

    def declare(self, name: str, signature: str) -> None:
        self.declarations[name] = signature

    def scratch(self, nbytes: int) -> int:
        """Reserves arena bytes; returns the offset."""
        offset = self.arena_bytes
        self.arena_bytes += -(-nbytes // 64) * 64
        return offset

    @contextmanager
    def loop(self, trips: int | str, step: int = 1) -> Iterator["Loop"]:
        """A counted loop ``for i in range(0, trips, step)`` with at least one trip.

        Yields a :class:`Loop` whose body is a new innermost stream."""
        loop = Loop(self, self.fresh("loop"), trips, step)
        loop.open()
        yield loop
        loop.close()


@dataclass(slots=True)
class Loop:
    """An open loop. ``index`` is its i64 induction variable."""

    em: Emitter
    name: str
    trips: int | str
    step: int
    phis: list[tuple[str, str, str, str]] = field(default_factory=list)

    @property
    def index(self) -> str:
        return f"%{self.name}.i"

    def open(self) -> None:
        self.em.streams.append(Stream([], f"{self.name}.body"))

    def carry(self, type_: str, init: str) -> str:
        """A loop-carried value; :meth:`update` gives its next value."""
        name = f"%{self.em.fresh('c')}"
        self.phis.append((name, type_, init, ""))
        return name

    def update(self, name: str, value: str) -> None:
        self.phis = [(n, t, i, value if n == name else v) for n, t, i, v in self.phis]

    def close(self) -> None:
        """Joins the body to the enclosing stream. Carried values keep their last value."""
        body = self.em.streams.pop()
        outer = self.em.streams[-1]
        pre, head, latch, end = (f"{self.name}.{x}" for x in ("pre", "body", "latch", "end"))
        lines = outer.lines
        lines += [f"  br label %{pre}", f"{pre}:", f"  br label %{head}", f"{head}:"]
        lines.append(f"  {self.index} = phi i64 [0, %{pre}], [{self.index}.n, %{latch}]")
        for name, type_, init, value in self.phis:
            lines.append(f"  {name} = phi {type_} [{init}, %{pre}], [{value}, %{latch}]")
        lines += body.lines
        lines += [
            f"  br label %{latch}",
            f"{latch}:",
            f"  {self.index}.n = add nuw nsw i64 {self.index}, {self.step}",
            f"  {self.index}.c = icmp ult i64 {self.index}.n, {self.trips}",
            f"  br i1 {self.index}.c, label %{head}, label %{end}{self.em.loop_mark()}",
            f"{end}:",
        ]
        outer.label = end


def branch(em: Emitter, level: int, cond: str, then: Callable[[], None]) -> None:
    """``if cond: then()`` at a level; ``then`` must emit at that same level."""
    name = em.fresh("if")
    em.do(level, f"br i1 {cond}, label %{name}.t, label %{name}.e")
    em.block(level, f"{name}.t")
    then()
    em.do(level, f"br label %{name}.e")
    em.block(level, f"{name}.e")
