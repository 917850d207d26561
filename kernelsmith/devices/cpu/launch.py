"""``kernel[grid](*cpu_tensors)``: from Triton's bound arguments to a run of the grid."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from struct import Struct, error, pack
from typing import Any, Protocol

from kernelsmith.devices.cpu.elf import Image
from kernelsmith.devices.cpu.grid import KERNEL_TYPE, Cost, NativeKernel
from kernelsmith.devices.cpu.report import Reporter, from_stats
from kernelsmith.errors import CompileError, InputError
from kernelsmith.model import ObjectInfo

# One 8-byte slot a parameter. Integers are sign-extended; unsigned ones too large for that are
# passed as the same bits (see _integer).
_SLOTS = {
    "ptr": "Q",
    "i1": "q",
    "i8": "q",
    "i16": "q",
    "i32": "q",
    "i64": "q",
    "f16": "e6x",
    "f32": "f4x",
    "f64": "d",
    "bf16": "H6x",
}


def slots_struct(params: Sequence[str]) -> Struct:
    """The layout of a kernel's arguments, for scalar types as :class:`ObjectInfo` names them.

    Raises:
        CompileError: a type with no slot.
    """
    for param in params:
        if param not in _SLOTS:
            raise CompileError(f"no argument of type {param} can be passed", op=param)
    return Struct("<" + "".join(_SLOTS[param] for param in params))


def slot_value(param: str, value: float | int) -> float | int:
    """``value`` as the slot of ``param`` packs it: integers wrapped to 64 bits, bfloat16 as its
    16 bits rounded to nearest even."""
    if param == "bf16":
        return _bfloat16_bits(float(value))
    if param.startswith("i"):
        return _integer(int(value))
    return value


def pack_args(params: Sequence[str], values: Sequence[float | int]) -> bytes:
    """Packs arguments into 8-byte slots.

    Args:
        params: scalar types of the kernel's parameters ("ptr", "i32", "f32", ...).
        values: addresses, integers and floats in the same order.

    Raises:
        InputError: not as many values as parameters, or one out of its type's range.
    """
    if len(params) != len(values):
        raise InputError(f"kernel takes {len(params)} arguments, {len(values)} were given")
    try:
        return slots_struct(params).pack(*map(slot_value, params, values))
    except (OverflowError, ValueError) as bad:
        raise InputError(f"an argument does not fit its type: {bad}") from None


def _integer(value: int) -> int:
    value &= 0xFFFF_FFFF_FFFF_FFFF
    return value - (1 << 64) if value >> 63 else value


def _bfloat16_bits(value: float) -> int:
    bits = int.from_bytes(pack("<f", value), "little")
    if bits & 0x7FFF_FFFF > 0x7F80_0000:
        return (bits >> 16) | 0x40
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF


class Runs(Protocol):
    """What a launcher runs programs with: a :class:`..grid.Grid`, or what stands for one."""

    def run(
        self,
        kernel: NativeKernel,
        args: bytes,
        grid: tuple[int, int, int],
        arena_bytes: int,
        cost: Cost,
        reporter: Reporter | None = None,
    ) -> None: ...
    def observe(
        self,
        info: ObjectInfo,
        entry: int,
        args: bytes,
        grid: tuple[int, int, int],
        tensors: Mapping[int, Any],
    ) -> None: ...


def launcher_for(grid: Runs) -> Callable[[Any, Any], "CpuLauncher"]:
    """What Triton calls to make a kernel's launcher; some releases do so at every launch."""
    made: weakref.WeakKeyDictionary[Any, CpuLauncher] = weakref.WeakKeyDictionary()

    def make(source: Any, metadata: Any) -> CpuLauncher:
        launcher = made.get(source)
        if launcher is None:
            launcher = made[source] = CpuLauncher(source, metadata, grid)
        return launcher

    return make


def _leaves(value: Any) -> list[Any]:
    """Arguments without tuples and tensor descriptors, in the order of the kernel's parameters."""
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in _leaves(item)]
    if hasattr(value, "block_shape"):
        sizes = [*value.shape, *value.strides]
        rounds = getattr(value, "round_f32_to_tf32", None)
        flags = [value.padding == "nan", *([] if rounds is None else [rounds])]
        return [value.base, *sizes, *flags, *sizes]
    return [value]


def _leaf_types(types: Any) -> list[str]:
    """The types of :func:`_leaves`, as far as it matters: "constexpr" or not."""
    if isinstance(types, tuple):
        return [leaf for item in types for leaf in _leaf_types(item)]
    text = str(types)
    if not text.startswith("tensordesc"):
        return [text]
    # tensordesc<fp32[16, 32]>: base, shape, strides, flags, and shape and strides once more.
    rank = text[text.index("[") + 1 : text.index("]")].count(",") + 1
    return ["leaf"] * (1 + 4 * rank + _descriptor_flags())


def _descriptor_flags() -> int:
    """Flags of a host's tensor descriptor: NaN padding, and rounding to TF32 since Triton 3.7."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    return 1 + ("round_f32_to_tf32" in TensorDescriptor.__dataclass_fields__)


class LoadedFunction:
    """A kernel's entry; holds its code in memory. What Triton keeps and passes to a launch."""

    __slots__ = ("__weakref__", "address", "call", "image")

    def __init__(self, image: Image, name: str) -> None:
        self.image = image
        self.address = image.address(name)
        self.call = KERNEL_TYPE(self.address)


class CpuLauncher:
    """Launches one compiled kernel. Triton makes it and calls it once a launch."""

    __slots__ = (
        "_arena_bytes",
        "_cost",
        "_grid",
        "_nested",
        "_observed",
        "_pack",
        "_reporter",
        "_taken",
    )

    def __init__(self, source: Any, metadata: Any, grid: Runs) -> None:
        types = tuple(source.signature.values())
        flat = _leaf_types(types)
        self._nested = flat != list(types)
        # Constexprs, and arguments specialised to a constant, are in the code already.
        names = [index for index, type_ in enumerate(flat) if type_ != "constexpr"]
        params = tuple(metadata.params)
        if len(names) != len(params):
            raise CompileError(
                f"kernel {metadata.name} takes {len(params)} arguments, Triton binds {len(names)}",
                op=metadata.name,
            )
        self._taken = tuple(zip(names, params, strict=True))
        self._pack = slots_struct(params).pack
        self._arena_bytes = int(metadata.arena_bytes)
        self._grid = grid
        self._cost = Cost()
        sites = from_stats(metadata.reports)
        self._reporter = Reporter(metadata.name, sites) if sites else None
        self._observed = _observed(metadata) if metadata.observed else None

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: int,
        function: LoadedFunction,
        packed_metadata: Any,
        launch_metadata: Any,
        enter_hook: Callable[[Any], None] | None,
        exit_hook: Callable[[Any], None] | None,
        *args: Any,
    ) -> None:
        if enter_hook is not None:
            enter_hook(launch_metadata)
        if self._nested:
            args = tuple(_leaves(args))
        values: list[Any] = []
        for index, param in self._taken:
            arg = args[index]
            if param == "ptr":
                values.append(_address(arg, index))
            elif param == "f32":
                values.append(arg)
            else:
                values.append(slot_value(param, arg))
        grid = (grid_x, grid_y, grid_z)
        try:
            packed = self._pack(*values)
        except (OverflowError, error) as bad:
            raise InputError(f"an argument does not fit its type: {bad}") from None
        if self._observed is None:
            self._grid.run(
                function.call, packed, grid, self._arena_bytes, self._cost, self._reporter
            )
        else:
            tensors = {
                place: args[index]
                for place, (index, param) in enumerate(self._taken)
                if param == "ptr"
            }
            self._grid.observe(self._observed, function.address, packed, grid, tensors)
        if exit_hook is not None:
            exit_hook(launch_metadata)


def _observed(metadata: Any) -> ObjectInfo:
    """What an observing build says of itself, from Triton's metadata."""
    return ObjectInfo(
        id=metadata.object_id,
        symbol=metadata.name,
        params=tuple(metadata.params),
        arena_bytes=int(metadata.arena_bytes),
        code_hash="",
        stats=dict(metadata.observed),
    )


def _address(arg: Any, index: int) -> int:
    """Address of a tensor's first element; an integer is taken as an address."""
    data_ptr = getattr(arg, "data_ptr", None)
    if data_ptr is None:
        if isinstance(arg, int):
            return arg
        raise InputError(f"argument {index} is neither a tensor nor an address: {type(arg)}")
    if not getattr(arg, "is_cpu", True):
        raise InputError(
            f"argument {index} is a tensor on {arg.device}; this device runs on CPU tensors",
            hint="kernelsmith.devices.cpu.deactivate() gives the kernel back to the GPU",
        )
    return int(data_ptr())
