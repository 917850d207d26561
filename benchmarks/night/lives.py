"""A small run in processes of its own: started, struck at any moment, resumed, played out."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import engine
import faults
from agent import evidence
from agent.night import Life, children

PROGRAM = Path(__file__).resolve().parent / "small_run.py"
SPOOLS = (Path("/dev/shm"), Path("/tmp"))
WORDS = {"judge": "judging", "retime": "final timing"}
"""What the gate does, in a table's words."""
EVENT = re.compile(r"^ *[\d:]+  \S")
"""A line of progress: something came on record, or begins."""


@dataclass(slots=True, kw_only=True)
class Night:
    """One run in a folder of its own. ``pids``: of its lives, to know their leftovers by."""

    folder: Path
    sandbox: str
    pids: list[int] = field(default_factory=list)

    @property
    def db(self) -> Path:
        return self.folder / "runs.db"

    def start(self, *, begun: bool, calls: "Calls | None" = None) -> Life:
        """Starts the run, or resumes it; returns at once. ``calls``: counts what its main process
        writes and sends, and kills it at one of them."""
        words = ["resume", "latest"] if begun else ["run", "slow_scale", "--tasks", "tasks"]
        if not begun:
            words += ["--sandbox", self.sandbox, "--seed", "1", "--time-limit", "2h"]
        command = [sys.executable, str(PROGRAM), *words, "--db", "runs.db"]
        if calls is not None:
            command[1:1] = [faults.__file__]
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, "BENCH_GATE_LOG": str(self.folder / "gate.log")},
            stdin=subprocess.DEVNULL if calls is None else subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",  # a kill may cut a character
            start_new_session=True,
        )
        self.pids.append(process.pid)
        life = Life(process)
        if calls is not None:
            assert process.stdin is not None
            serving = (faults.adopted(process.pid),)
            threading.Thread(target=calls.serve, args=serving, daemon=True).start()
            process.stdin.write("g")
            process.stdin.close()
        threading.Thread(target=life.listen, daemon=True).start()
        return life

    def gate_does(self, pid: int) -> tuple[str, str]:
        """What the gate began in this life and has not ended, and on which candidate."""
        open_work = ("", "")
        for line in evidence.lines(self.folder / "gate.log"):
            if line["pid"] == pid:
                begun = line["phase"] == "begin"
                open_work = (line["what"], line["candidate"]) if begun else ("", "")
        return open_work

    def under_way(self, life: Life) -> str:
        """What the life was doing, in a table's words."""
        what, _ = self.gate_does(life.process.pid)
        if what:
            return WORDS.get(what, what)
        if not life.on_record.is_set():
            return "starting"
        return "ending" if life.explored.is_set() else "proposing, recording"

    def left_over(self) -> list[str]:
        """Spools in memory and on disk and containers that lives of this night left."""
        names = [f"kernelsmith-*spool-{pid}-*" for pid in self.pids]
        found = [str(each) for place in SPOOLS for name in names for each in place.glob(name)]
        if self.sandbox == "docker":
            found += [name for pid in self.pids for name, _ in engine.containers(pid)]
        return found


@dataclass(slots=True)
class Calls:
    """Writes and messages of a life's main process. ``kill_at``: before which of them it is
    killed; ``struck``: at which it was, in words; ``seen``: how many there were of each kind."""

    kill_at: int | None = None
    struck: str = ""
    seen: Counter[str] = field(default_factory=Counter)

    def serve(self, watched: faults.Watched) -> None:
        """Answers for every process of the life until the last is gone."""
        for point, number in faults.points(watched):
            words = _words(point) if faults.process_of(point) == watched.pid else ""
            if words and self.kill_at == self.seen.total():
                self.struck = words
                faults.strike(watched, point, number, "kill")
            else:
                faults.proceed(watched, number)
            if words:
                self.seen[words] += 1


def _words(point: faults.Point) -> str:
    """What is written or sent where; "" of what is no business of a run, such as a cache."""
    name = Path(point.target).name
    if name.startswith("runs.db"):
        return f"{point.call} of the database's files"
    if point.target.startswith("pipe:"):
        return f"{point.call} to a pipe"
    if point.target.startswith("socket:"):
        return f"{point.call} to a socket"
    return f"{point.call} in the spool" if "kernelsmith-" in point.target else ""


def kill_loop(
    night: Night, life: Life, draw: random.Random, by_step: bool, span_s: float
) -> str | None:
    """Kills the main process: at a moment within ``span_s`` of its start, or, ``by_step``, right
    after its next line of progress. Returns what it did; None: it had ended before."""
    if by_step:
        seen = len(_events(life))
        while len(_events(life)) == seen:
            if life.over.wait(0.002):
                return None
        late = life.over.wait(draw.uniform(0.0, 0.05))
    else:
        late = life.over.wait(draw.uniform(0.0, span_s))
    does = night.under_way(life)
    if late or life.process.poll() is not None:
        return None
    life.process.send_signal(signal.SIGKILL)
    life.process.wait()
    life.over.wait()
    return does


def kill_worker(
    night: Night, life: Life, draw: random.Random, target: str, struck: set[str], patience_s: float
) -> str | None:
    """Kills a process inside the wall, or the engine, while the gate works on a candidate that
    none was killed for before. Returns what it did; None: the life ended before there was one."""
    until_s = time.monotonic() + patience_s
    if life.over.wait(draw.uniform(0.0, 2.0)):
        return None
    while time.monotonic() < until_s and not life.over.wait(0.01):
        what, candidate = night.gate_does(life.process.pid)
        if not what or f"{what} {candidate}" in struck:
            continue
        found = [pid for pid, kind in inside(night, life) if kind == target]
        if found or target == "engine":
            with suppress(ProcessLookupError):
                if target == "engine":
                    engine.kill_and_start()
                else:
                    os.kill(draw.choice(found), signal.SIGKILL)
                struck.add(f"{what} {candidate}")
                return WORDS.get(what, what)
    return None


def inside(night: Night, life: Life) -> Iterator[tuple[int, str]]:
    """Processes of a life's sandbox with their kind: "wall" (of bubblewrap), "supervisor" (of a
    container), "template" or "job"."""
    waiting = [(child, "") for child in children(life.process.pid)]
    if night.sandbox == "docker":
        for _, pid in engine.containers(life.process.pid):
            yield pid, "supervisor"
            waiting += [(child, "") for child in children(pid)]
    while waiting:
        pid, above = waiting.pop()
        kind = _kind(pid, above)
        if kind:
            yield pid, kind
        waiting += [(child, kind or above) for child in children(pid)]


def _kind(pid: int, above: str) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except (OSError, UnicodeDecodeError):
        return ""
    if Path(words[0]).name == "bwrap":
        return "wall"
    if any(word.startswith("kernelsmith.worker") for word in words):
        return "job" if above in ("template", "job") else "template"
    return ""


def _events(life: Life) -> list[str]:
    return [line for line in life.said if EVENT.match(line)]
