"""Running a loaded kernel: orders, ranges, threads, bound calls, packing."""

import ctypes
import struct
from array import array

import numpy as np
import pytest

from kernelsmith.devices.cpu.grid import parse_order
from kernelsmith.devices.cpu.kernel import LoadedKernel, load
from kernelsmith.devices.cpu.launch import pack_args
from kernelsmith.errors import InputError
from kernelsmith.model import ObjectInfo

COUNT = 64
FACTORS = np.tile(np.array([1, 2, 3, 4], np.float32), COUNT // 4)


@pytest.fixture
def kernel(scale_info: ObjectInfo, scale_object: bytes) -> LoadedKernel:
    return load(scale_info, scale_object)


def tensors() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(COUNT, dtype=np.float32), np.full(COUNT, -1, np.float32)


def packed(kernel: LoadedKernel, x: np.ndarray, y: np.ndarray) -> bytes:
    return pack_args(kernel.info.params, (x.ctypes.data, y.ctypes.data, x.nbytes))


@pytest.mark.parametrize(
    "order",
    [
        None,
        "ascending",
        "descending",
        "shuffled:3",
        "threads:1",
        "threads:2",
        "threads:5",
        array("i", reversed(range(COUNT))),
    ],
)
def test_every_order_runs_every_program_once(
    kernel: LoadedKernel, order: "str | array[int] | None"
) -> None:
    x, y = tensors()
    kernel.run(packed(kernel, x, y), (8, 4, 2), order=order)
    assert (y == x * FACTORS).all()


def test_shuffled_orders_are_permutations_that_depend_on_the_seed_alone() -> None:
    first = parse_order("shuffled:1").permutation(1000)
    assert first == parse_order("shuffled:1").permutation(1000)
    assert first != parse_order("shuffled:2").permutation(1000)
    assert sorted(first or ()) == list(range(1000))


def test_a_range_runs_that_part_of_the_order_only(kernel: LoadedKernel) -> None:
    x, y = tensors()
    kernel.run(packed(kernel, x, y), (COUNT, 1, 1), order="descending", begin=0, end=10)
    assert (y[-10:] == (x * FACTORS)[-10:]).all()
    assert (y[:-10] == -1).all()


def test_bound_call_sees_a_rewritten_argument_buffer(kernel: LoadedKernel) -> None:
    x, y = tensors()
    other = np.full(COUNT, -1, np.float32)
    buffer = ctypes.create_string_buffer(packed(kernel, x, y), 24)
    call = kernel.bind(buffer, (COUNT, 1, 1))
    call()
    struct.pack_into("<Q", buffer, 8, other.ctypes.data)
    call()
    assert (y == x * FACTORS).all()
    assert (other == y).all()


def test_what_does_not_fit_is_refused(kernel: LoadedKernel) -> None:
    x, y = tensors()
    args = packed(kernel, x, y)
    for change in (
        {"args": args[:-1]},
        {"grid": (-1, 1, 1)},
        {"grid": (1 << 20, 1 << 20, 1)},
        {"order": "sideways"},
        {"order": "threads:0"},
        {"order": array("i", [0, 1])},
        {"begin": 5, "end": 3},
        {"end": COUNT + 1},
        {"order": "threads:2", "begin": 1},
    ):
        call = {"args": args, "grid": (COUNT, 1, 1), **change}
        with pytest.raises(InputError):
            kernel.run(call.pop("args"), call.pop("grid"), **call)
    assert (y == -1).all()


def test_an_empty_grid_runs_nothing(kernel: LoadedKernel) -> None:
    x, y = tensors()
    kernel.run(packed(kernel, x, y), (0, 1, 1), order="threads:2")
    kernel.run(packed(kernel, x, y), (0, 1, 1))
    assert (y == -1).all()


def test_arguments_are_packed_as_the_abi_says() -> None:
    slots = pack_args(
        ("ptr", "i1", "i8", "i32", "i64", "i64", "f16", "bf16", "f32", "f64"),
        (2**63 + 1, True, -1, -2, 2**64 - 1, 5, 1.5, 1 + 1 / 256, 0.1, 0.1),
    )
    expected = struct.pack("<Qqqqqqe6xH6xf4xd", 2**63 + 1, 1, -1, -2, -1, 5, 1.5, 0x3F80, 0.1, 0.1)
    assert slots == expected


@pytest.mark.parametrize(
    ("value", "bits"),
    [(1 + 3 / 256, 0x3F82), (-0.0, 0x8000), (float("inf"), 0x7F80), (float("nan"), 0x7FC0)],
)
def test_bfloat16_arguments_round_to_nearest_even(value: float, bits: int) -> None:
    assert pack_args(("bf16",), (value,)) == struct.pack("<H6x", bits)


def test_arguments_that_do_not_fit_are_refused() -> None:
    for params, values in ((("i32",), ()), (("f16",), (1e9,))):
        with pytest.raises(InputError):
            pack_args(params, values)
