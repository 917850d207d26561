"""The harness that strikes runs: faults land where they are placed, what would be lost shows, and
a few of a run's calls are struck in earnest."""

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import record
from record import Record

from kernelsmith.lineage.store import open_store
from tests.loop import fakes

NIGHT = Path(__file__).resolve().parents[2] / "benchmarks" / "night"
PLACED = """
import errno, json, os, sys
sys.path.insert(0, sys.argv[1])
import faults
at, fault, path = int(sys.argv[2]), sys.argv[3], sys.argv[4]

def work():
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    for _ in range(4):
        try:
            os.write(file, b"12345678")
        except OSError as error:
            os.write(file, errno.errorcode[error.errno].encode())
    return 7

watched = faults.forked(work)
own = 0
for point, number in faults.points(watched):
    own += point.target == path
    if point.target == path and own == at:
        faults.strike(watched, point, number, fault, hold_s=0.01)
    else:
        faults.proceed(watched, number)
print(os.waitstatus_to_exitcode(os.waitpid(watched.pid, 0)[1]))
"""
SAMPLE = """
import json, random, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import points
folder = Path(sys.argv[2])
seen, end = points.whole(folder)
struck = []
for fault in ("power", "ENOSPC"):
    plan = points.plan(seen, random.Random(4))
    number = next(number for number, each in plan if each == fault)
    struck.append(points.fields(points.strike(folder, number, fault, end)))
print(json.dumps({"of": len(seen), "struck": struck}))
"""


def said(script: str, *words: str) -> str:
    """What a script prints, run apart: it forks, which this process must not."""
    command = [sys.executable, "-c", script, str(NIGHT), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "no filters that ask" in done.stderr or "Function not implemented" in done.stderr:
        pytest.skip("this kernel has no seccomp filters that ask")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("fault", "code", "content"),
    [
        ("kill", -9, "12345678"),
        ("torn", -9, "123456781234"),
        ("ENOSPC", 7, "12345678ENOSPC1234567812345678"),
        ("hold", 7, "12345678" * 4),
    ],
)
def test_a_fault_is_placed_at_exactly_one_call(
    fault: str, code: int, content: str, tmp_path: Path
) -> None:
    assert int(said(PLACED, "2", fault, str(tmp_path / "file"))) == code
    assert (tmp_path / "file").read_text() == content


def test_a_run_struck_at_any_call_loses_nothing_and_ends_like_one_left_alone(
    tmp_path: Path,
) -> None:
    found = json.loads(said(SAMPLE, str(tmp_path / "run")))
    assert found["of"] > 300
    assert len(found["struck"]) == 2
    assert [each for each in found["struck"] if "problems" in each] == []


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, Record]:
    """Two verdicts on record."""
    path = tmp_path / "runs.db"
    store = open_store(path)
    run_id = store.append("", "run", fakes.run_payload([fakes.make_task()]))
    seed = fakes.seed_of(fakes.make_task()).id
    for number in range(2):
        candidate = fakes.make_candidate(f"# {number}\n", parents=(seed,))
        store.append(run_id, "candidate", {"candidate": candidate, "normal_hash": f"{number}"})
        facts = {"seconds": 1.0, "elapsed_s": 1.0, "gain_vs_seed": None}
        verdict = fakes.make_verdict(candidate, "POLICY")
        store.append(run_id, "verdict", {"verdict": verdict, **facts})
    store.close()
    return path, record.examine(path, Record(), {})


def test_what_is_lost_changed_or_was_only_said_shows(recorded: tuple[Path, Record]) -> None:
    path, before = recorded
    assert (before.problems, len(before.verdicts)) == ((), 2)
    name = next(iter(before.verdicts))
    assert record.examine(path, before, {name: "POLICY"}).problems == ()
    (problem,) = record.examine(path, before, {name: "ACCEPTED"}).problems
    assert problem.startswith(f"lost: {name} was said to be ACCEPTED")
    shutil.copy(path, path.with_name("short.db"))
    plain = sqlite3.connect(path.with_name("short.db"), isolation_level=None)
    plain.execute("DELETE FROM checks")
    plain.execute("DELETE FROM verdicts WHERE step = (SELECT max(step) FROM verdicts)")
    plain.close()
    problems = record.examine(path.with_name("short.db"), before, {}).problems
    assert any(each.startswith("lineage: ") for each in problems)
    assert sum(each.startswith("lost: ") for each in problems) == 1


def test_a_database_that_is_gone_is_no_early_end(recorded: tuple[Path, Record]) -> None:
    path, before = recorded
    path.unlink()
    assert record.examine(path, before, {}).problems[0].startswith("does not open")
    assert record.examine(path, Record(), {"a" * 16: "POLICY"}).problems
    assert record.examine(path, Record(), {}).problems == ()


def test_lines_of_progress_tell_what_was_acknowledged() -> None:
    lines = [
        "   0:02  toy  141d3e188f6ff316  judging: reads the clock\n",
        "   0:02  toy  141d3e188f6ff316  POLICY at policy: line 4 (0.0 s)\n",
        "1:20:02  toy  cded2735537e28cb  accepted (cpu) 6.347x over 9b51f2ccdb33e4be (25.5 s)\n",
        "   0:12  toy  c4cbb47becde4820  dropped: the same program as cded2735537e28cb\n",
        "   0:13  toy  0f35bb6dbb3eea6e  POL",  # a kill in the middle of the write
    ]
    assert record.acknowledged(lines) == {
        "141d3e188f6ff316": "POLICY",
        "cded2735537e28cb": "ACCEPTED",
    }
