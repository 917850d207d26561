"""The soak's rule: planted leaks are seen, noise is not one, too little is no evidence."""

import os
import random
import subprocess
import sys
from pathlib import Path

import flatness
import pytest
import sampling
import soak
import stream

from kernelsmith.proposers.search import normalised_hash

MINUTES = 20.0
STEP_S = 2.0
MIB = 1 << 20


def series(
    level: float, *, noise: float, a_minute: float = 0.0, spikes: float = 0.0
) -> list[float]:
    """Twenty minutes of samples: a level with noise, jobs that come and go, and a leak."""
    draw = random.Random(1)
    times = [at * STEP_S for at in range(int(MINUTES * 60 / STEP_S))]
    warm = [max(0.0, 1 - at / 200) * level * 0.3 for at in times]
    return [
        level - one + draw.gauss(0, noise) + a_minute * at / 60 + spikes * (draw.random() < 0.5)
        for at, one in zip(times, warm, strict=True)
    ]


def judged(**quantities: list[float]) -> dict[str, bool]:
    flat = {
        name: series(300 * MIB, noise=MIB)
        if name.endswith("bytes")
        else [round(v) for v in series(20, noise=0.2)]
        for name in soak.MAY_GROW
    }
    flat["spool_bytes"] = series(MIB, noise=0.0, spikes=80 * MIB)
    flat["spool_entries"] = [round(v) for v in series(20, noise=0.2, spikes=8)]
    columns = {**flat, **quantities}
    samples = [
        {
            "at_s": at * STEP_S,
            "exploring": True,
            **{name: values[at] for name, values in columns.items()},
        }
        for at in range(int(MINUTES * 60 / STEP_S))
    ]
    return {name: one.flat for name, one in soak.trends(samples).items()}


def test_what_only_comes_and_goes_is_flat() -> None:
    assert all(judged().values())


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("loop_bytes", series(300 * MIB, noise=MIB, a_minute=MIB)),
        ("workers_bytes", series(900 * MIB, noise=4 * MIB, a_minute=2 * MIB)),
        ("spool_bytes", series(MIB, noise=0, a_minute=MIB, spikes=40 * MIB)),
        ("open", [round(v) for v in series(20, noise=0.2, a_minute=0.5)]),
        ("processes", [round(v) for v in series(4, noise=0.2, a_minute=0.5)]),
        ("threads", [round(v) for v in series(6, noise=0.0, a_minute=0.5)]),
        ("spool_entries", [round(v) for v in series(30, noise=1, a_minute=0.5, spikes=9)]),
    ],
)
def test_a_planted_leak_is_seen_and_nothing_else(name: str, values: list[float]) -> None:
    """A mebibyte a minute, a descriptor in two: what a night would feel."""
    found = judged(**{name: values})
    assert [each for each, flat in found.items() if not flat] == [name]


def test_too_much_noise_or_too_few_samples_are_not_called_flat() -> None:
    assert not judged(open=series(20, noise=40.0))["open"]
    with pytest.raises(ValueError, match="blocks"):
        flatness.trend([0.0, 1.0], [1.0, 1.0], warm_up_s=0, block_s=1, may_grow=1)


LEAKS = """
import os, subprocess, sys, threading, time
for step in range(3):
    print("ready", flush=True)
    sys.stdin.readline()
    kept = globals().setdefault("kept", [])
    kept += [open(os.devnull) for _ in range(5)]
    kept.append(bytearray(os.urandom(8 << 20)))
    kept.append(subprocess.Popen(["sleep", "60"]))
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
for each in kept:
    if hasattr(each, "kill"):
        each.kill()
"""


def test_what_a_process_holds_is_read_from_outside(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", LEAKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdin is not None
    assert run.stdout is not None
    seen = []
    for _ in range(3):
        run.stdout.readline()
        seen.append(sampling.held(run.pid, lived_s=0.0))
        run.stdin.write("go\n")
        run.stdin.flush()
    run.wait()
    run.stdin.close()
    run.stdout.close()
    first, second, third = (one for one in seen if one is not None)
    assert None not in seen
    for before, after in ((first, second), (second, third)):
        assert after.open == before.open + 5
        assert after.threads == before.threads + 1
        assert after.processes == before.processes + 1
        assert after.loop_bytes - before.loop_bytes > 7 * MIB
    assert third.workers_bytes > 0 or os.geteuid() != 0
    assert sampling.held(run.pid) is None
    (tmp_path / "kernelsmith-spool-7-x" / "job").mkdir(parents=True)
    (tmp_path / "kernelsmith-spool-7-x" / "job" / "out").write_bytes(b"x" * 5000)
    (place,) = sampling.spools(7, (tmp_path,))
    entries, nbytes = sampling.tree(place)
    assert (entries, nbytes >= 5000) == (2, True)


def test_the_stream_repeats_itself_only_where_it_means_to() -> None:
    hashes = [normalised_hash(stream.source(number)) for number in range(4 * len(stream.KINDS))]
    repeats = [number for number, one in enumerate(hashes) if hashes.index(one) < number]
    assert {stream.KINDS[number % len(stream.KINDS)] for number in repeats} == {"said before"}
    assert len(repeats) == 4
