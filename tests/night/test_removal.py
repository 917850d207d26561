"""What a worker may leave behind, and that all of it can be removed."""

import os
from pathlib import Path

from kernelsmith.sandbox.removal import remove_tree
from kernelsmith.sandbox.spool import sweep

DEPTH = 1100  # more than Python calls within one another


def nested(folder: Path, depth: int) -> None:
    """Folders in one another, deeper than any path may be long."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(os.open("end", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)


def test_folders_in_one_another_a_file_without_rights_and_links_are_removed(
    tmp_path: Path,
) -> None:
    kept = tmp_path / "kept"
    kept.write_text("kept")
    spool = tmp_path / "spool"
    (spool / "job" / "closed").mkdir(parents=True)
    (spool / "job" / "closed" / "file").touch()
    (spool / "job" / "link").symlink_to(kept)
    (spool / "job" / "0.lifted").mkdir()
    os.mkfifo(spool / "job" / "pipe")
    (spool / "job" / "closed").chmod(0)
    nested(spool / "job", DEPTH)
    remove_tree(spool)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert kept.read_text() == "kept"


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real" / "x").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    remove_tree(tmp_path / "link")
    assert (tmp_path / "real" / "x").is_dir()
    remove_tree(tmp_path / "is not there")


def test_a_deep_spool_of_a_dead_host_does_not_stop_the_next_one(tmp_path: Path) -> None:
    left = tmp_path / "kernelsmith-spool-1-dead"
    left.mkdir()
    nested(left, DEPTH)
    assert sweep(tmp_path) == [left]
    assert not left.exists()
