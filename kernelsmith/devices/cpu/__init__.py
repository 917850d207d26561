"""The CPU as a Triton device: unmodified kernels, compiled through LLVM, on CPU tensors.

The entry point ``kernelsmith_cpu`` of the group ``triton.backends`` names this package, so
``import triton`` imports :mod:`.compiler` and :mod:`.driver`. Both stay inert until
:func:`activate`: a driver that is active on its own makes Triton refuse to choose between two
drivers and breaks every other Triton program on the machine.

Importing this package imports none of triton, torch, llvmlite and numpy.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelsmith.model import Finding


def activate(*, threads: int | None = None, order: str = "ascending") -> None:
    """Makes ``kernel[grid](*cpu_tensors)`` run on this device, in this process.

    Args:
        threads: threads a grid runs over; None: all CPUs this process may use.
        order: the order programs run in: "ascending", "descending", "shuffled:<seed>" or
            "threads:<n>" (ascending over n threads, instead of ``threads``).

    Raises:
        MissingError: Triton is absent, or a version this device is not tested with.
    """
    from kernelsmith.devices.cpu.versions import require_triton

    require_triton()
    from triton.runtime import driver

    from kernelsmith.devices.cpu.driver import CpuDriver

    deactivate()
    previous = _before(driver)
    driver.set_active(CpuDriver(threads=threads, order=order, previous=previous))


def deactivate() -> None:
    """Gives Triton back the driver it had before :func:`activate`; nothing when inactive."""
    from triton.runtime import driver

    from kernelsmith.devices.cpu.driver import CpuDriver

    active = driver._active
    if isinstance(active, CpuDriver):
        driver.set_active(active.previous)
        active.close()


@contextmanager
def activated(*, threads: int | None = None, order: str = "ascending") -> Iterator[None]:
    """:func:`activate` for the length of a ``with`` block; what was active before, also by an
    enclosing block, is active again after it."""
    from kernelsmith.devices.cpu.versions import require_triton

    require_triton()
    from triton.runtime import driver

    from kernelsmith.devices.cpu.driver import CpuDriver

    before = _before(driver)
    ours = CpuDriver(threads=threads, order=order, previous=before)
    driver.set_active(ours)
    try:
        yield
    finally:
        driver.set_active(before)
        ours.close()


@contextmanager
def observing() -> Iterator["list[Finding]"]:
    """``kernel[grid](*cpu_tensors)`` in observing builds, for the length of a ``with`` block.

    Yields a list that each launch adds to: what its programs do to one another and out of bounds,
    by line, program and bytes. Programs run one after the other, in ascending order; an access out
    of bounds is not performed; ``str()`` of a finding is one line. What was active before is
    active again afterwards.

    Raises:
        MissingError: as :func:`activate`.
    """
    from kernelsmith.devices.cpu.versions import require_triton

    require_triton()
    from triton.runtime import driver

    from kernelsmith.devices.cpu.driver import CpuDriver

    found: list[Finding] = []
    before = _before(driver)
    ours = CpuDriver(previous=before, found=found)
    driver.set_active(ours)
    try:
        yield found
    finally:
        driver.set_active(before)
        ours.close()


def _before(driver: Any) -> Any:
    """The driver in charge, None if there is none. The default is resolved while ours still
    answers "inactive": another active driver (a GPU's) keeps its place as the default.

    Raises:
        MissingError: Triton has not found this plugin.
    """
    from triton.backends import backends

    from kernelsmith.errors import MissingError

    if not any(b.compiler.__module__ == f"{__name__}.compiler" for b in backends.values()):
        raise MissingError(
            "Triton does not know the kernelsmith_cpu backend",
            hint="install kernelsmith (pip install -e .) and unset TRITON_BACKENDS_IN_TREE",
        )
    try:
        return driver._active or driver.default
    except RuntimeError:
        return None
