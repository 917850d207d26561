"""How many blocks of a kernel one multiprocessor holds, computed without a GPU.

Source of the limits: "Technical Specifications per Compute Capability" in NVIDIA's CUDA C++
Programming Guide; of the rules (allocation units, the kilobyte the driver reserves a block):
``cuda_occupancy.h`` of the CUDA toolkit. A test compiles that header, which Triton's wheel
carries, and holds this against it. All memory that can be shared memory counts as such; the driver
may give a part of it to the L1 cache. Clusters (``num_ctas`` > 1) are placed together; what is
computed here for them is an upper bound.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kernelsmith.errors import InputError

WARP_THREADS = 32
REGISTERS_UNIT = 256
REGISTERS_A_THREAD_MAX = 255
SHARED_UNIT_BYTES = 128
# A multiprocessor has four parts, and warps are dealt to them.
PARTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one multiprocessor has. ``shared_reserved_bytes`` a block go to the driver."""

    shared_bytes: int
    shared_reserved_bytes: int = 1024
    registers: int = 65536
    warps: int = 64
    blocks: int = 32

    @property
    def shared_bytes_per_block(self) -> int:
        return self.shared_bytes - self.shared_reserved_bytes


LIMITS: Mapping[int, Limits] = {
    80: Limits(shared_bytes=164 << 10),
    90: Limits(shared_bytes=228 << 10),
    100: Limits(shared_bytes=228 << 10),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Blocks and warps at once on a multiprocessor, their share of all warps it could hold, and
    what allows no more: "warps", "blocks", "registers" or "shared". 0 blocks: it cannot run."""

    blocks: int
    warps: int
    share: float
    limited_by: str


def occupancy(arch: int, *, num_warps: int, registers: int, shared_bytes: int) -> Occupancy:
    """What fits on a multiprocessor of sm_``arch``.

    Args:
        registers: a thread's.
        shared_bytes: a block's, declared and given at the launch.

    Raises:
        InputError: the limits of this architecture are not known here.
    """
    limits = LIMITS.get(arch)
    if limits is None:
        raise InputError(f"no occupancy limits for sm_{arch}", hint=f"known: {sorted(LIMITS)}")
    fits = {
        "warps": limits.warps // num_warps,
        "blocks": limits.blocks,
        "registers": _by_registers(limits, num_warps, registers),
        "shared": _by_shared(limits, shared_bytes),
    }
    by = min(fits, key=fits.__getitem__)
    blocks = fits[by]
    warps = blocks * num_warps
    return Occupancy(blocks=blocks, warps=warps, share=warps / limits.warps, limited_by=by)


def _by_registers(limits: Limits, num_warps: int, registers: int) -> int:
    a_warp = _up(registers * WARP_THREADS, REGISTERS_UNIT)
    # The check at a launch takes it that every part gives registers to every round of warps.
    if a_warp * _up(num_warps, PARTS) > limits.registers or registers > REGISTERS_A_THREAD_MAX:
        return 0
    if a_warp == 0:
        return limits.blocks
    return limits.registers // PARTS // a_warp * PARTS // num_warps


def _by_shared(limits: Limits, shared_bytes: int) -> int:
    if shared_bytes > limits.shared_bytes_per_block:
        return 0
    used = _up(shared_bytes + limits.shared_reserved_bytes, SHARED_UNIT_BYTES)
    return limits.shared_bytes // used


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
