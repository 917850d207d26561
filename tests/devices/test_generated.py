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
from tests.devices.ttir_texts import function, levels, pack, run

PARAMS = ("ptr", "ptr", "i32", "i32", "i32")


def plain(text: str) -> LoadedKernel:
    features = features_of("host")
    lowered = lower(parse(text), features, "k", plain=True)
    info = ObjectInfo(
        id="plain", symbol="k", params=PARAMS, arena_bytes=lowered.arena_bytes, code_hash=""
    )
    return load(info, compile_ir(lowered.ir, features))


def memory_after(kernel: LoadedKernel, shape: tuple[int, int], seed: int) -> list[bytes]:
    """The buffers' bytes after runs with whole, partial and empty masks, apart and overlapping."""
    m, n = shape
    out = []
    for stride, columns, rows, shift in (
        (n, n, m, 6000),
        (n + 3, max(1, n - 3), m, 6000),
        (n, n // 2, max(1, m - 1), 40),
        (n, 1, 1, 6000),
        (n + 5, n, m, 3),
    ):
        memory = np.random.default_rng(seed).standard_normal(12000).astype(np.float32)
        args = (memory, memory[shift:], stride, columns, rows)
        kernel.run(pack(PARAMS, args), (1, 1, 1))
        out.append(memory.tobytes())
    return out


@pytest.mark.parametrize("seed", [*range(11), 377])
def test_fast_code_does_what_plain_code_does(seed: int) -> None:
    text, shape = program(seed)
    want = memory_after(plain(text), shape, seed)
    for cpu in levels()[-2:]:
        done = compile_ttir(text, cpu=cpu)
        assert memory_after(load(done.info, done.code), shape, seed) == want


@pytest.mark.parametrize("seed", range(8))
def test_it_does_so_with_scans_cubes_calls_and_maps(seed: int) -> None:
    text, shape = program(seed, rich=True)
    done = compile_ttir(text)
    fast, slow = load(done.info, done.code), plain(text)
    assert memory_after(fast, shape, seed) == memory_after(slow, shape, seed)
    assert compile_ttir(text, observed=True).code


@pytest.mark.parametrize(("again", "want"), [(True, 2.0**60), (False, 1501.0)])
def test_long_formulas_are_walked_once(again: bool, want: float) -> None:
    steps = 60 if again else 1500
    t, pointers = "tensor<16xf32>", "tensor<16x!tt.ptr<f32>>"
    lines = [
        "%i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>",
        f"%s = tt.splat %x : !tt.ptr<f32> -> {pointers}",
        f"%p = tt.addptr %s, %i : {pointers}, tensor<16xi32>",
        f"%v0 = tt.load %p : {pointers}",
    ]
    for k in range(steps):
        lines.append(f"%v{k + 1} = arith.addf %v{k}, %v{k if again else 0} : {t}")
    lines += [f"tt.store %p, %v{steps} : {pointers}", "tt.return"]
    x = np.ones(16, np.float32)
    run(function("k", ["%x: !tt.ptr<f32>"], lines), x)
    assert (x == np.float32(want)).all()
