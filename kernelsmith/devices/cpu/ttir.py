"""Nouns of a parsed TTIR module: types, values, ops, blocks, functions.

The parser (:mod:`ttir_parse`) makes them, the lowering reads them. A value is identified by its
object, never by its printed name, so blocks and functions may reuse names.
"""

from dataclasses import dataclass, field

#: 8-bit floats, by MLIR's names: Triton's fp8e4nv, fp8e5, fp8e4b8 and fp8e5b16.
EIGHT_BITS = ("f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ")
FLOATS = ("f16", "bf16", "f32", "f64", *EIGHT_BITS)
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
    **dict.fromkeys(EIGHT_BITS, 8),
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
    tuples. ``line`` is the Python source line ("" when the text carries no locations).
    ``regions``: the block of each region; of a reduction, scan or map the blocks of its one."""

    name: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attrs: dict[str, object] = field(default_factory=dict)
    regions: tuple[Block, ...] = ()
    line: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A ``tt.func``. Blocks after the first come from early returns."""

    name: str
    public: bool
    args: tuple[Value, ...]
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """``kernel`` is the one public function; ``callees`` by name."""

    kernel: Function
    callees: dict[str, Function]
