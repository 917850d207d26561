"""Removes what a worker left behind, whatever it is."""

import contextlib
import itertools
import os
from pathlib import Path


def remove_tree(path: Path) -> None:
    """Removes a folder and all in it; what cannot be removed stays, without an error.

    Python's own remover calls itself for each folder in a folder, so that a job that makes a
    thousand of them in one another would end the host. Here each level is lifted to the top. No
    link is followed. The processes that wrote into the folder have ended.
    """
    try:
        top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    names = itertools.count()
    try:
        left = -1
        while (found := os.listdir(top)) and left != 0:
            left = sum(_removed(top, name, names) for name in found)
    except OSError:
        pass
    finally:
        os.close(top)
    with contextlib.suppress(OSError):
        path.rmdir()


def _removed(top: int, name: str, names: "itertools.count[int]") -> bool:
    """Removes one entry of the top folder, its own folders lifted there; whether it is gone."""
    try:
        os.unlink(name, dir_fd=top)
        return True
    except OSError:
        pass
    try:
        os.chmod(name, 0o700, dir_fd=top)  # a folder, else it were gone by now
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    except OSError:
        return False
    try:
        for child in os.listdir(inner):
            try:
                os.unlink(child, dir_fd=inner)
            except OSError:
                with contextlib.suppress(OSError):
                    os.chmod(child, 0o700, dir_fd=inner)
                    os.rename(child, f"{next(names)}.lifted", src_dir_fd=inner, dst_dir_fd=top)
        os.rmdir(name, dir_fd=top)
    except OSError:
        return False
    finally:
        os.close(inner)
    return True
