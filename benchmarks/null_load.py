"""What else the machine does while null sessions are timed: load that comes and goes, and drift.

    python benchmarks/null_load.py load|drift SEED

An *injector* is this script in a process of its own. ``load``: up to three spinning threads of
control, each pinned to a core or not, and at times one that streams through memory; each starts and
stops at random moments, so that most changes fall inside sessions. ``drift``: one that spins and
one that streams, whose share of the time rises from none to all and falls again over minutes, by
the wall clock: it goes on where the last trial's stopped. Both end when the process that started
them does.
"""

import argparse
import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

CONDITIONS = ("none", "load", "drift")
MEAN_STRETCH_S = 2.0
DRIFT_PERIOD_S = 240.0
SLICE_S = 0.1
STREAM_BYTES = 64 * 2**20


@contextlib.contextmanager
def injected(condition: str, seed: int) -> Iterator[None]:
    """Load of a condition for as long as this lasts; "none" starts nothing."""
    if condition == "none":
        yield
        return
    command = [sys.executable, str(Path(__file__).resolve()), condition, str(seed)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        yield
    finally:
        process.stdin.close()  # type: ignore[union-attr]  # it was asked for
        process.wait()


def share(at_s: float) -> float:
    """Share of the time that a drifting hog takes at this moment: a triangle from 0 to 1 to 0."""
    phase = (at_s % DRIFT_PERIOD_S) / DRIFT_PERIOD_S
    return 1.0 - abs(2.0 * phase - 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("condition", choices=CONDITIONS[1:])
    parser.add_argument("seed", type=int)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    if options.condition == "drift":
        hogs = [_hog(rng, streams=streams, drifts=True) for streams in (False, True)]
    else:
        hogs = [_hog(rng, streams=False, drifts=False) for _ in range(rng.randrange(1, 4))]
        if rng.random() < 0.5:
            hogs.append(_hog(rng, streams=True, drifts=False))
    sys.stdin.read()  # until whoever started this closes it, or dies
    for hog in hogs:
        os.kill(hog, 9)
        os.waitpid(hog, 0)


def _hog(rng: random.Random, *, streams: bool, drifts: bool) -> int:
    """Forks one hog; its process id."""
    seed, cores = rng.getrandbits(63), sorted(os.sched_getaffinity(0))
    core = rng.choice(cores) if rng.random() < 0.5 else None
    parent = os.getpid()
    found = os.fork()
    if found == 0:
        if core is not None:
            os.sched_setaffinity(0, {core})
        _work(random.Random(seed), parent, streams=streams, drifts=drifts)
        os._exit(0)
    return found


def _work(rng: random.Random, parent: int, *, streams: bool, drifts: bool) -> None:
    data = bytes(STREAM_BYTES if streams else 1)
    busy = rng.random() < 0.5
    until_s = time.monotonic()
    while os.getppid() == parent:
        if drifts:
            _spin(SLICE_S * share(time.time()), data)
            time.sleep(SLICE_S * (1.0 - share(time.time())))
            continue
        if time.monotonic() >= until_s:
            busy = not busy
            until_s = time.monotonic() + rng.expovariate(1.0 / MEAN_STRETCH_S)
        if busy:
            _spin(SLICE_S, data)
        else:
            time.sleep(min(SLICE_S, max(0.0, until_s - time.monotonic())))


def _spin(seconds: float, data: bytes) -> None:
    """Uses a core; what is large is copied through memory again and again."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        bytearray(data)


if __name__ == "__main__":
    main()
