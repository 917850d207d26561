"""Landlock: which files this process and all it starts may reach (Linux 5.13 and later)."""

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_FLAG = 1
RULE_PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
# Rights each version of the interface added, up to 5: version 2 refer, 3 truncate, 5 ioctl_dev.
RIGHTS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
READ = EXECUTE | READ_FILE | READ_DIR
# What a rule on a plain file may grant.
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15
NETWORK_ABI, NETWORK_RIGHTS = 4, 0b11
SCOPE_ABI, SCOPE_RIGHTS = 6, 0b11


def abi() -> int:
    """The kernel's Landlock version; 0 where it has none or it is switched off."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = int(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION_FLAG))
    return max(found, 0)


def restrict(*, read: Iterable[Path], write: Iterable[Path]) -> int:
    """Leaves this process only ``read`` (with execution) and ``write`` (all rights) and what is
    below them; also no TCP and no signals to processes outside, where the kernel can.

    Paths that do not exist are left out.

    Returns:
        The Landlock version that was used.

    Raises:
        OSError: the kernel refuses, or has no Landlock.
    """
    version = abi()
    if version == 0:
        raise OSError("this kernel has no Landlock")
    libc = ctypes.CDLL(None, use_errno=True)
    rights = RIGHTS_BY_ABI[max(known for known in RIGHTS_BY_ABI if known <= version)]
    attributes = struct.pack(
        "<QQQ",
        rights,
        NETWORK_RIGHTS if version >= NETWORK_ABI else 0,
        SCOPE_RIGHTS if version >= SCOPE_ABI else 0,
    )
    size = 24 if version >= SCOPE_ABI else 16 if version >= NETWORK_ABI else 8
    ruleset = _checked(
        libc, libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(size), 0), "create"
    )
    try:
        for paths, granted in ((read, READ), (write, rights)):
            for path in paths:
                _allow(libc, ruleset, path, granted & rights)
        _checked(libc, libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        _checked(libc, libc.syscall(RESTRICT_SELF, ruleset, 0), "restrict")
    finally:
        os.close(ruleset)
    return version


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, granted: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not path.is_dir():
            granted &= FILE_RIGHTS
        rule = struct.pack("<Qi", granted, descriptor)
        code = libc.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0)
        _checked(libc, code, f"rule for {path}")
    finally:
        os.close(descriptor)


def _checked(libc: ctypes.CDLL, code: int, what: str) -> int:
    if code < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock {what}: {os.strerror(number)}")
    return int(code)
