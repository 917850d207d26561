"""Random programs: code with every load and result in a buffer, run as it is written, and the
fast code must write the same bytes, whatever overlaps."""

import numpy as np
import pytest

from kernelsmith.devices.cpu.codegen_target import compile_ir, features_of
from kernelsmith.devices.cpu.compile import compile_ttir
from kernelsmith.devices.cpu.kernel import LoadedKernel, load
from kernelsmith.devices.cpu.lower_function import lower
from kernelsmith.devices.cpu.ttir_parse import parse
from kernelsmith.model import ObjectInfo
from tests.devices.generated import program
from tests.devices.ttir_texts import levels, pack

PARAMS = ("ptr", "ptr", "i32", "i32", "i32")


def plain(text: str) -> LoadedKernel:
    features = features_of("host")
    lowered = lower(parse(text), features, "k", plain=True)
    info = ObjectInfo(
        id="plain", symbol="k", params=PARAMS, arena_bytes=lowered.arena_bytes, code_hash=""
    )
    return load(info, compile_ir(lowered.ir, features))


def memory_after(kernel: LoadedKernel, shape: tuple[int, int], seed: int) -> list[bytes]:
    """The buffers' bytes after runs with whole and partial masks, apart and overlapping."""
    m, n = shape
    out = []
    for stride, columns, rows, shift in (
        (n, n, m, 6000),
        (n + 3, max(1, n - 3), m, 6000),
        (n, n // 2, max(1, m - 1), 40),
        (n + 5, n, m, 3),
    ):
        memory = np.random.default_rng(seed).standard_normal(12000).astype(np.float32)
        args = (memory, memory[shift:], stride, columns, rows)
        kernel.run(pack(PARAMS, args), (1, 1, 1))
        out.append(memory.tobytes())
    return out


@pytest.mark.parametrize("seed", range(12))
def test_fast_code_does_what_plain_code_does(seed: int) -> None:
    text, shape = program(seed)
    want = memory_after(plain(text), shape, seed)
    for cpu in levels()[-2:]:
        done = compile_ttir(text, cpu=cpu)
        assert memory_after(load(done.info, done.code), shape, seed) == want
