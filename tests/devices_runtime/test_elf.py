"""The object loader: what it loads runs, and what it does not know it refuses by name."""

import random
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kernelsmith.devices.cpu.elf import link
from kernelsmith.devices.cpu.kernel import load
from kernelsmith.devices.cpu.launch import pack_args
from kernelsmith.errors import CompileError
from kernelsmith.model import ObjectInfo

SIGNATURE = "(ptr %args, ptr %grid, ptr %order, i64 %begin, i64 %end, ptr %arena)"


def check_scale(info: ObjectInfo, code: bytes, pad_bytes: int = 0) -> int:
    kernel = load(info, code, base_pad_bytes=pad_bytes)
    x = np.arange(64, dtype=np.float32)
    y = np.zeros(64, np.float32)
    kernel.run(pack_args(info.params, (x.ctypes.data, y.ctypes.data, x.nbytes)), (64, 1, 1))
    assert (y == x * np.tile(np.array([1, 2, 3, 4], np.float32), 16)).all()
    return kernel.address


@pytest.mark.parametrize("pad_bytes", [0, 1, 64, 4096, 100_000])
def test_code_runs_at_any_placement_and_stays_aligned(
    scale_info: ObjectInfo, scale_object: bytes, pad_bytes: int
) -> None:
    address = check_scale(scale_info, scale_object, pad_bytes)
    assert address % 64 == 0
    assert address % 4096 == -(-pad_bytes // 64) * 64 % 4096


def test_absolute_addresses_of_a_static_object_are_applied(
    scale_info: ObjectInfo, scale_static_object: bytes
) -> None:
    assert check_scale(scale_info, scale_static_object) < 2**31


def protections(address: int, nbytes: int) -> list[str]:
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high, mode = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
        if int(low, 16) < address + nbytes and address < int(high, 16):
            found.append(mode[:3])
    return found


def test_no_page_is_writable_and_executable_and_close_unmaps(scale_object: bytes) -> None:
    image = link(scale_object)
    # Code, then constants; a neighbouring mapping of the same kind may be merged with ours.
    assert protections(image.base, image.nbytes) == ["r-x", "r--"]
    image.close()
    with pytest.raises(CompileError, match="closed"):
        image.address("scale")


def test_symbol_from_elsewhere_is_refused_by_name(compile_ir: Callable[..., bytes]) -> None:
    code = compile_ir(
        f"declare void @getenv(ptr)\ndefine void @k{SIGNATURE} {{\n"
        "  call void @getenv(ptr %args)\n  ret void\n}"
    )
    with pytest.raises(CompileError, match="needs getenv, which it does not hold"):
        link(code)


def test_writable_data_is_refused_by_name(compile_ir: Callable[..., bytes]) -> None:
    code = compile_ir(
        f"@state = internal global i64 7\ndefine void @k{SIGNATURE} {{\n"
        "  store i64 %begin, ptr @state\n  %v = load i64, ptr @state\n"
        "  store i64 %v, ptr %args\n  ret void\n}"
    )
    with pytest.raises(CompileError, match=r"writable data \(\.data\)"):
        link(code)


def test_unknown_relocation_is_refused_with_its_type(scale_object: bytes) -> None:
    pc32 = struct.pack("<I", 2)
    # Every relocation of type R_X86_64_PC32 becomes R_X86_64_GOTPCREL.
    table = relocation_table(scale_object)
    broken = bytearray(scale_object)
    for entry in range(table.start, table.stop, 24):
        if broken[entry + 8 : entry + 12] == pc32:
            broken[entry + 8 : entry + 12] = struct.pack("<I", 9)
    with pytest.raises(CompileError, match="relocation of type 9"):
        link(bytes(broken))


def relocation_table(code: bytes) -> range:
    """Bytes of the relocations of .text."""
    (sections,) = struct.unpack_from("<Q", code, 0x28)
    entry_bytes, count, _ = struct.unpack_from("<HHH", code, 0x3A)
    for index in range(count):
        fields = struct.unpack_from("<IIQQQQIIQQ", code, sections + index * entry_bytes)
        if fields[1] == 4:
            return range(fields[4], fields[4] + fields[5])
    raise AssertionError("no relocations")


def test_relocation_outside_its_section_is_refused(scale_object: bytes) -> None:
    table = relocation_table(scale_object)
    broken = bytearray(scale_object)
    struct.pack_into("<Q", broken, table.start, 1 << 40)
    with pytest.raises(CompileError, match="relocation outside"):
        link(bytes(broken))


def test_other_files_and_damaged_objects_are_refused(scale_object: bytes) -> None:
    for code in (b"", b"\x7fELF", b"MZ" + bytes(100), bytes(16) + scale_object[16:]):
        with pytest.raises(CompileError):
            link(code)
    # Truncated anywhere: refused, or loaded when only unused bytes are gone; never a crash.
    draw = random.Random(5)
    for _ in range(50):
        try:
            link(scale_object[: draw.randrange(len(scale_object))]).close()
        except CompileError:
            continue


def test_absent_function_is_an_error_that_lists_what_there_is(scale_object: bytes) -> None:
    with pytest.raises(CompileError, match=r"no function other: \['scale'\]"):
        link(scale_object).address("other")
