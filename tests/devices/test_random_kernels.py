"""Random kernels of loops, branches, early returns, loads, stores and atomics: as the same source
does when Python runs it over numpy."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kernelsmith.devices.cpu import activate, deactivate
from tests.devices.kernel_source import kernel
from tests.devices.numpy_language import Int, Pointer, language

CELLS = 600


@pytest.fixture(autouse=True)
def _active() -> Iterator[None]:
    activate(threads=1)
    yield
    deactivate()


def jit_function(path: Path, source: str) -> Any:
    """Triton reads a kernel's source from its file."""
    path.write_text(f"import triton\nimport triton.language as tl\n\n\n@triton.jit\n{source}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.k


def compare(folder: Path, seed: int) -> None:
    source, size = kernel(seed)
    compiled = jit_function(folder / f"kernel_{seed}.py", source)
    rng = np.random.default_rng(seed)
    for n in (0, 3):
        memory = rng.integers(-9, 9, CELLS).astype(Int), np.zeros(CELLS, Int)
        given = [torch.from_numpy(array.copy()) for array in memory]
        with np.errstate(all="ignore"):
            for program in (0, 1):
                names: dict[str, Any] = {"tl": language(program)}
                exec(source, names)
                names["k"](*map(Pointer, memory), Int(n), size)
        compiled[(2,)](*given, n, size)
        for got, want in zip(given, memory, strict=True):
            assert np.array_equal(got.numpy(), want), source


@pytest.mark.parametrize("seed", range(8))
def test_a_random_kernel_does_what_its_source_says(tmp_path: Path, seed: int) -> None:
    compare(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 400, 50))
def test_many_random_kernels_do_what_their_sources_say(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 50):
        compare(tmp_path, seed)
