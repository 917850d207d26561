"""Disks that are full, read-only or not ours to write, mounted for real: one line, a hint, nothing
lost, and the run goes on where there is room again."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import record
from record import Record

from kernelsmith.cli.main import main
from kernelsmith.errors import KernelsmithError, StorageError
from kernelsmith.lineage import health
from kernelsmith.sandbox.pool import Pool
from kernelsmith.sandbox.process import Process
from kernelsmith.sandbox.spool import open_spool, require_room
from tests.loop.fake_wiring import fake_wiring
from tests.sandbox.conftest import job_of

PROGRAM = Path(__file__).resolve().parents[1] / "loop" / "fake_wiring.py"
RUN = ("run", "toy", "--seed", "3", "--max-candidates", "4", "--time-limit", "1h")
DISK_MIB = 600  # more than a run asks for before a candidate
BLOCK = 4096
WAIT_S = 60.0


def ran(*words: str) -> None:
    try:
        subprocess.run(words, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no disk of one's own can be mounted here: {error}")


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system in a sparse file."""

    image: Path
    at: Path

    def mount(self, options: str = "loop") -> None:
        ran("mount", "-o", options, str(self.image), str(self.at))

    def unmount(self) -> None:
        """Also where a process of a failed test still has a file open."""
        for words in (["umount"], ["umount", "-l"]):
            if subprocess.run([*words, str(self.at)], check=False, capture_output=True).returncode:
                continue
            return

    def fill(self, leave_bytes: int = 0) -> Path:
        """Takes all room but so much."""
        filler = self.at / "filler"
        taken, piece = 0, DISK_MIB << 20
        with filler.open("wb") as file:
            while piece >= BLOCK:
                piece = min(piece, self._room() - leave_bytes)
                try:  # the last blocks are asked for one by one: some go to the disk's own books
                    os.posix_fallocate(file.fileno(), taken, piece)
                    taken += piece
                except (OSError, ValueError):
                    piece //= 2
        return filler

    def _room(self) -> int:
        found = os.statvfs(self.at)
        return found.f_bavail * found.f_frsize


@pytest.fixture
def disk() -> Iterator[Disk]:
    """In a folder of its own: what is mounted must never lie where pytest tidies up."""
    if os.geteuid() != 0:
        pytest.skip("mounting a disk needs root")
    with tempfile.TemporaryDirectory() as name:
        made = Disk(Path(name) / "image", Path(name) / "disk")
        made.at.mkdir()
        with made.image.open("wb") as file:
            file.truncate(DISK_MIB << 20)
        ran("mkfs.ext4", "-q", "-m", "0", str(made.image))
        try:
            made.mount()
            yield made
        finally:
            made.unmount()


def struck_while_judging(disk: Disk, strike: "Strike") -> tuple[int, list[str]]:
    """Starts a run on the disk and strikes while its third candidate is judged."""
    mark = disk.image.with_name("mark")
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), *RUN, "--db", str(disk.at / "runs.db")],
        env={**os.environ, "KS_SLEEP_S": "0.5", "KS_MARK": str(mark)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = []
    with process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                said.append(line)
                if len(record.acknowledged(said)) == 2:
                    break
            mark.unlink()
            until_s = time.monotonic() + WAIT_S
            while not mark.exists():
                assert time.monotonic() < until_s
                time.sleep(0.005)
            strike()
            said += process.stderr.readlines()
        except BaseException:
            process.kill()
            raise
    return process.returncode, said


class Strike:
    """Called once, while a judgement is under way."""

    def __init__(self, *words: str, disk: Disk | None = None) -> None:
        self.words, self.disk = words, disk

    def __call__(self) -> None:
        if self.disk is not None:
            self.disk.fill()
        else:
            ran(*self.words)


def ends_like_one_left_alone(
    path: Path, before: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["resume", "latest", "--db", str(path)], wiring=fake_wiring()) == 0
    assert main([*RUN, "--db", str(path.with_name("whole.db"))], wiring=fake_wiring()) == 0
    capsys.readouterr()
    resumed = record.examine(path, before, {})
    whole = record.examine(path.with_name("whole.db"), Record(), {})
    assert resumed.problems == whole.problems == ()
    assert resumed.statuses == whole.statuses


def in_one_line(said: list[str], start: str, hint: str) -> None:
    errors = [line for line in said if line.startswith("error: ")]
    hints = [line for line in said if line.startswith("hint: ")]
    assert len(errors) == len(hints) == 1, said
    assert errors[0].startswith(f"error: {start}"), said
    assert hint in hints[0], said
    assert not re.search("Traceback|unforeseen", "".join(said))


def test_a_disk_that_fills_up_stops_the_run_and_loses_nothing(
    disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    path = disk.at / "runs.db"
    code, said = struck_while_judging(disk, Strike(disk=disk))
    assert code == 4, said
    in_one_line(said, "cannot write database", "free some disk space")
    assert any("to go on: kernelsmith resume" in line for line in said)
    told = record.acknowledged(said)
    before = record.examine(path, Record(), told)
    assert (before.problems, len(told)) == ((), 2)
    (disk.at / "filler").unlink()
    ends_like_one_left_alone(path, before, capsys)


@pytest.mark.slow
def test_a_disk_that_turns_read_only_stops_the_run_and_loses_nothing(
    disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    path = disk.at / "runs.db"
    code, said = struck_while_judging(disk, Strike("mount", "-o", "remount,abort", str(disk.at)))
    assert code == 4, said
    in_one_line(said, "cannot read or write database", "read-only")
    told = record.acknowledged(said)
    disk.unmount()
    subprocess.run(["e2fsck", "-fp", str(disk.image)], check=False, capture_output=True)
    disk.mount()
    before = record.examine(path, Record(), told)
    assert (before.problems, len(told)) == ((), 2)
    ends_like_one_left_alone(path, before, capsys)


def test_a_read_only_disk_is_read_and_refuses_a_run_at_once(
    disk: Disk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = disk.at / "runs.db"
    assert main([*RUN, "--db", str(path)], wiring=fake_wiring()) == 0
    disk.unmount()
    disk.mount("loop,ro")
    for words in (("runs",), ("show", "latest"), ("lineage", "verify")):
        assert main([*words, "--db", str(path)], wiring=fake_wiring()) == 0
    capsys.readouterr()
    assert main([*RUN, "--db", str(path)], wiring=fake_wiring()) == 2
    in_one_line(capsys.readouterr().err.splitlines(), "cannot write in", "write access")
    copy = health.back_up(path, tmp_path / "copy.db")
    assert health.examine(copy.path).head == copy.head
    with pytest.raises(KernelsmithError, match="is read-only"):
        health.back_up(path)


def test_a_folder_where_no_log_can_be_made_refuses_a_run(
    disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    path = disk.at / "runs.db"
    assert main([*RUN, "--db", str(path)], wiring=fake_wiring()) == 0
    capsys.readouterr()
    ran("chattr", "+i", str(disk.at))
    try:
        assert main(["runs", "--db", str(path)], wiring=fake_wiring()) == 0
        capsys.readouterr()
        assert main([*RUN, "--db", str(path)], wiring=fake_wiring()) == 2
        in_one_line(capsys.readouterr().err.splitlines(), "cannot write in", "write access")
    finally:
        ran("chattr", "-i", str(disk.at))


@pytest.mark.slow
def test_a_full_spool_is_never_a_candidates_fault(disk: Disk) -> None:
    sandbox = Process(pool=Pool(spool=open_spool((disk.at,))), limits={})
    try:
        worker = sandbox.start("frontend")
        source = "def forward(x):\n    return (x,)\n"
        worker.submit(job_of(source)).close()
        filler = disk.fill(leave_bytes=12 << 10)  # for the job, not for its answer
        with pytest.raises(StorageError):
            worker.submit(job_of(source))
        filler.unlink()
        worker.submit(job_of(source)).close()
    finally:
        sandbox.close()


@pytest.mark.parametrize("by_itself", [False, True])
def test_a_job_that_fills_the_disk_by_itself_is_told_from_one_that_found_it_full(
    disk: Disk, by_itself: bool
) -> None:
    job = disk.at / "job"
    job.mkdir()
    folder = os.open(job, os.O_RDONLY | os.O_DIRECTORY)
    try:
        require_room(folder)
        filler = disk.fill()
        if by_itself:
            filler.rename(job / "bomb")
            require_room(folder)  # its failure is its own
        else:
            with pytest.raises(StorageError, match="disk is full"):
                require_room(folder)
    finally:
        os.close(folder)
