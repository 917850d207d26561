"""A run on fakes struck at each of its writes and messages in turn, then resumed.

Loop, store, database and command line are real; tasks, gate and proposer are those of
``tests/loop/fake_wiring.py``, so that a life takes a second.
"""

import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import faults
import record
from faults import Fault, Point
from power import Disk
from record import Record

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from kernelsmith.cli.main import main  # noqa: E402
from tests.loop.fake_wiring import fake_wiring  # noqa: E402

CANDIDATES = 4
RUN = ("run", "toy", "--seed", "3", "--max-candidates", str(CANDIDATES), "--time-limit", "1h")
RESUME = ("resume", "latest")
WRITES = ("write", "pwrite64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """One fault and what came of it. ``point``: which call of the life; ``last_step``: what was on
    record then; ``code``: how the struck process ended."""

    fault: str
    point: int
    call: str
    target: str
    last_step: str
    code: int
    recorded: int
    problems: tuple[str, ...]


def whole(folder: Path) -> tuple[list[Point], Record]:
    """A life that nothing strikes: its points, and its record at the end."""
    seen: list[Point] = []
    life = _life(folder, RUN, seen=seen)
    if life.code:
        raise SystemExit(f"the undisturbed run ended with {life.code}: {life.said}")
    return seen, record.examine(folder / "runs.db", Record(), record.acknowledged(life.said))


def plan(seen: Sequence[Point], draw: random.Random) -> list[tuple[int, Fault]]:
    """All pairs of point and fault, in an order in which any beginning is a fair sample."""
    pairs: list[tuple[int, Fault]] = [
        (number, fault)
        for number, point in enumerate(seen)
        for fault in get_args(Fault)
        if fault != "hold" and (fault != "torn" or point.call in WRITES)
    ]
    draw.shuffle(pairs)
    return pairs


def strike(folder: Path, number: int, fault: Fault, end: Record) -> Struck:
    """A life struck at its ``number``-th point, then one that is left alone; ``end``: what the
    record must come to."""
    db = folder / "runs.db"
    struck = _life(folder, RUN, at=number, fault=fault)
    after = record.examine(db, Record(), record.acknowledged(struck.said))
    problems = list(after.problems)
    if struck.point is None:
        problems.append(f"the life had no point {number}")
    problems += _ending(struck, fault)
    again = _life(folder, RESUME if after.runs else RUN, keep=True)
    if again.code and after.last_step != "finished":
        problems.append(f"going on ended with {again.code}: {again.said[-2:]}")
    last = record.examine(db, after, record.acknowledged(again.said))
    problems += last.problems
    if last.statuses != end.statuses:
        problems.append(f"ends with {last.statuses}, undisturbed {end.statuses}")
    left = sorted(each.name for each in folder.iterdir() if each.name not in ("runs.db", "said"))
    if left:
        problems.append(f"left over: {left}")
    point = struck.point
    return Struck(
        fault=fault,
        point=number,
        call=point.call if point else "",
        target=kind(point.target) if point else "",
        last_step=after.last_step,
        code=struck.code,
        recorded=len(after.verdicts),
        problems=tuple(problems),
    )


def kind(target: str) -> str:
    """What a call is made on."""
    name = Path(target).name
    for end, word in (("-wal", "log"), ("-shm", "index"), ("-journal", "journal")):
        if name.endswith(end):
            return word
    if target.startswith(("pipe:", "socket:")):
        return "message"
    return {"runs.db": "database", "said": "progress"}.get(name, "folder")


@dataclass(slots=True, kw_only=True)
class _Life:
    said: list[str]
    code: int
    point: Point | None = None


def _life(
    folder: Path,
    words: Sequence[str],
    *,
    at: int | None = None,
    fault: Fault = "kill",
    seen: list[Point] | None = None,
    keep: bool = False,
) -> _Life:
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    said = folder / "said"

    def ready() -> None:
        file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)

    def work() -> int:
        return main([*words, "--db", str(folder / "runs.db")], wiring=fake_wiring())

    disk = Disk(folder) if fault == "power" else None
    watched = faults.forked(work, ready)
    struck = None
    for count, (point, number) in enumerate(faults.points(watched)):
        if seen is not None:
            seen.append(point)
        if disk is not None and struck is None:
            disk.note(point)
        if count == at:
            struck = point
            faults.strike(watched, point, number, fault)
        else:
            faults.proceed(watched, number)
    if disk is not None and struck is not None:
        disk.cut(random.Random(at))
    status = os.waitstatus_to_exitcode(os.waitpid(watched.pid, 0)[1])
    return _Life(said=said.read_text(errors="replace").splitlines(True), code=status, point=struck)


def _ending(life: _Life, fault: Fault) -> Iterator[str]:
    """A killed life dies; another that does not succeed ends in one line with a hint."""
    if fault in ("kill", "torn", "power"):
        if life.code != -signal.SIGKILL:
            yield f"was to be killed and ended with {life.code}"
        return
    if life.point is not None and kind(life.point.target) == "progress":
        return  # what it says cannot be read where that cannot be written
    errors = [line for line in life.said if line.startswith("error: ")]
    if life.code == 0 and not errors:
        return
    hints = [line for line in life.said if line.startswith("hint: ")]
    if life.code not in (2, 4) or len(errors) != 1 or len(hints) != 1 or "unforeseen" in errors[0]:
        yield f"ended with {life.code}, saying {[*errors, *hints]}"
    if any(line.startswith("Traceback") for line in life.said):
        yield "printed a traceback"


def fields(struck: Struck) -> dict[str, Any]:
    """For the result's JSON; problems only where there are any."""
    return {key: value for key, value in asdict(struck).items() if key != "problems" or value}
