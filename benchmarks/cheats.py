"""Every cheat of ``tests/adversarial`` through the real gate, with policy and without it.

    python benchmarks/cheats.py [--task NAME] [--only TEXT] [--missing] [--policy-only | --render]

Each file is a candidate that wants a verdict it has not earned: what it changes of its task's seed,
which wall must stop it, and which one if policy were not there. What policy refuses is judged a
second time without policy, in bubblewrap, with canaries set out on the host: what it does is looked
for, not only what it is called. Writes ``benchmarks/results/cheats.json``, where what was judged
before stays as long as its code does, and ``docs/cheats.md``. Exit code 1 if any status, wall or
effect is not what its file says.
"""

import argparse
import hashlib
import json
import os
import secrets
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernelsmith import catalog, devices
from kernelsmith.gate import policy_check
from kernelsmith.gate.judge import BITS, Gate
from kernelsmith.gate.subject import Limits
from kernelsmith.model import Candidate, Task, Verdict, new_candidate
from kernelsmith.sandbox.choose import choose

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from cheats_canaries import Canaries  # noqa: E402
from cheats_table import render  # noqa: E402
from mutant_items import replaced  # noqa: E402

FILES = ROOT / "tests" / "adversarial"
RESULT = ROOT / "benchmarks" / "results" / "cheats.json"
TABLE = ROOT / "docs" / "cheats.md"
TASKS = ("rms_norm", "linear", "swiglu", "logprob")
CONFIRM = (*BITS, "order", "declared_range", "confirm")
"""Without ``latency``: a cheat that is no faster would end there, and the wall that is looked at
would not be reached."""
TIME = (*CONFIRM, "latency")
WALKS = {"bits": BITS, "confirm": CONFIRM, "time": TIME}
NONE = "none"
"""The wall of a cheat that is accepted: a gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cheat:
    """One file.

    ``expect`` and ``without_policy``: (status, check) of the first wall; the check "parity" stands
    for either path, where inputs decide which meets it first. ``walk``: the checks that it is put
    through: those about bits, those with confirm, or with time as well. ``gap``: why no wall stops
    it, where none does.
    """

    name: str
    task: str
    source: str
    mechanisms: tuple[int, ...]
    exploits: str
    expect: tuple[str, str]
    without_policy: tuple[str, str]
    disguise_of: str = ""
    walk: str = "bits"
    gap: str = ""

    @property
    def sha256(self) -> str:
        """What was judged."""
        return hashlib.sha256(self.source.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What stopped a cheat; ``effects``: what the canaries show of it."""

    status: str
    check: str
    message: str
    effects: tuple[str, ...]
    seconds: float

    @property
    def wall(self) -> tuple[str, str]:
        return self.status, self.check

    def is_at(self, wall: tuple[str, str]) -> bool:
        """Whether this is the wall that a file names."""
        path = self.check.partition(".")[0] if wall[1] == "parity" else self.check
        return (self.status, path) == wall


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What stopped a cheat with policy and without it, and the code that was judged."""

    on: Found
    off: Found
    sha256: str


def load(task: str = "", only: str = "") -> list[Cheat]:
    """The cheats, by task and name."""
    return [
        read(path, catalog.load_task(name, "cpu"))
        for name in sorted(TASKS)
        if task in ("", name)
        for path in sorted((FILES / name).glob("*.toml"))
        if only in path.stem
    ]


def read(path: Path, task: Task) -> Cheat:
    """One file: ``edits`` of the task's seed, one after the other (``old`` becomes ``new`` where
    it stands for the ``nth`` time), and what is said of them.

    Raises:
        ValueError: the seed no longer has what is changed.
    """
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    source = task.seed_source
    for edit in raw.pop("edits"):
        source = replaced(source, **edit)[0]
    for name in ("mechanisms", "expect", "without_policy"):
        raw[name] = tuple(raw[name])
    raw["exploits"] = " ".join(raw["exploits"].split())
    raw["gap"] = " ".join(raw.get("gap", "").split())
    return Cheat(name=path.stem, task=task.name, source=source, **raw)


def mechanisms() -> list[dict[str, Any]]:
    """The mechanisms by number; ``not_applicable`` says why one has no file."""
    text = (FILES / "mechanisms.toml").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["mechanism"]
    return found


def candidate(cheat: Cheat, policy: bool) -> Candidate:
    """The cheat as somebody else's candidate, under another name with policy than without."""
    text = cheat.source if policy else f"{cheat.source}\n# judged without policy\n"
    return new_candidate(text, cheat.task, author="cheat", parents=(), note=cheat.name)


def by_policy(task: Task, cheat: Cheat) -> tuple[str, str]:
    """(status or "", message) of the check that runs nothing."""
    found = policy_check.check(task, candidate(cheat, True))
    return found.status or "", found.message


def judge(gate: Gate, cheat: Cheat, canaries: Canaries, *, policy: bool) -> Found:
    """Puts a cheat through its walk, and looks at the canaries afterwards."""
    names = [name for name in WALKS[cheat.walk] if policy or name != "policy"]
    begun = time.monotonic()
    canaries.set_out()
    verdict = gate.judge_bits(candidate(cheat, policy), names)
    return found(cheat, verdict, canaries, time.monotonic() - begun)


def found(cheat: Cheat, verdict: Verdict, canaries: Canaries, seconds: float) -> Found:
    """The first wall of a verdict."""
    failed = [check for check in verdict.checks if check.status == "fail"]
    check, message = (failed[0].name, failed[0].message) if failed else (NONE, "")
    text = json.dumps([[c.message, c.evidence] for c in verdict.checks], default=str)
    return Found(
        status=verdict.status,
        check=check,
        message=message.replace(sys.prefix, "VENV").replace(str(ROOT), "CHECKOUT"),
        effects=canaries.touched(text),
        seconds=round(seconds, 3),
    )


def judge_all(
    name: str, cheats: Sequence[Cheat], canaries: Canaries
) -> Iterator[tuple[Cheat, Judged]]:
    """The cheats of a task, one by one.

    A cheat that policy lets pass has one walk: without policy it is the same.
    """
    task = catalog.load_task(name, "cpu")
    sandbox = choose("auto", trusted_origin=False)
    limits = Limits(trace_timeout_s=20.0, compile_timeout_s=40.0, sessions_max=12)
    gate = Gate(task, devices.get("cpu"), sandbox, secrets.randbits(255), limits)
    try:
        if gate.judge_bits(gate.seed).status != "ACCEPTED":
            raise SystemExit(f"the seed of {name} fails")
        for cheat in cheats:
            on = judge(gate, cheat, canaries, policy=True)
            off = judge(gate, cheat, canaries, policy=False) if on.check == "policy" else on
            yield cheat, Judged(on=on, off=off, sha256=cheat.sha256)
    finally:
        gate.close()
        sandbox.close()


def faults(cheat: Cheat, judged: Judged) -> list[str]:
    """What is not as the file says."""
    on, off, said = judged.on, judged.off, []
    if not on.is_at(cheat.expect):
        said.append(f"with policy {on.wall}, expected {cheat.expect}")
    if not off.is_at(cheat.without_policy):
        said.append(f"without policy {off.wall}, expected {cheat.without_policy}")
    said += [f"effect: {effect}" for effect in (*on.effects, *off.effects)]
    if (on.status == "ACCEPTED") != bool(cheat.gap):
        said.append("accepted" if not cheat.gap else "a gap that is none")
    return said


def record(cheat: Cheat, judged: Judged) -> dict[str, Any]:
    """One entry of the results."""
    return {
        "name": cheat.name,
        "task": cheat.task,
        "mechanisms": list(cheat.mechanisms),
        "exploits": cheat.exploits,
        "disguise_of": cheat.disguise_of,
        "walk": cheat.walk,
        "gap": cheat.gap,
        "sha256": judged.sha256,
        "with_policy": asdict(judged.on),
        "without_policy": asdict(judged.off),
        "as_expected": not faults(cheat, judged),
    }


def judged_before() -> dict[str, Judged]:
    """What is on record, by name."""
    if not RESULT.exists():
        return {}
    document = json.loads(RESULT.read_text(encoding="utf-8"))
    return {
        one["name"]: Judged(
            on=_read(one["with_policy"]), off=_read(one["without_policy"]), sha256=one["sha256"]
        )
        for one in document["cheats"]
    }


def current(held: dict[str, Judged]) -> list[Cheat]:
    """The files whose code is as it was judged."""
    return [c for c in load() if c.name in held and held[c.name].sha256 == c.sha256]


def _read(raw: dict[str, Any]) -> Found:
    return Found(**{**raw, "effects": tuple(raw["effects"])})


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts for the top of the file."""
    return {
        "count": len(records),
        "as_expected": sum(one["as_expected"] for one in records),
        "gaps": sum(bool(one["gap"]) for one in records),
        "first_wall": dict(Counter(one["with_policy"]["check"] for one in records).most_common()),
        "first_wall_without_policy": dict(
            Counter(one["without_policy"]["check"] for one in records).most_common()
        ),
    }


def main() -> int:
    """Judges what is asked for, prints one line each, writes results and table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--task", choices=TASKS, action="append")
    parser.add_argument("--only", default="")
    parser.add_argument("--policy-only", action="store_true", help="runs nothing, writes nothing")
    parser.add_argument("--missing", action="store_true", help="what is not on record as expected")
    parser.add_argument("--render", action="store_true", help="judges nothing, writes the table")
    arguments = parser.parse_args()
    names = tuple(arguments.task or TASKS)
    if arguments.policy_only:
        return _policy_only(names, arguments.only)
    held = judged_before()
    if arguments.render:
        return _end(held)
    with Canaries() as canaries:
        for name in names:
            todo = load(name, arguments.only)
            if arguments.missing:
                done = {c.name for c in current(held) if not faults(c, held[c.name])}
                todo = [cheat for cheat in todo if cheat.name not in done]
            for cheat, judged in judge_all(name, todo, canaries) if todo else ():
                held[cheat.name] = judged
                print(_line(cheat, judged), flush=True)
                _write(held)
    return _end(held)


def _end(held: dict[str, Judged]) -> int:
    _write(held)
    return int(any(faults(cheat, held[cheat.name]) for cheat in current(held)))


def _line(cheat: Cheat, judged: Judged) -> str:
    said = faults(cheat, judged)
    told = "; ".join(said) or judged.off.wall
    return f"{'BAD' if said else 'ok '} {cheat.task}/{cheat.name}: {told} | {judged.off.message}"


def _policy_only(names: tuple[str, ...], only: str) -> int:
    wrong = 0
    for name in names:
        task = catalog.load_task(name, "cpu")
        for cheat in load(name, only):
            status, message = by_policy(task, cheat)
            as_said = (status == "POLICY") == (cheat.expect[1] == "policy")
            wrong += not as_said
            print(f"{'ok ' if as_said else 'BAD'} {name}/{cheat.name}: {message or 'passes'}")
    return 1 if wrong else 0


def _write(held: dict[str, Judged]) -> None:
    """Results of all files that were judged, and their table."""
    kept = [record(cheat, held[cheat.name]) for cheat in current(held)]
    document = {
        "schema": "kernelsmith.benchmark.cheats/1",
        "machine": {"device": devices.get("cpu").describe(), "cores": os.cpu_count()},
        "written_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **summary(kept),
        "mechanisms": mechanisms(),
        "cheats": kept,
    }
    RESULT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    TABLE.write_text(render(document), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
