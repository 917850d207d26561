"""Every way out of every sandbox that can stand here, in every kind of job.

    python benchmarks/night/escapes.py [--sandbox NAME] [--only TEXT] [--minutes 30] [--again]
    tests/ci/engine.sh python benchmarks/night/escapes.py

The ways are ``tests/sandbox/escapes/*.toml``; how they are tried and judged:
``tests/sandbox/escapes_try.py``. Writes ``benchmarks/results/night_escapes.json`` and
``docs/escapes.md``. What was tried before stays while the way is the same; it is tried again when
the code of the walls (a hash in each row) has changed. What the time did not suffice for is left to
the next call. Exit 1 if a way gets out that is not named as open, or one that is so named does not.
"""

import argparse
import datetime
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "night")]

import rows_json  # noqa: E402
from escapes_table import render  # noqa: E402
from measured_on import machine  # noqa: E402

from kernelsmith.errors import MissingError  # noqa: E402
from kernelsmith.sandbox.choose import choose  # noqa: E402
from tests.sandbox import escapes_try as ways  # noqa: E402
from tests.sandbox.conftest import LIMITS  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "night_escapes.json"
TABLE = ROOT / "docs" / "escapes.md"
SCHEMA = "kernelsmith.benchmark.night_escapes/1"
WALLS = (
    "kernelsmith/worker/wall*.py",
    "kernelsmith/worker/job_child.py",
    "kernelsmith/worker/template.py",
    "kernelsmith/worker/supervisor.py",
    "kernelsmith/letters.py",
    "kernelsmith/sandbox/*.py",
    "docker/Dockerfile",
    "tests/sandbox/escapes/prelude.py",
)
"""What decides whether a way gets out: where one of these has changed, all ways are tried anew."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sandbox", choices=ways.SANDBOXES, help="this one alone")
    parser.add_argument("--only", default="", help="ways whose name holds this")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--again", action="store_true", help="also what is on record")
    parser.add_argument("--render", action="store_true", help="only write the page again")
    options = parser.parse_args()
    before = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    document = before if options.render else _tried(options, before)
    if not options.render:
        RESULT.write_text(rows_json.text(document, "rows"))
    TABLE.write_text(render(document))
    for problem in document["problems"]:
        print(f"not as named: {problem}")
    counts = [f"{name}: {one['blocked']} of {one['tried']}" for name, one in _counts(document)]
    print(f"{TABLE.name}: blocked, {'; '.join(counts)}; left to try: {document['left']}")
    return 1 if document["problems"] else 0


def _tried(options: argparse.Namespace, before: dict[str, Any]) -> dict[str, Any]:
    load_1m, until_s = os.getloadavg()[0], time.monotonic() + 60 * options.minutes
    known = {_key(row): row for row in before.get("rows", [])}
    every = ways.load()
    # What is named as open may have been named since; a way or a wall that changed is tried anew.
    wanted = {}
    for name in ways.SANDBOXES:
        for escape in every:
            for kind in escape.kinds:
                wanted[name, escape.group, escape.name, kind] = (name, escape, kind)
    missing, code = dict(before.get("missing", {})), _walls_hash()
    rows: dict[Any, dict[str, Any]] = {
        key: row
        for key, row in known.items()
        if key in wanted and row["way"] == _way_hash(wanted[key][1])
    }
    chosen = [options.sandbox] if options.sandbox else list(ways.SANDBOXES)
    facts = dict(before.get("sandboxes", {}))
    with tempfile.TemporaryDirectory() as place, ways.host(Path(place)) as around:
        for name in chosen:
            todo = [
                case
                for key, case in wanted.items()
                if key[0] == name and options.only in key[2]
                if options.again or key not in rows or rows[key]["walls"] != code
            ]
            try:
                for row in _in_sandbox(name, todo, around, until_s, facts) if todo else ():
                    rows[_key(row)] = row | {"walls": code}
                missing.pop(name, None)
            except MissingError as error:
                missing[name] = error.message
    current = {key for key, row in rows.items() if row["walls"] == code}
    left = sum(key not in current for key in wanted if key[0] not in missing)
    ordered = [
        row | {"why_open": _why(wanted[key])}
        for key in wanted
        if (row := rows.get(key)) is not None
    ]
    return {
        "schema": SCHEMA,
        "written_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {
            **machine(load_1m),
            "user": "root" if os.geteuid() == 0 else "ordinary",
        },
        "limits": LIMITS,
        "sandboxes": facts,
        "missing": missing,
        "left": left,
        "problems": [
            f"{row['sandbox']}, {row['kind']}: {row['name']}: {row['state']} ({row['how']})"
            for row in ordered
            if (row["state"] == ways.OPEN) != bool(row["why_open"])
        ],
        "rows": ordered,
    }


def _in_sandbox(
    name: str, todo: list[Any], around: Any, until_s: float, facts: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    sandbox = choose(name, trusted_origin=True, limits=LIMITS)  # type: ignore[arg-type]
    try:
        # Without where it lies: that is this machine's.
        facts[name] = {key: one for key, one in sandbox.describe().items() if key != "program"}
        workers = {role: sandbox.start(role) for role in ("frontend", "launcher")}
        for _, escape, kind in todo:
            if time.monotonic() > until_s:
                return
            worker: Any = workers[ways.role_of(kind)]
            outcome = ways.attempt(worker, escape, kind, around)
            print(f"{name:10} {kind:11} {outcome.state:7} {escape.name}: {outcome.how[:90]}")
            yield {
                "sandbox": name,
                "group": escape.group,
                "name": escape.name,
                "kind": kind,
                "way": _way_hash(escape),
                **asdict(outcome),
            }
    finally:
        sandbox.close()


def _key(row: dict[str, Any]) -> tuple[str, str, str, str]:
    return row["sandbox"], row["group"], row["name"], row["kind"]


def _why(case: tuple[str, ways.Escape, str]) -> str:
    name, escape, kind = case
    return escape.why_open(name, kind)


def _way_hash(escape: ways.Escape) -> str:
    told = json.dumps([escape.code, escape.then, escape.finish, escape.timeout_s])
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _walls_hash() -> str:
    found = hashlib.sha256()
    for pattern in WALLS:
        for path in sorted(ROOT.glob(pattern)):
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _counts(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, int]]]:
    for name in ways.SANDBOXES:
        rows = [row for row in document["rows"] if row["sandbox"] == name]
        blocked = sum(row["state"] == ways.BLOCKED for row in rows)
        yield name, {"tried": len(rows), "blocked": blocked}


if __name__ == "__main__":
    sys.exit(main())
