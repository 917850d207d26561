"""Runs the seeds on the CPU device."""

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from kernelsmith import cases, catalog
from kernelsmith.devices.cpu import activated
from kernelsmith.model import Case, Task
from kernelsmith.numerics import recipes

ROOT = Path(__file__).parents[2]
TORCH_DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A seed that can be called by case."""

    task: Task
    module: ModuleType

    def case(self, call: str, dtype: str, regime: str = "normal", **dims: int) -> Case:
        return cases.call_for(self.task, call, dtype, dims, regime)

    def tensors(
        self,
        case: Case,
        seed: int = 1,
        rows: tuple[int, ...] | None = None,
        base_tokens: int | None = None,
    ) -> dict[str, torch.Tensor | float | None]:
        """The arguments of a case by name; rows are strided as the case says."""
        inputs = cases.inputs_for(self.task, case, seed, rows=rows, base_tokens=base_tokens)
        drawn = recipes.draw(inputs)
        arguments: dict[str, torch.Tensor | float | None] = dict(inputs.scalars)
        for spec in inputs.tensors:
            tensor = to_torch(drawn[spec.name], spec.meta.dtype)
            if case.row_stride_pad and tensor.dim() == 2:
                wide = tensor.new_empty((tensor.shape[0], spec.meta.strides[0]))
                wide.fill_(float("nan"))
                wide[:, : tensor.shape[1]] = tensor
                tensor = wide[:, : tensor.shape[1]]
            arguments[spec.name] = tensor
        return arguments

    def run(
        self, case: Case, arguments: Mapping[str, torch.Tensor | float | None] | None = None
    ) -> dict[str, torch.Tensor]:
        """The outputs of a case by name."""
        given = self.tensors(case) if arguments is None else arguments
        call = self.task.call(case.call)
        outputs = getattr(self.module, call.entry)(*[given[arg.name] for arg in call.args])
        return dict(zip([output.name for output in call.outputs], outputs, strict=True))

    def bits(
        self, case: Case, arguments: Mapping[str, torch.Tensor | float | None] | None = None
    ) -> dict[str, bytes]:
        """Contiguous bytes of the outputs: equality is equality of bytes."""
        return {
            name: tensor.contiguous().view(torch.uint8).numpy().tobytes()
            for name, tensor in self.run(case, arguments).items()
        }


def to_torch(array: np.ndarray, dtype: str) -> torch.Tensor:
    if dtype == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def load(name: str) -> ModuleType:
    path = ROOT / "seed_kernels" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"seed_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def cpu_device(triton_cache: None) -> Iterator[None]:
    with activated():
        yield


@pytest.fixture(scope="session")
def rms_norm(cpu_device: None) -> Bench:
    return Bench(task=catalog.load_task("rms_norm", "cpu"), module=load("rms_norm"))


@pytest.fixture(scope="session")
def linear(cpu_device: None) -> Bench:
    return Bench(task=catalog.load_task("linear", "cpu"), module=load("linear"))


@pytest.fixture(scope="session")
def swiglu(cpu_device: None) -> Bench:
    return Bench(task=catalog.load_task("swiglu", "cpu"), module=load("swiglu"))


@pytest.fixture(scope="session")
def logprob(cpu_device: None) -> Bench:
    return Bench(task=catalog.load_task("logprob", "cpu"), module=load("logprob"))
