"""CUDA as a kernelsmith device: not built. Every use says so."""

import dataclasses
from typing import Any, NoReturn

from kernelsmith.errors import MissingError
from kernelsmith.model import ObjectInfo


def _missing() -> NoReturn:
    raise MissingError(
        "the cuda device needs an NVIDIA GPU and is not built yet: no kernel runs on it",
        hint="use --device cpu",
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CudaDevice:
    """Known by name, so that tasks can declare cases for it; nothing on it can be used."""

    name: str = "cuda"

    @property
    def num_programs(self) -> int:
        _missing()

    def describe(self) -> dict[str, Any]:
        """Raises MissingError."""
        _missing()

    def object_id(self, ttir: str) -> str:
        """Raises MissingError."""
        _missing()

    def compile_ttir(self, ttir: str) -> Any:
        """Raises MissingError."""
        _missing()

    def load(self, info: ObjectInfo, code: bytes, *, base_pad_bytes: int = 0) -> Any:
        """Raises MissingError."""
        _missing()
