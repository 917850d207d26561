"""Letters: whole or not there, nobody else's, and noticed whether or not the system tells."""

import os
import threading

import pytest

from kernelsmith import letters
from tests.lineage.asking import files_end_at

KEY = b"k" * letters.KEY_BYTES


@pytest.fixture
def folder(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_a_seal_fits_its_key_its_name_and_its_text() -> None:
    letter = letters.seal(KEY, "7", b'{"exit": 0} and more')
    assert letters.unseal(KEY, "7", letter) == b'{"exit": 0} and more'
    assert letters.unseal(KEY, "8", letter) is None
    assert letters.unseal(b"o" * letters.KEY_BYTES, "7", letter) is None
    assert letters.unseal(KEY, "7", letter[:-1]) is None
    assert letters.unseal(KEY, "7", b"") is None


def test_a_letter_replaces_what_lies_under_its_name(folder, tmp_path) -> None:
    (tmp_path / "7.answer").symlink_to("/etc/passwd")
    letters.post(folder, "7.answer", b"new")
    assert (tmp_path / "7.answer").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["7.answer"]


def test_a_letter_that_the_disk_takes_a_part_of_is_none(folder, tmp_path) -> None:
    with files_end_at(10), pytest.raises(OSError, match="too large"):
        letters.post(folder, "7.answer", b"more than ten bytes")
    assert not (tmp_path / "7.answer").exists()


def test_a_watch_wakes_at_an_arrival(folder, tmp_path) -> None:
    arrivals = letters.arrivals(tmp_path)
    assert not arrivals.wait(0.0)
    posting = threading.Timer(0.05, letters.post, (folder, "1", b""))
    posting.start()
    assert arrivals.wait(60.0)
    posting.join()
    arrivals.close()


def test_a_watch_that_proves_deaf_is_no_longer_waited_for(tmp_path) -> None:
    arrivals = letters.arrivals(tmp_path)
    for _ in range(letters.DEAF_AFTER):
        assert not arrivals.wait(0.0)
        arrivals.found(told=False)
    assert not arrivals.wait(3600.0)  # returns: it looks again instead of waiting to be told
    arrivals.close()


def test_a_watch_that_is_told_is_trusted_again(folder, tmp_path) -> None:
    arrivals = letters.arrivals(tmp_path)
    arrivals.found(told=False)
    arrivals.found(told=True)
    assert arrivals.missed == 0
    letters.post(folder, "1", b"")
    arrivals.found(told=False)  # told of between the wait and the look
    assert arrivals.missed == 0
    arrivals.close()


def test_a_lock_is_held_until_its_holder_is_gone(tmp_path) -> None:
    held = letters.hold(tmp_path / "host")
    seen = os.open(tmp_path / "host", os.O_RDONLY)
    assert letters.is_held(seen)
    with pytest.raises(BlockingIOError):
        letters.hold(tmp_path / "host")
    os.close(held)
    assert not letters.is_held(seen)
    os.close(seen)
