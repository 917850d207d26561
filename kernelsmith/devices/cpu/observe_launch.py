"""``kernel[grid](*tensors)`` while :func:`kernelsmith.devices.cpu.observing` is in charge."""

from collections.abc import Mapping
from typing import Any

from kernelsmith.devices.cpu.arena import Arena
from kernelsmith.devices.cpu.observe_run import MisalignedError, Step, Watched, observe_steps
from kernelsmith.errors import InputError
from kernelsmith.model import Finding, ObjectInfo

SECONDS = 60.0
"""After which a loop of an observed launch is stopped and named."""


class ObservingGrid:
    """Runs each launch on its own, and keeps what was found in ``found``.

    Bounds are those of the tensors' storages. Whether a tensor was ever written is not known here,
    so each counts as written."""

    def __init__(self, found: list[Finding]) -> None:
        self.found = found
        self._arena = Arena()

    def observe(
        self,
        info: ObjectInfo,
        entry: int,
        args: bytes,
        grid: tuple[int, int, int],
        tensors: Mapping[int, Any],
    ) -> None:
        """One launch; ``tensors`` by number of their parameter.

        Raises:
            InputError: an address instead of a tensor, or more memory than can be kept of.
        """
        names = info.stats["names"]
        watched: dict[int, Watched] = {}
        places: dict[int, int] = {}
        for param, tensor in tensors.items():
            if not hasattr(tensor, "untyped_storage"):
                raise InputError(
                    f"argument {names[param]} is an address; what lies there cannot be observed",
                    hint="pass the tensor itself",
                )
            storage = tensor.untyped_storage()
            address = storage.data_ptr()
            if address not in watched:
                watched[address] = Watched(
                    name=names[param], address=address, nbytes=storage.nbytes(), holds=True
                )
            places[param] = list(watched).index(address)
        step = Step(info=info, entry=entry, args=args, grid=grid, buffers=places)
        arena = self._arena.reserve(info.arena_bytes)
        for bytewise in (False, True):
            try:
                self.found += observe_steps(
                    list(watched.values()), [step], arena=arena, seconds=SECONDS, bytewise=bytewise
                )
                return
            except MisalignedError:
                continue

    def run(self, *launch: Any) -> None:
        """Raises: a kernel that was compiled before and notes nothing."""
        raise InputError("a kernel that was not compiled to be observed cannot be")

    def close(self) -> None:
        self._arena.close()
