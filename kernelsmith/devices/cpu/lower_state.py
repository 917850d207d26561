"""What is known about each TTIR value while a function is lowered."""

from dataclasses import dataclass, field

from kernelsmith.devices.cpu.codegen_text import Emitter
from kernelsmith.devices.cpu.lower_forms import Form, wrap
from kernelsmith.devices.cpu.report import Site
from kernelsmith.devices.cpu.ttir import Block, Function, Op, Ty, Value


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar value, emitted already."""

    form: Form


@dataclass(frozen=True, slots=True)
class Lazy:
    """A tensor that is computed where it is used."""

    op: Op


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor in the arena, dense and row-major. ``base`` is a ``ptr`` operand."""

    base: str
    ty: Ty
    dirty: bool


@dataclass(frozen=True, slots=True)
class Shifted:
    """A loop-carried tensor ``init + delta`` with one scalar ``delta`` for all elements."""

    init: Value
    delta: Form


Bound = Scalar | Lazy | Buffer | Shifted

#: One i64 form a dimension: ``U``, or for the one that the lanes run along, ``A`` with step 1.
Index = tuple[Form, ...]


@dataclass(slots=True)
class Lowering:
    """State of one kernel: bindings, the arena, loads that have not run yet.

    ``pending``: loads that run in their roots, which are not ``lowered`` yet. ``kept``: tensors
    that get a buffer; those ``waiting`` for it are written by the first reduction that computes
    them anyway, through ``tee``, and found ``dirty`` as their forms are. ``plain``: one version of
    a loop, with masks, and a buffer for every load and result: slow, and what fast code must agree
    with.
    ``reports``: the prints and assertions so far; ``calls``: functions that are being inlined."""

    em: Emitter
    callees: dict[str, Function]
    env: dict[Value, Bound] = field(default_factory=dict)
    uses: dict[Value, list[Op]] = field(default_factory=dict)
    home: dict[Op, Block] = field(default_factory=dict)
    definer: dict[Value, Op] = field(default_factory=dict)
    pending: dict[Value, Op] = field(default_factory=dict)
    kept: set[Value] = field(default_factory=set)
    roots: dict[Value, set[Op]] = field(default_factory=dict)
    waiting: dict[Value, Op] = field(default_factory=dict)
    tee: dict[Value, Buffer] = field(default_factory=dict)
    dirty: set[Value] = field(default_factory=set)
    lowered: set[Op] = field(default_factory=set)
    plain: bool = False
    reports: list[Site] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def needed(self, value: Value) -> bool:
        """Whether a load that has not run is still to be evaluated by one of its roots, or by a
        tensor that waits for its buffer."""
        for op in self.roots.get(value, set()) - self.lowered:
            bound = [self.env.get(result) for result in op.results]
            if not bound or any(b is None or isinstance(b, Lazy) for b in bound):
                return True
        return False

    def consumed(self, root: Op) -> None:
        """Forgets the loads whose one root has been lowered, and, at the end of a block, what
        still waits there: nothing outside of the block can read it."""
        for value in list(self.pending):
            if self.roots.get(value, set()) <= {root}:
                del self.pending[value]
        self.lowered.add(root)
        block = self.home[root]
        if root is block.ops[-1]:
            self.left(block)

    def left(self, block: Block) -> None:
        """Forgets what waits in a block that ends here."""
        for held in (self.waiting, self.pending):
            for value in [v for v, op in held.items() if self.home[op] is block]:
                del held[value]

    def new_buffer(self, ty: Ty, dirty: bool) -> Buffer:
        """Arena space for a tensor."""
        offset = self.em.scratch(ty.size * ty.item_bytes)
        return Buffer(self.arena_at(offset), ty, dirty)

    def arena_at(self, offset: int) -> str:
        """Operand for an arena address; computed once, at the function's entry."""
        return self.em.op(0, f"getelementptr inbounds i8, ptr %arena, i64 {offset}")


@dataclass(slots=True)
class Context:
    """One evaluation: vector width, the level of its program point, and what was computed.

    ``natural``: the index at which values that wait for a buffer are written to it.
    ``unmasked``, ``dead``: level of the branch behind which every mask met here is true in all
    lanes (and no remainder of an index wraps around), or false in all. What is placed at an outer
    level runs ahead of that branch, where masks may be anything."""

    lanes: int
    base: int
    memo: dict[tuple[object, ...], Form] = field(default_factory=dict)
    natural: tuple[Form, ...] = ()
    pairs: dict[tuple[object, ...], tuple[Form, Form]] = field(default_factory=dict)
    children: dict[int, "Context"] = field(default_factory=dict)
    unmasked: int | None = None
    dead: int | None = None

    def fork(self, unmasked: int | None, dead: int | None = None) -> "Context":
        """A context for one side of a branch: knows what this one knows, shares nothing new."""
        return Context(
            self.lanes,
            self.base,
            dict(self.memo),
            self.natural,
            dict(self.pairs),
            {},
            unmasked,
            dead,
        )

    def child(self, lanes: int) -> "Context":
        """The context of the same place for another vector width."""
        if lanes == self.lanes:
            return self
        if lanes not in self.children:
            self.children[lanes] = Context(lanes, self.base)
        return self.children[lanes]


def index_const(number: int) -> Form:
    """A constant index."""
    return Form("U", "i64", wrap(number, "i64"), 0, 0, False, max(1, number & -number))
