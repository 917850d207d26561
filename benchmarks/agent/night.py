"""A night of the agent in processes of its own: started, killed, resumed, played to its end."""

import ctypes
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent import evidence

PROGRAM = Path(__file__).resolve().parent / "program.py"
TASKS = ("rms_norm", "linear")
TOML = """\
[agent]
model = "scripted-replies"
concurrency = 2
sessions_max = 14
budget_usd = "none"
budget_tokens = 1000000000
"""
ON_RECORD, EXPLORED = "is on record in", "exploring ends"
SOON_S = 0.05
LEFTOVERS_TIMEOUT_S = 30.0
PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When to kill: ``offset_s`` after the night's ``progress`` was reached; ``reference_s``: when
    that was in the night that nobody disturbed."""

    reference_s: float
    progress: int
    offset_s: float


@dataclass(slots=True)
class Life:
    """One process of a run. ``said``: its lines on stderr."""

    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)
    on_record: threading.Event = field(default_factory=threading.Event)
    explored: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    began_s: float = 0.0
    explored_s: float = 0.0

    def listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if ON_RECORD in line:
                self.began_s = time.monotonic()
                self.on_record.set()
            elif EXPLORED in line:
                self.explored_s = time.monotonic()
                self.explored.set()
        for event in (self.over, self.on_record, self.explored):
            event.set()


@dataclass(slots=True, kw_only=True)
class Night:
    """One run in a folder of its own, against one server."""

    folder: Path
    judge: str
    address: str

    @property
    def db(self) -> Path:
        return self.folder / "runs.db"

    def start(self, *words: str) -> Life:
        """Starts or resumes the run and waits until it is on record."""
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), self.judge, *words, "--db", str(self.db)],
            cwd=self.folder,
            env={
                **os.environ,
                "ANTHROPIC_BASE_URL": self.address,
                "ANTHROPIC_API_KEY": "test",
                "BENCH_GATE_LOG": str(self.folder / "gate.log"),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",  # a kill may cut a character
            start_new_session=True,
        )
        life = Life(process)
        threading.Thread(target=life.listen, daemon=True).start()
        life.on_record.wait()
        if not life.began_s:
            raise SystemExit(f"{' '.join(words)} failed:\n{''.join(life.said)}")
        return life

    def first_life(self) -> Life:
        (self.folder / "kernelsmith.toml").write_text(TOML)
        words = ("--proposer", "agent", "--time-limit", "2h", "--seed", "1")
        return self.start("run", *TASKS, *words)

    def next_life(self) -> Life:
        return self.start("resume", "latest")

    def finish(self, life: Life) -> None:
        """Waits for the end of a life that nobody kills."""
        code = life.process.wait()
        life.over.wait()
        if code:
            raise SystemExit(f"the run ended with {code}:\n{''.join(life.said[-20:])}")

    def progress(self) -> int:
        """See ``evidence.PROGRESS``."""
        with closing(sqlite3.connect(f"file:{self.db}?mode=ro", uri=True)) as connection:
            return int(connection.execute(evidence.PROGRESS).fetchone()[0])

    def examine(self, killed_lives: int) -> evidence.Evidence:
        """What must hold now; the server has a moment to write its log."""
        time.sleep(0.2)
        happened = evidence.Happened(
            evidence.lines(self.folder / "server.log"), evidence.lines(self.folder / "gate.log")
        )
        return evidence.examine(self.db, happened, killed_lives)

    def gate_does(self, pid: int) -> str:
        """What the gate had begun and not ended in this life."""
        open_work = ""
        for line in evidence.lines(self.folder / "gate.log"):
            if line["pid"] == pid:
                begun = line["phase"] == "begin"
                open_work = f"{line['what']} {line['task']}" if begun else ""
        return open_work


def timeline(night: Night, life: Life) -> list[tuple[float, int]]:
    """(seconds since on record, progress) whenever it grew, until exploring ends."""
    found = [(0.0, night.progress())]
    while not life.explored.wait(0.01):
        progress = night.progress()
        if progress != found[-1][1]:
            found.append((time.monotonic() - life.began_s, progress))
    return found


def moments(
    draw: random.Random, kills: int, line: Sequence[tuple[float, int]], end_s: float
) -> list[Moment]:
    """Kills of a night, uniform over the time from "on record" to the end of exploring."""
    chosen = []
    for at_s in sorted(draw.uniform(0.0, end_s) for _ in range(kills)):
        reached_s, progress = next(each for each in reversed(line) if each[0] <= at_s)
        moment = Moment(reference_s=at_s, progress=progress, offset_s=at_s - reached_s)
        chosen.append(moment)
    return chosen


def moments_by_step(
    draw: random.Random, kills: int, line: Sequence[tuple[float, int]]
) -> list[Moment]:
    """Kills of a night right after something came on record, each such moment equally likely: a
    night is long in few of its moments."""
    chosen = sorted(draw.choice(line) for _ in range(kills))
    return [
        Moment(reference_s=at_s, progress=progress, offset_s=draw.uniform(0.0, SOON_S))
        for at_s, progress in chosen
    ]


def kill(night: Night, life: Life, moment: Moment) -> dict[str, Any] | None:
    """Kills the main process at its moment and waits until nothing of it is left; None: it had
    explored to the end before."""
    while night.progress() < moment.progress:
        if life.explored.wait(0.005):
            return None
    if life.explored.wait(moment.offset_s):
        return None
    pid = life.process.pid
    life.process.send_signal(signal.SIGKILL)
    killed_s = time.monotonic()
    life.process.wait()
    left_s = until_alone(killed_s)
    life.over.wait()
    return {
        "reference_s": moment.reference_s,
        "life_s": killed_s - life.began_s,
        "progress": moment.progress,
        "gate": night.gate_does(pid),
        "leftovers_gone_s": left_s,
    }


def adopt() -> None:
    """Orphans of what is killed become children of this process, so that none can hide."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def until_alone(since_s: float) -> float:
    """Seconds until no orphan is left; those that ended are reaped."""
    while orphans := _orphans():
        for pid in orphans:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() - since_s > LEFTOVERS_TIMEOUT_S:
            raise SystemExit(f"still there after a kill: {orphans}")
        time.sleep(0.01)
    return time.monotonic() - since_s


def _orphans() -> list[int]:
    """Children of this process that it did not start itself."""
    return [pid for pid in children(os.getpid()) if pid not in OWN]


def children(pid: int) -> list[int]:
    """Those of all threads of a process."""
    found = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += [int(each) for each in (task / "children").read_text().split()]
    return found


OWN: set[int] = set()
"""Processes that this one started: the servers."""
