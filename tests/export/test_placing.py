"""Files get into place whole or not at all, and nothing else is touched."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from kernelsmith.errors import InputError, StorageError
from kernelsmith.library import layout, placing

ROOT = Path(__file__).resolve().parents[2]
OLD, NEW = "e" + "0" * 16, "e" + "1" * 16


def files(kernel: str, epoch: str = OLD, op: str = "op") -> dict[PurePosixPath, bytes]:
    entry = layout.OpEntry(current=epoch, epochs=tuple(dict.fromkeys((OLD, epoch))))
    return {
        PurePosixPath("__init__.py"): b"# package\n",
        PurePosixPath(op) / "__init__.py": b"# op\n",
        PurePosixPath(op) / epoch / "kernel.py": kernel.encode(),
        PurePosixPath(op) / epoch / "seed.py": b"# seed\n",
        PurePosixPath(layout.INDEX): layout.index_text(layout.Library(ops={op: entry})).encode(),
    }


def place(folder: Path, of: dict[PurePosixPath, bytes]) -> None:
    placing.place(folder, lambda before: of)


def test_a_new_library_is_there_at_once_and_leaves_nothing_beside(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    place(folder, files("a = 1\n"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["library"]
    assert (folder / "op" / OLD / "kernel.py").read_text() == "a = 1\n"
    assert (folder.stat().st_mode & 0o777) == 0o755


def test_a_new_epoch_joins_the_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    place(folder, files("a = 1\n"))
    place(folder, files("a = 2\n", NEW))
    assert (folder / "op" / OLD / "kernel.py").read_text() == "a = 1\n"
    assert (folder / "op" / NEW / "kernel.py").read_text() == "a = 2\n"
    assert layout.read(folder).ops["op"].current == NEW


def test_an_epoch_is_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    place(folder, files("a = 1\n"))
    (folder / "op" / OLD / "left_over.py").write_text("")
    place(folder, files("a = 2\n"))
    assert sorted(path.name for path in (folder / "op" / OLD).iterdir()) == ["kernel.py", "seed.py"]
    assert (folder / "op" / OLD / "kernel.py").read_text() == "a = 2\n"


def test_an_equal_epoch_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    place(folder, files("a = 1\n"))
    inode = (folder / "op" / OLD).stat().st_ino
    place(folder, files("a = 1\n"))
    assert (folder / "op" / OLD).stat().st_ino == inode


def test_what_fails_half_way_leaves_the_index_and_every_epoch_as_they_were(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    place(folder, files("a = 1\n"))
    (folder / "z_op").write_text("a file where an op must go")
    more = {**files("a = 2\n", NEW, "z_op"), **files("a = 2\n", NEW)}
    with pytest.raises(StorageError, match="File exists"):
        place(folder, more)
    assert layout.read(folder).ops["op"].current == OLD
    assert (folder / "op" / OLD / "kernel.py").read_text() == "a = 1\n"
    assert not list(folder.glob(".kernelsmith-export-*"))


def test_what_a_killed_export_left_is_cleared_away(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    place(folder, files("a = 1\n"))
    left = folder / ".kernelsmith-export-killed"
    left.mkdir()
    place(folder, files("a = 2\n"))
    assert not left.exists()


def test_two_exports_into_one_place_do_not_mix(tmp_path: Path) -> None:
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(InputError, match="another export or rollback is writing"):
        place(tmp_path / "library", files("a = 1\n"))
    os.close(held)
    place(tmp_path / "library", files("a = 1\n"))


def test_an_export_begins_from_the_index_that_is_there_when_it_writes(tmp_path: Path) -> None:
    """Another export, or a rollback, may have ended since the work on this one began."""
    folder = tmp_path / "library"
    place(folder, files("a = 1\n"))
    seen = []

    def build(before: layout.Library | None) -> dict[PurePosixPath, bytes]:
        seen.append(before)
        with pytest.raises(InputError, match="another export or rollback"):
            place(folder, files("a = 3\n"))
        return files("a = 2\n", NEW)

    placing.place(folder, build)
    assert seen == [layout.Library(ops={"op": layout.OpEntry(current=OLD, epochs=(OLD,))})]


def test_an_export_that_is_killed_leaves_what_was_used_before(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    place(folder, files("a = 1\n"))
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from kernelsmith.library import placing; from tests.export.test_placing import *\n"
        "step, moves = int(sys.argv[2]), [0]\n"
        "def counted(old):\n"
        "    def move(*args):\n"
        "        moves[0] += 1\n"
        "        if moves[0] > step: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return old(*args)\n"
        "    return move\n"
        "Path.rename, Path.replace = counted(Path.rename), counted(Path.replace)\n"
        "place(Path(sys.argv[1]), files('a = 2\\n', NEW))\n"
    )
    command = [sys.executable, "-c", script, str(folder)]
    for step in range(4):  # the epoch, two modules, the index
        done = subprocess.run([*command, str(step)], check=False, cwd=ROOT)
        assert layout.read(folder).ops["op"].current == (OLD if step < 3 else NEW)
        assert (folder / "op" / OLD / "kernel.py").read_text() == "a = 1\n"
        assert done.returncode == (-signal.SIGKILL if step < 3 else 0)
    assert not list(folder.glob(".kernelsmith-export-*"))


@pytest.mark.parametrize("name", ["torch", "json", "kernelsmith"])
def test_a_package_that_would_hide_another_module_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"the package '{name}', which is another module"):
        place(tmp_path / name, files("a = 1\n"))


@pytest.mark.parametrize("name", ["class", "_runtime", "__pycache__", "a-b", "a.b", ""])
def test_an_op_that_nobody_could_import_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="nobody could import it"):
        layout.require_op_name(name)


@pytest.mark.parametrize(
    ("name", "package"),
    [("our-kernels", "our_kernels"), ("9lives", "_9lives"), ("class", "_class"), ("k", "k")],
)
def test_the_package_is_named_after_the_folder(tmp_path: Path, name: str, package: str) -> None:
    assert layout.package_name(tmp_path / name) == package
