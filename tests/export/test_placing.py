"""Files get into place whole or not at all, and nothing else is touched."""

import fcntl
import os
from pathlib import Path, PurePosixPath

import pytest

from kernelsmith.errors import InputError
from kernelsmith.library import layout, placing

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


def test_a_new_library_is_there_at_once_and_leaves_nothing_beside(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    placing.place(folder, files("a = 1\n"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["library"]
    assert (folder / "op" / OLD / "kernel.py").read_text() == "a = 1\n"
    assert (folder.stat().st_mode & 0o777) == 0o755


def test_a_new_epoch_joins_the_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    placing.place(folder, files("a = 1\n"))
    placing.place(folder, files("a = 2\n", NEW))
    assert (folder / "op" / OLD / "kernel.py").read_text() == "a = 1\n"
    assert (folder / "op" / NEW / "kernel.py").read_text() == "a = 2\n"
    assert layout.read(folder).ops["op"].current == NEW


def test_an_epoch_is_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    placing.place(folder, files("a = 1\n"))
    (folder / "op" / OLD / "left_over.py").write_text("")
    placing.place(folder, files("a = 2\n"))
    assert sorted(path.name for path in (folder / "op" / OLD).iterdir()) == ["kernel.py", "seed.py"]
    assert (folder / "op" / OLD / "kernel.py").read_text() == "a = 2\n"


def test_an_equal_epoch_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    placing.place(folder, files("a = 1\n"))
    inode = (folder / "op" / OLD).stat().st_ino
    placing.place(folder, files("a = 1\n"))
    assert (folder / "op" / OLD).stat().st_ino == inode


def test_what_fails_half_way_leaves_the_index_and_every_epoch_as_they_were(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    placing.place(folder, files("a = 1\n"))
    (folder / "z_op").write_text("a file where an op must go")
    more = {**files("a = 2\n", NEW, "z_op"), **files("a = 2\n", NEW)}
    with pytest.raises(FileExistsError):
        placing.place(folder, more)
    assert layout.read(folder).ops["op"].current == OLD
    assert (folder / "op" / OLD / "kernel.py").read_text() == "a = 1\n"
    assert not list(folder.glob(".kernelsmith-export-*"))


def test_what_a_killed_export_left_is_cleared_away(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    placing.place(folder, files("a = 1\n"))
    left = folder / ".kernelsmith-export-killed"
    left.mkdir()
    placing.place(folder, files("a = 2\n"))
    assert not left.exists()


def test_two_exports_into_one_place_do_not_mix(tmp_path: Path) -> None:
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(InputError, match="another export is writing"):
        placing.place(tmp_path / "library", files("a = 1\n"))
    os.close(held)
    placing.place(tmp_path / "library", files("a = 1\n"))


@pytest.mark.parametrize(
    ("name", "package"),
    [("our-kernels", "our_kernels"), ("9lives", "_9lives"), ("class", "_class"), ("k", "k")],
)
def test_the_package_is_named_after_the_folder(tmp_path: Path, name: str, package: str) -> None:
    assert layout.package_name(tmp_path / name) == package
