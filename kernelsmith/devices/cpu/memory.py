"""Anonymous memory from the system: mapped, protected, unmapped."""

import ctypes
import functools
import mmap

from kernelsmith.errors import InfrastructureError

PAGE_BYTES = mmap.PAGESIZE
READ = mmap.PROT_READ
WRITE = mmap.PROT_WRITE
EXECUTE = mmap.PROT_EXEC
_MAP_32BIT = 0x40
_MAP_FAILED = ctypes.c_void_p(-1).value


@functools.cache
def libc() -> ctypes.CDLL:
    """The C library of this process, with the signatures used here."""
    lib = ctypes.CDLL(None, use_errno=True)
    lib.mmap.restype = ctypes.c_void_p
    lib.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    )
    lib.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    lib.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return lib


def round_up(nbytes: int, multiple: int) -> int:
    """The smallest multiple that is at least ``nbytes``."""
    return -(-nbytes // multiple) * multiple


def map_pages(nbytes: int, *, protection: int = READ | WRITE, low: bool = False) -> int:
    """Maps zeroed private memory and returns its address.

    Args:
        nbytes: rounded up to whole pages.
        protection: of all pages; change parts with :func:`protect`.
        low: below 2 GiB, for code with absolute 32-bit addresses.

    Raises:
        InfrastructureError: the system refuses.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | (_MAP_32BIT if low else 0)
    address = libc().mmap(None, round_up(nbytes, PAGE_BYTES), protection, flags, -1, 0)
    if address == _MAP_FAILED or address is None:
        raise InfrastructureError(
            f"mmap of {nbytes} bytes failed (errno {ctypes.get_errno()})",
            hint="is the memory limit of this process too low?",
        )
    return int(address)


def protect(address: int, nbytes: int, protection: int) -> None:
    """Changes the protection of whole pages.

    Raises:
        InfrastructureError: the system refuses (some walls forbid executable memory).
    """
    if libc().mprotect(address, round_up(nbytes, PAGE_BYTES), protection) != 0:
        raise InfrastructureError(
            f"mprotect({protection}) of {nbytes} bytes failed (errno {ctypes.get_errno()})",
            hint="does a security policy forbid executable memory?",
        )


def unmap(address: int, nbytes: int) -> None:
    """Gives whole pages back."""
    libc().munmap(address, round_up(nbytes, PAGE_BYTES))
