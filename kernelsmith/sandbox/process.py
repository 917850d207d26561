"""The process wall: what a worker can put around itself without namespaces.

Landlock where the kernel has it, the system-call filter, limits, an empty environment, a private
folder for temporary files, no capabilities. It shares namespaces with the host, so it is allowed
only for sources of our own (see ``choose``).
"""

import ctypes
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kernelsmith.ports import Role
from kernelsmith.sandbox import paths
from kernelsmith.sandbox.pipes import Command, start
from kernelsmith.sandbox.pool import Leased, Pool
from kernelsmith.sandbox.spool import open_spool

LANDLOCK_CREATE_RULESET = 444


@dataclass(slots=True, kw_only=True)
class Process:
    """A :class:`kernelsmith.ports.Sandbox`. ``limits`` are those of ``worker.wall.Limits``;
    ``landlock`` can only be switched off by a test."""

    pool: Pool
    limits: Mapping[str, int]
    landlock: bool = True

    def start(self, role: Role) -> Leased:
        """A worker that puts up its wall itself; its first job waits until it is ready."""
        return self.pool.lease(
            role, lambda folder: partial(start, self._command(role, folder), self.pool.starter)
        )

    def _command(self, role: Role, folder: Path) -> Command:
        tmp = self.pool.spool.folder(f"{folder.name}-tmp")
        packages = self.pool.spool.folder(f"{folder.name}-packages")
        seen = paths.visible()
        # To import a package Python lists the folder around it. Of a checkout that folder stays
        # closed, so the package is found through a folder that holds nothing else.
        (packages / seen.package.name).symlink_to(seen.package)
        nodes = list(map(str, paths.gpu_nodes(role)))
        driver = paths.driver_folder(role)
        gpu_facts = paths.gpu_facts(nodes, driver)
        settings = json.dumps(
            {
                "landlock": self.landlock,
                "read": [*map(str, seen.all), str(packages), *gpu_facts, *paths.OWN_FACTS],
                "write": ["/dev/null", *nodes],
                "limits": dict(self.limits),
                "python_flags": list(paths.PYTHON_FLAGS),
            }
        )
        return Command(
            arguments=tuple(paths.worker_command(role, str(folder), settings)),
            environment=paths.environment(str(tmp), [packages, *seen.python_path], driver),
            working_folder=tmp,
            log=folder.with_name(f"{folder.name}.log"),
        )

    def describe(self) -> dict[str, Any]:
        """What the record says of this wall."""
        return {
            "name": "process",
            "landlock_abi": landlock_abi() if self.landlock else 0,
            "namespaces": [],
            "network": "denied by system-call filter",
            "system_call_filter": platform.machine() == "x86_64",
            "limits": dict(self.limits),
        }

    def pause(self) -> None:
        """See :meth:`Pool.pause`."""
        self.pool.pause()

    def resume(self) -> None:
        """See :meth:`Pool.resume`."""
        self.pool.resume()

    def close(self) -> None:
        """Ends all templates and removes the spool."""
        self.pool.close()


def open_process(limits: Mapping[str, int] | None = None, *, landlock: bool = True) -> Process:
    """Builds the sandbox.

    Raises:
        StorageError: no place for the spool.
    """
    return Process(pool=Pool(spool=open_spool()), limits=paths.limits_of(limits), landlock=landlock)


def landlock_abi() -> int:
    """The kernel's Landlock version; 0 where it has none or it is switched off."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = int(libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1))
    return max(found, 0)
