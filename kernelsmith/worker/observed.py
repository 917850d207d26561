"""A run that is observed: who touches what, in the launcher's own buffers."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernelsmith.devices.cpu import observe_run
from kernelsmith.model import ITEMSIZE_BYTES, Finding, Launch, Run, TensorMeta
from kernelsmith.worker import buffers, launcher_bind

MisalignedError = observe_run.MisalignedError
UnobservableError = observe_run.UnobservableError


def run(
    one: Run,
    held: buffers.BufferSet,
    bounds: Sequence[launcher_bind.Bound],
    *,
    arena: int,
    seconds: float,
    bytewise: bool,
) -> tuple[Finding, ...]:
    """Runs the launches of a plan, bound to observing builds, and returns what was found.

    Raises:
        MisalignedError: lay the buffers again and call with ``bytewise``.
        UnobservableError: the call is too large to be observed.
    """
    metas = {spec.name: spec.meta for spec in one.inputs.tensors}
    watched = [
        observe_run.Watched(
            name=name,
            address=held.address(index),
            nbytes=buffer.nbytes,
            holds=bool(buffer.arg),
            inside=_inside(buffer.nbytes, metas[buffer.arg]) if buffer.arg else None,
        )
        for index, (name, buffer) in enumerate(
            zip(buffers.names(one.plan), one.plan.buffers, strict=True)
        )
    ]
    steps = [_step(launch, bound) for launch, bound in zip(one.plan.launches, bounds, strict=True)]
    return observe_run.observe_steps(
        watched, steps, arena=arena, seconds=seconds, bytewise=bytewise
    )


def _step(launch: Launch, bound: launcher_bind.Bound) -> observe_run.Step:
    return observe_run.Step(
        info=bound.entry.info,
        entry=bound.entry.address,
        args=bytes(bound.args),
        grid=launch.grid,
        buffers={place: arg.buffer for place, arg in enumerate(launch.args) if arg.kind == "ptr"},
    )


def _inside(nbytes: int, meta: TensorMeta) -> NDArray[np.uint8] | None:
    """1 for each byte of the storage that an element takes; None if that is all of them."""
    if int(np.prod(meta.shape)) * ITEMSIZE_BYTES[meta.dtype] >= nbytes:
        return None
    marked = np.zeros(nbytes, np.uint8)
    item = ITEMSIZE_BYTES[meta.dtype]
    buffers.element_view(marked, meta)[...] = int.from_bytes(b"\1" * item, "little")
    return marked
