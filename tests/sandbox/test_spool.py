"""The spool: private, swept when its host is dead, and read as if its writer were hostile."""

import os
import stat
import time
from pathlib import Path

import pytest

from kernelsmith.errors import SandboxError, StorageError
from kernelsmith.sandbox.spool import open_spool, read_file, sweep, write_file


@pytest.fixture
def folder(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_a_spool_is_private_and_gone_when_closed(tmp_path):
    spool = open_spool((tmp_path,))
    assert stat.S_IMODE(spool.path.stat().st_mode) == 0o700
    assert str(os.getpid()) in spool.path.name
    spool.folder("frontend-0")
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_the_next_place_is_taken_when_the_first_will_not_do(tmp_path):
    spool = open_spool((tmp_path / "missing", tmp_path))
    assert spool.path.parent == tmp_path
    spool.close()
    with pytest.raises(StorageError, match="no place for the spool"):
        open_spool((tmp_path / "missing",))


def test_the_spool_of_a_dead_host_is_swept_and_of_a_living_one_is_not(tmp_path):
    living = open_spool((tmp_path,))
    dead = tmp_path / "kernelsmith-spool-1-dead"
    dead.mkdir()
    (dead / "file").write_text("left")
    unnamed = tmp_path / "kernelsmith-unnamed-spool-2-old"
    unnamed.mkdir()
    fresh = tmp_path / "kernelsmith-unnamed-spool-2-fresh"
    fresh.mkdir()
    (tmp_path / "kernelsmith-spool-3-link").symlink_to(tmp_path)
    old = time.time() - 3600
    os.utime(unnamed, (old, old))
    os.utime(living.path, (old, old))
    assert sweep(tmp_path) == [dead, unnamed]
    assert living.path.exists()
    assert fresh.exists()
    living.close()


def test_bytes_are_read_back_in_parts(folder):
    write_file(folder, "out.bin", b"0123456789")
    assert read_file(folder, "out.bin") == b"0123456789"
    assert read_file(folder, "out.bin", offset=2, nbytes=3) == b"234"


def test_a_symbolic_link_is_refused(folder, tmp_path):
    (tmp_path / "out.bin").symlink_to("/etc/passwd")
    with pytest.raises(SandboxError, match="not a plain file"):
        read_file(folder, "out.bin")


def test_a_hard_link_is_refused(folder, tmp_path):
    (tmp_path / "secret").write_text("secret")
    os.link(tmp_path / "secret", tmp_path / "out.bin")
    with pytest.raises(SandboxError, match="one name"):
        read_file(folder, "out.bin")


def test_a_pipe_or_folder_is_refused_at_once(folder, tmp_path):
    os.mkfifo(tmp_path / "out.bin")
    with pytest.raises(SandboxError, match="plain file"):
        read_file(folder, "out.bin")
    (tmp_path / "folder").mkdir()
    with pytest.raises(SandboxError, match="plain file"):
        read_file(folder, "folder")


def test_the_folder_itself_replaced_by_a_link_is_not_followed(folder, tmp_path):
    write_file(folder, "out.bin", b"mine")
    moved = tmp_path.with_name("moved")
    tmp_path.rename(moved)
    tmp_path.symlink_to("/etc")
    assert read_file(folder, "out.bin") == b"mine"
    tmp_path.unlink()
    moved.rename(tmp_path)


def test_more_than_the_limit_is_not_read(folder):
    write_file(folder, "out.bin", b"0123456789")
    with pytest.raises(SandboxError, match="limit 5"):
        read_file(folder, "out.bin", max_bytes=5)
    with pytest.raises(SandboxError, match="has 10 bytes, 12 wanted"):
        read_file(folder, "out.bin", offset=8, nbytes=4)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "x\0y", "n" * 300])
def test_only_plain_names_are_read_or_written(folder, name):
    with pytest.raises(SandboxError, match="plain file name"):
        read_file(folder, name)
    with pytest.raises(SandboxError, match="plain file name"):
        write_file(folder, name, b"")


def test_a_file_that_is_there_is_not_overwritten(folder):
    write_file(folder, "job.pkl", b"first")
    with pytest.raises(StorageError):
        write_file(folder, "job.pkl", b"second")
    assert Path(f"/proc/self/fd/{folder}").exists()
