"""Nouns of a parsed TTIR module: types, values, ops, blocks, functions.

The parser (:mod:`ttir_parse`) makes them, the lowering reads them. A value is identified by its
object, never by its printed name, so blocks and functions may reuse names.
"""

from dataclasses import dataclass, field

FLOATS = ("f16", "bf16", "f32", "f64")
BITS: dict[str, int] = {
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
    "ptr": 64,
}


@dataclass(frozen=True, slots=True)
class Ty:
    """A scalar (``shape`` is empty) or a tensor. ``elem`` is a key of :data:`BITS`;
    for "ptr", ``pointee`` is the element type behind the pointer."""

    elem: str
    shape: tuple[int, ...] = ()
    pointee: str = ""

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for dim in self.shape:
            count *= dim
        return count

    @property
    def item_bytes(self) -> int:
        """Bytes of one element in memory (i1 takes a byte)."""
        return max(1, BITS[self.elem] // 8)

    @property
    def is_float(self) -> bool:
        return self.elem in FLOATS

    def __str__(self) -> str:
        elem = f"!tt.ptr<{self.pointee}>" if self.elem == "ptr" else self.elem
        dims = "x".join(map(str, self.shape))
        return f"tensor<{dims}x{elem}>" if self.shape else elem


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """An SSA value: an op result or a block argument."""

    name: str
    ty: Ty


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Straight-line ops; the last one is a terminator."""

    args: tuple[Value, ...]
    ops: tuple["Op", ...]
    label: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One operation. ``attrs`` hold what is printed between name and types: strings, integers,
    tuples. ``line`` is the Python source line ("" when the text carries no locations)."""

    name: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attrs: dict[str, object] = field(default_factory=dict)
    regions: tuple[Block, ...] = ()
    line: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A ``tt.func``. Kernels have one or more blocks; callees must have exactly one."""

    name: str
    public: bool
    args: tuple[Value, ...]
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """``kernel`` is the one public function; ``callees`` by name."""

    kernel: Function
    callees: dict[str, Function]
