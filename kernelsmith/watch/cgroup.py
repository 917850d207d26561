"""The control groups that this process is in, of either version: where their files lie."""

from pathlib import Path

PROCESS = Path("/proc/self/cgroup")
ROOT = Path("/sys/fs/cgroup")


def folder(controller: str, process: Path = PROCESS, root: Path = ROOT) -> Path | None:
    """The folder with a controller's files for this process; None where there is none.

    Inside a container the path that the system tells may be another's: then the root of what is
    mounted is this container's own.
    """
    try:
        lines = process.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if controller in names.split(","):
            places = [root / names, root / controller]
        elif not names and (root / "cgroup.controllers").exists():
            places = [root]
        else:
            continue
        for place in places:
            for found in (place / path.lstrip("/"), place):
                if found.is_dir():
                    return found
    return None


def number(path: Path) -> int | None:
    """The number that a file holds; None if it holds none ("max") or cannot be read."""
    try:
        return int(path.read_text().strip())
    except (OSError, ValueError):
        return None


def table(path: Path) -> dict[str, int]:
    """The ``name number`` lines of a file, or ``name: number kB`` as in /proc/meminfo; none where
    it cannot be read."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {
        words[0].rstrip(":"): int(words[1])
        for words in lines
        if words[1:2] and words[1].isdigit() and words[2:] in ([], ["kB"])
    }
