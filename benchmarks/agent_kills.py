"""The scripted night, killed with SIGKILL at random moments and resumed.

    python benchmarks/agent_kills.py [--kills 50] [--fake]

One night is played to its end undisturbed; kills are drawn from it, from "on record" to the end of
exploring: for every other night uniform in time, for the rest right after one of the things that
came on record, each equally likely. Nights are killed several times each, resumed each time, and
played to their end, until the kills are done. After each kill, and at each end, from the
database, the server's log and a log of the gate's work:

- the chain of steps and every row verify;
- no turn was sent again after its answer was on record, and each body begins with the one before;
- the server saw exactly the requests that are on record, byte for byte, without headers of ours;
- no recorded tool result was made again, no candidate judged again after its verdict;
- nothing of the killed process is left; at the end the same candidates are accepted, with the same
  verdicts.

The self-proof at each start is left out and the final timing has fewer sessions; gate, sandbox,
proxy and database are real. ``--fake`` judges played candidates without a gate: quicker.
Writes ``benchmarks/results/agent_kills.json`` (``--fake``: nothing, unless ``--result``).
"""

import argparse
import datetime
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent import legs, night, watched
from agent.evidence import Evidence
from agent.night import Night

from kernelsmith.wiring import versions

RESULT = Path(__file__).resolve().parent / "results" / "agent_kills.json"
DELIVERY = ("--odd-chunks", "7", "--gzip", "--latency-ms", "100")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--kills-a-night", type=int, default=6)
    parser.add_argument("--fake", action="store_true", help="judge without a gate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for the nights, kept")
    parser.add_argument("--result", type=Path)
    options = parser.parse_args()
    night.adopt()
    with tempfile.TemporaryDirectory() as name:
        document = _nights(options, options.keep or Path(name))
    result = options.result or (None if options.fake else RESULT)
    text = json.dumps(document, indent=1)
    if result is not None:
        result.write_text(text + "\n")
    print(text)
    return 1 if document["problems"] else 0


def _nights(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    judge = "played" if options.fake else "gate"
    began_s, load = time.monotonic(), os.getloadavg()[0]
    with _night(folder / "reference", judge) as reference:
        life = reference.first_life()
        line = night.timeline(reference, life)
        end_s = life.explored_s - life.began_s
        reference.finish(life)
        whole = reference.examine(0)
    problems = [f"undisturbed: {problem}" for problem in whole.problems]
    if not all(whole.accepted.get(task) for task in night.TASKS):
        problems.append(f"undisturbed: accepted only {whole.accepted}")
    draw = random.Random(options.seed)
    kills: list[dict[str, Any]] = []
    counts = []
    while len(kills) < options.kills and len(counts) < options.kills:
        number = len(counts)
        wanted = min(options.kills_a_night, options.kills - len(kills))
        if number % 2:
            moments = night.moments_by_step(draw, wanted, line)
        else:
            moments = night.moments(draw, wanted, line, end_s)
        with _night(folder / f"night{number}", judge) as one:
            done, found = _killed_night(one, moments, problems, number)
        _compare(found, whole, problems, number)
        kills += done
        counts.append(found.counts)
        print(f"night {number}: {len(done)} kills, {len(problems)} problems", file=sys.stderr)
    return {
        "schema": "kernelsmith.benchmark.agent_kills/1",
        "written_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "load_1m_before": load,
        "versions": versions(),
        "setting": {
            "judge": judge,
            "self_proof": "left out in these runs",
            "final_timing_sessions": watched.SESSIONS,
            "server": DELIVERY,
            "agent": night.TOML,
        },
        "seed": options.seed,
        "seconds": time.monotonic() - began_s,
        "undisturbed": {
            "exploring_s": end_s,
            "accepted": whole.accepted,
            "statuses": _tally(whole),
            "spent_tokens": whole.spent_tokens,
            "counts": whole.counts,
        },
        "nights": counts,
        "kills": kills,
        "killed": len(kills),
        "problems": problems,
    }


@contextmanager
def _night(folder: Path, judge: str) -> Iterator[Night]:
    """A night's folder and its server, which has a log."""
    folder.mkdir(parents=True)
    log = folder / "server.log"
    command = [sys.executable, "-m", "kernelsmith.rehearsal", "--script", "night", *DELIVERY]
    with legs.served([*command, "--log", str(log)], folder / "server.err", night.OWN) as address:
        yield Night(folder=folder, judge=judge, address=address)


def _killed_night(
    one: Night, moments: list[night.Moment], problems: list[str], number: int
) -> tuple[list[dict[str, Any]], Evidence]:
    kills: list[dict[str, Any]] = []
    life = one.first_life()
    for moment in moments:
        done = night.kill(one, life, moment)
        if done is None:
            break
        found = one.examine(len(kills) + 1)
        problems += [f"night {number}, kill {len(kills)}: {each}" for each in found.problems]
        facts = {
            "calls_in_flight": found.counts["calls_in_flight"],
            "last_on_record": found.last_step,
        }
        drawn = "by step" if number % 2 else "by time"
        kills.append(
            {"night": number, "drawn": drawn, **done, **facts, "problems": len(found.problems)}
        )
        life = one.next_life()
    one.finish(life)
    found = one.examine(len(kills))
    problems += [f"night {number}, end: {each}" for each in found.problems]
    return kills, found


def _compare(found: Evidence, whole: Evidence, problems: list[str], number: int) -> None:
    """At its end a killed night is as the one that nobody disturbed."""
    for name in ("accepted", "statuses"):
        here, there = getattr(found, name), getattr(whole, name)
        if name == "accepted":
            here, there = ({k: sorted(v) for k, v in each.items()} for each in (here, there))
        if here != there:
            problems.append(f"night {number}: {name} {here}, undisturbed {there}")


def _tally(found: Evidence) -> dict[str, int]:
    values = list(found.statuses.values())
    return {status: values.count(status) for status in sorted(set(values))}


if __name__ == "__main__":
    sys.exit(main())
