"""A small run killed with SIGKILL at random moments, again and again, and resumed; and struck at
each of its writes and messages.

    python benchmarks/night/kills.py [--kills 300] [--minutes 40]
    tests/ci/engine.sh python benchmarks/night/kills.py --sandbox docker --engine --kills 400
    python benchmarks/night/kills.py --add FILE

Goes on from ``benchmarks/results/night_kills.json`` until there are so many kills, or the time is
up. What is killed: the loop's process (within a span of its start, right after a line of progress,
or before one of its writes and messages, drawn among all of a run), the wall, a worker's template,
a job; a container's supervisor and, with ``--engine``, the engine that ``tests/ci/engine.sh``
started; the capture proxy (``proxy_kills.py``); and, through ``agent_kills.py --fake``, a run whose
agent has calls under way.
After each kill:

- the database opens, its pages are whole, chain, rows and blobs verify;
- every verdict that was on record before or that the run had said is there, once, as it was;
- nothing of the killed process is left; a resumed run goes on;

and at each end the same candidates have the same verdicts as in a run that nobody disturbed, no
spool is left and the database is one file. ``points.py`` strikes each write and message of a run on
fakes: a kill before it, half of it and a kill, a power cut, no space, an input/output error, a
read-only disk.

The self-proof at each start is left out and the final timing has fewer sessions; loop, gate,
sandbox, workers and database are real.
"""

import argparse
import datetime
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lives
import points
import proxy_kills
import record
import small
from agent import night as agent_night
from lives import Night
from measured_on import machine
from record import Record

from kernelsmith.sandbox.choose import choose

RESULT = Path(__file__).resolve().parents[1] / "results" / "night_kills.json"
SCHEMA = "kernelsmith.benchmark.night_kills/1"
KILLS_A_NIGHT = 14
TARGETS = {
    "bubblewrap": ("loop", "loop", "loop", "job", "template", "wall"),
    "docker": ("loop", "loop", "loop", "job", "template", "supervisor"),
}
POINTS_SHARE = 0.3
"""Of the time, for the enumerated points."""
PATIENCE_S = 60.0
AGENT_KILLS = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--sandbox", choices=tuple(TARGETS), default="bubblewrap")
    parser.add_argument("--engine", action="store_true", help="kill the engine of DOCKER_HOST too")
    parser.add_argument("--again", action="store_true", help="forget what was found before")
    parser.add_argument("--result", type=Path, default=RESULT)
    parser.add_argument("--add", type=Path, help="put in another --result, made at the same time")
    options = parser.parse_args()
    document = _before(options)
    if options.add:
        found = _write(_added(document, json.loads(options.add.read_text())), options.result)
        return 1 if found["problems"] else 0
    agent_night.adopt()
    until_s = time.monotonic() + 60.0 * options.minutes
    with tempfile.TemporaryDirectory() as name:
        _strike_points(document, options, Path(name))
        _kill(document, options, Path(name), until_s)
    found = _write(document, options.result)
    print(json.dumps({key: found[key] for key in ("killed", "lost", "doubled", "problems")}))
    return 1 if found["problems"] else 0


def _before(options: argparse.Namespace) -> dict[str, Any]:
    if options.result.exists() and not options.again:
        found: dict[str, Any] = json.loads(options.result.read_text())
        return found
    return {
        "schema": SCHEMA,
        "setting": {
            "task": small.NAME,
            "proposed": [f"{status}: {what}" for status, what, _, _ in small.EDITS],
            "self_proof": "left out in these runs",
            "final_timing_sessions": small.FINAL_SESSIONS,
        },
        "calls": [],
        "nights": [],
        "moments": [],
        "points": {"of_a_run": 0, "struck": [], "problems": []},
    }


def _added(document: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The nights of both; of the points that both struck, the first one's."""
    first, mine, its = len(document["nights"]), document["points"], other["points"]
    done = {(each["point"], each["fault"]) for each in mine["struck"]}
    fresh = [each for each in its["struck"] if (each["point"], each["fault"]) not in done]
    problems = [each for each in its["problems"] if each not in mine["problems"]]
    return {
        **document,
        "calls": [*document["calls"], *other["calls"]],
        "nights": [*document["nights"], *other["nights"]],
        "moments": [
            *document["moments"],
            *({**each, "night": first + each["night"]} for each in other["moments"]),
        ],
        "points": {
            **mine,
            "struck": [*mine["struck"], *fresh],
            "problems": [*mine["problems"], *problems],
        },
    }


def _write(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """The document with its sums."""
    problems = [each for moment in document["moments"] for each in moment.get("problems", ())]
    problems += [each for one in document["nights"] for each in one.get("problems", ())]
    problems += document["points"]["problems"]
    whole = {
        **document,
        "killed": len(document["moments"]),
        "by_target": dict(Counter(each["target"] for each in document["moments"])),
        "struck": len(document["points"]["struck"]),
        "lost": sum(each.startswith("lost") for each in problems),
        "doubled": sum(each.startswith("doubled") for each in problems),
        "problems": problems,
    }
    path.write_text(json.dumps(whole, indent=1) + "\n")
    return whole


def _strike_points(document: dict[str, Any], options: argparse.Namespace, folder: Path) -> None:
    """As many as fit, in an order in which any beginning is a fair sample."""
    until_s = time.monotonic() + 60.0 * options.minutes * POINTS_SHARE
    place = folder / "points"
    seen, end = points.whole(place)
    kept = document["points"]
    kept["of_a_run"] = len(seen)
    done = {(each["point"], each["fault"]) for each in kept["struck"]}
    for number, fault in points.plan(seen, random.Random(1)):
        if time.monotonic() > until_s:
            return
        if (number, fault) not in done:
            struck = points.strike(place, number, fault, end)
            kept["struck"].append(points.fields(struck))
            kept["problems"] += [f"{fault} at {number}: {each}" for each in struck.problems]
            _write(document, options.result)


def _kill(
    document: dict[str, Any], options: argparse.Namespace, folder: Path, until_s: float
) -> None:
    written_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    document["calls"].append({"written_at": written_at, **machine(os.getloadavg()[0])})
    whole, whole_s = _undisturbed(folder / "whole", options.sandbox, document)
    while len(document["moments"]) < options.kills and time.monotonic() < until_s:
        number = len(document["nights"])
        draw = random.Random(number)
        if number % 6 == 2:
            moments, problems = proxy_kills.play(folder / f"night{number}", draw)
        elif number % 12 == 5:
            moments, problems = _agents_night(folder / f"night{number}", number)
        else:
            targets = TARGETS[options.sandbox] + (("engine",) if options.engine else ())
            night = _night(folder / f"night{number}", options.sandbox)
            count = sum(document["undisturbed"]["calls"].values())
            one = _Played(night=night, draw=draw, targets=targets, calls_of_a_run=count)
            moments, problems = one.play(whole, whole_s)
        document["moments"] += [{"night": number, **each} for each in moments]
        document["nights"].append({"kills": len(moments), "problems": problems})
        _write(document, options.result)
        print(f"night {number}: {len(moments)} kills, {problems}", file=sys.stderr)


def _agents_night(folder: Path, seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Kills of a run whose agent has calls under way, by the script that has its own checks."""
    folder.mkdir(parents=True)
    result = folder / "agent_kills.json"
    script = Path(__file__).resolve().parents[1] / "agent_kills.py"
    asked = ("--fake", "--kills", str(AGENT_KILLS), "--kills-a-night", str(AGENT_KILLS // 2))
    command = [sys.executable, str(script), *asked, "--seed", str(seed), "--result", str(result)]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        agent_night.OWN.add(process.pid)
        process.wait()
    if not result.exists():
        return [], [f"agent_kills.py ended with {process.returncode}: {folder / 'said'}"]
    document = json.loads(result.read_text())
    moments = [
        {
            "target": "agent",
            "under_way": f"{each['calls_in_flight']} calls in flight",
            "last_on_record": each["last_on_record"],
            "outlived_s": round(each["leftovers_gone_s"], 3),
        }
        for each in document["kills"]
    ]
    return moments, document["problems"]


def _night(folder: Path, sandbox: str) -> Night:
    folder.mkdir(parents=True)
    small.write(folder / "tasks")
    return Night(folder=folder, sandbox=sandbox)


def _undisturbed(folder: Path, sandbox: str, document: dict[str, Any]) -> tuple[Record, float]:
    night = _night(folder, sandbox)
    began_s = time.monotonic()
    calls = lives.Calls()
    life = night.start(begun=False, calls=calls)
    code = life.process.wait()
    life.over.wait()
    whole_s = time.monotonic() - began_s
    found = record.examine(night.db, Record(), record.acknowledged(life.said))
    if code or found.problems or len(found.verdicts) < len(small.EDITS) - 1:
        raise SystemExit(f"the undisturbed run ended with {code}: {found}\n{''.join(life.said)}")
    facts = {"seconds": round(whole_s, 1), "statuses": found.statuses, "calls": dict(calls.seen)}
    document["undisturbed"] = facts
    return found, whole_s


@dataclass(slots=True, kw_only=True)
class _Played:
    """One night and what was killed in it."""

    night: Night
    draw: random.Random
    targets: tuple[str, ...]
    calls_of_a_run: int
    calls: lives.Calls | None = None
    kills: list[dict[str, Any]] = field(default_factory=list)
    before: Record = field(default_factory=Record)
    said: int = 0

    def play(self, whole: Record, whole_s: float) -> tuple[list[dict[str, Any]], list[str]]:
        """Kills until there were enough or the run has come to its end in spite of it."""
        life = self._start(begun=False)
        struck: set[str] = set()
        while len(self.kills) < KILLS_A_NIGHT and not life.over.is_set():
            target = self.draw.choice(self.targets)
            if self.calls is not None or target == "loop":
                life = self._kill_loop(life, whole_s)
            else:
                self._kill_worker(life, target, struck)
        finished = self.before.last_step == "finished"  # on record, and killed after that
        code = life.process.wait()
        life.over.wait()
        last = self._examined(life)
        problems = [*last.problems]
        if code and not finished:
            problems.append(f"the last life ended with {code}: {life.said[-2:]}")
        if last.statuses != whole.statuses:
            problems.append(f"ends with {last.statuses}, undisturbed {whole.statuses}")
        if finished:  # killed at its very end: what it left is swept by whoever comes next
            choose(self.night.sandbox, trusted_origin=True).close()
        problems += [f"left over: {each}" for each in self._left_over()]
        return self.kills, problems

    def _start(self, *, begun: bool) -> lives.Life:
        """A life; every third is killed at one of its writes or messages, if it gets there."""
        at = self.draw.randrange(self.calls_of_a_run) if self.draw.random() < 1 / 3 else None
        self.calls = None if at is None else lives.Calls(kill_at=at)
        return self.night.start(begun=begun, calls=self.calls)

    def _kill_loop(self, life: lives.Life, whole_s: float) -> lives.Life:
        by_step = self.draw.random() < 0.5
        drawn = "by step" if by_step else "by time"
        if self.calls is not None:
            life.over.wait()
            drawn, does = "by call", self.calls.struck or None
        else:
            does = lives.kill_loop(self.night, life, self.draw, by_step, whole_s / 2)
        if does is None:
            return life
        life.process.wait()
        outlived_s = agent_night.until_alone(time.monotonic())
        found = self._examined(life)
        self._note("loop", does, found, drawn=drawn, outlived_s=round(outlived_s, 3))
        if found.last_step == "finished":
            self.calls = None
            return life
        return self._start(begun=found.runs > 0)

    def _kill_worker(self, life: lives.Life, target: str, struck: set[str]) -> None:
        does = lives.kill_worker(self.night, life, self.draw, target, struck, PATIENCE_S)
        if does is not None:
            self._note(target, does, self._examined(life))

    def _examined(self, life: lives.Life) -> Record:
        """The record now; a life's lines count once it is dead or from where they were read."""
        self.before = record.examine(self.night.db, self.before, record.acknowledged(life.said))
        return self.before

    def _note(self, target: str, does: str, found: Record, **facts: Any) -> None:
        noted = {
            "sandbox": self.night.sandbox,
            "target": target,
            "under_way": does,
            "last_on_record": found.last_step,
            **facts,
        }
        if found.problems:
            noted["problems"] = found.problems
        self.kills.append(noted)

    def _left_over(self) -> list[str]:
        beside = [each.name for each in self.night.folder.glob("runs.db-*")]
        return [*beside, *self.night.left_over()]


if __name__ == "__main__":
    sys.exit(main())
