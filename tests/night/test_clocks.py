"""The wall clock set back and forward, and a monotonic clock that begins elsewhere."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernelsmith.lineage import records

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long shift(void) {
    long seconds = 0;
    FILE *file = fopen(getenv("CLOCK_SHIFT"), "r");
    if (file) { if (fscanf(file, "%ld", &seconds) != 1) seconds = 0; fclose(file); }
    return seconds;
}
int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(id, at);
    if (id == CLOCK_REALTIME) at->tv_sec += shift();
    return code;
}
int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec; at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""
NIGHT = """
import sys, time
from pathlib import Path
sys.path[:0] = [sys.argv[1]]
from kernelsmith import loop
from kernelsmith.interrupts import Interrupts
from kernelsmith.lineage import queries, standings
from kernelsmith.lineage.store import open_store
from kernelsmith.lineage.verify import verify
from tests.loop import fakes

shift, began_s = Path(sys.argv[2]), time.time()
store = open_store(Path(sys.argv[3]))
shifts = iter((-3600, 86400 * 400, -86400 * 30, 0, 5, -5, 0, 0))
judge = fakes.FakeJudge(status=lambda candidate: "ACCEPTED")
task = fakes.make_task()
runs = []
for _ in range(2):
    runs.append(store.append("", "run", fakes.run_payload((task,))))

    def report(happening):
        if happening.kind == "judged":
            shift.write_text(str(next(shifts)))

    reason = loop.run(loop.Setup(
        run_id=runs[-1], tasks=(task,), seeds={"toy": fakes.seed_of(task)},
        proposer=fakes.FakeProposer(), judges={"toy": judge}, store=store,
        normal_hash=fakes.normal_hash, budget=loop.Budget(time_limit_s=60.0, max_candidates=4),
        before=standings.Before(), interrupts=Interrupts(), report=report,
        started_s=time.monotonic(),
    ))
    assert reason == "candidates", reason
with store.database.reading() as connection:
    assert verify(connection).findings == ()
    assert queries.find_run(connection, "latest") == runs[1]
    for name in ("events", "verdicts"):
        query = f"SELECT id, {'at' if name == 'events' else 'step'} FROM {name} ORDER BY step"
        rows = connection.exec_driver_sql(query).all()
        ids = [row[0] for row in rows]
        assert ids == sorted(ids), ids
    stamps = [row[0] for row in connection.exec_driver_sql("SELECT at FROM steps ORDER BY seq")]
    assert stamps != sorted(stamps)  # the clock did jump
past = [one.candidate.id for one in store.history(runs[0], "toy")]
assert past == [name for name, _, _ in judge.judged][:4]
print("as if nothing had happened")
"""


def test_ids_go_on_from_the_newest_when_the_clock_is_set_back() -> None:
    first = records.uuid7(now_ns=5_000_000_000_000)
    second = records.uuid7(first, now_ns=1_000_000_000_000)
    third = records.uuid7(second, now_ns=9_000_000_000_000)
    assert first < second < third
    assert third[:13] == records.uuid7(now_ns=9_000_000_000_000)[:13]


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that shifts the wall clock of a process that is started with it."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the wall clock cannot be shifted")
    folder = tmp_path_factory.mktemp("clock")
    (folder / "shim.c").write_text(SHIM)
    made = folder / "shim.so"
    command = [compiler, "-shared", "-fPIC", "-o", str(made), str(folder / "shim.c"), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the C compiler makes no library: {done.stderr[-200:]}")
    return made


def test_a_night_in_which_the_wall_clock_jumps_keeps_its_order(shim: Path, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    shift = tmp_path / "shift"
    shift.write_text("0")
    done = subprocess.run(
        [sys.executable, "-c", NIGHT, str(root), str(shift), str(tmp_path / "runs.db")],
        env={"LD_PRELOAD": str(shim), "CLOCK_SHIFT": str(shift)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "as if nothing had happened", done.stderr[-3000:]


HANGS = """
import sys, time
from kernelsmith.model import TensorMeta, TraceCall, TraceJob
from kernelsmith.sandbox.process import open_process
meta = TensorMeta(shape=(4, 8), strides=(8, 1), dtype="float32")
call = TraceCall(key="c", entry="forward", args=(("x", meta),), num_programs=1)
def job(body):
    source = "import torch, triton\\ndef forward(x):\\n" + body
    return TraceJob(source=source, entries=("forward",), calls=(call,), device="cpu", timeout_s=2.0)
sandbox = open_process()
worker = sandbox.start("frontend")
for body in ("    return x.new_empty((2, 2))\\n", "    while True: pass\\n"):
    reply = worker.submit(job(body))
    print(reply.result.failure and reply.result.failure.status)
    reply.close()
print(time.monotonic() > 900_000_000)
sandbox.close()
"""


@pytest.mark.slow
def test_time_limits_hold_where_the_monotonic_clock_begins_elsewhere() -> None:
    """In a time namespace: no moment of one clock is compared with one of another."""
    unshare = ["unshare", "--time", "--monotonic", "1000000000", "--boottime", "1000000000"]
    try:
        tried = subprocess.run([*unshare, "true"], capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"no time namespace: {error}")
    if tried.returncode:
        pytest.skip(f"no time namespace: {tried.stderr.strip()[-200:]}")
    done = subprocess.run(
        [*unshare, sys.executable, "-c", HANGS],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.split() == ["None", "TIMEOUT", "True"], done.stderr[-2000:]
