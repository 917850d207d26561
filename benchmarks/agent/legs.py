"""One leg of the comparison: a system proposes so many programs, a clock line for each verdict.

Both systems run as their users run them, in processes of their own, against a loopback server that
answers at once; only the evaluator is the benchmark's.
"""

import contextlib
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SYSTEMS = ("kernelsmith", "kernelsmith_checks", "openevolve")
WARM_UP = 10
"""Verdicts left out at the beginning: workers start, modules load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """``per_minute``: verdicts after the warm-up; thirds show whether it slows down. ``wall_s``:
    the whole command, start included; ``cpu_s``: it and its workers, without the model's server."""

    system: str
    evaluator: str
    proposals: int
    per_minute: float
    per_minute_first_third: float
    per_minute_last_third: float
    wall_s: float
    cpu_s: float
    load_1m_before: float


@contextlib.contextmanager
def served(command: Sequence[str], log: Path, known: set[int] | None = None) -> Iterator[str]:
    """Starts a server that prints one line when it is up; yields its last word, the address.
    ``known``: is told its process id."""
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        if known is not None:
            known.add(process.pid)
        try:
            line = process.stdout.readline().strip()
            if not line:
                raise SystemExit(f"{command[1]} did not come up; see {log}")
            yield line.split()[-1]
        finally:
            process.stdin.close()
            for end in (process.terminate, process.kill):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(5)
                    break
                end()
            process.wait()
            process.stdout.close()


def openevolve(
    openevolve_run: Path,
    address: str,
    source: str,
    gate: str,
    proposals: int,
    workers: int,
    folder: Path,
) -> Leg:
    """``gate``: the socket of a gate service, "" judges nothing."""
    folder.mkdir(parents=True)
    config = (HERE / "openevolve.yaml").read_text()
    config = config.replace("{address}", address).replace("{workers}", str(workers))
    (folder / "config.yaml").write_text(config)
    (folder / "initial.py").write_text(source)
    command = [
        str(openevolve_run),
        str(folder / "initial.py"),
        str(HERE / "openevolve_evaluator.py"),
        *("--config", str(folder / "config.yaml")),
        *("--iterations", str(proposals)),
        *("--output", str(folder / "output")),
    ]
    return _measured(
        "openevolve", "bits" if gate else "nothing", command, folder, {"BENCH_GATE": gate}
    )


def kernelsmith(
    address: str, task: str, judge: str, proposals: int, workers: int, folder: Path
) -> Leg:
    """Whole proposals: checked, submitted, judged, on record. ``judge``: "nothing" or "bits", see
    ``program.py``. Sessions at once = ``workers``."""
    return _kernelsmith(
        "kernelsmith", address, task, judge, ("--max-candidates", str(proposals)), workers, folder
    )


def checks(address: str, task: str, judge: str, looks: int, workers: int, folder: Path) -> Leg:
    """Conversations that check and never submit: one model call and one look a program. They are
    asked to stop once there were so many."""
    return _kernelsmith("kernelsmith_checks", address, task, judge, (), workers, folder, looks)


def _kernelsmith(
    system: str,
    address: str,
    task: str,
    judge: str,
    ending: tuple[str, ...],
    workers: int,
    folder: Path,
    stop_after: int | None = None,
) -> Leg:
    folder.mkdir(parents=True)
    (folder / "kernelsmith.toml").write_text(TOML.format(workers=workers))
    command = [
        *(sys.executable, str(HERE / "program.py"), judge),
        *("run", task, "--proposer", "agent", "--seed", "1", *ending),
        *("--db", str(folder / "runs.db")),
    ]
    variables = {
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": "test",
        "BENCH_STAMP_LOOKS": "1" if stop_after else "",
    }
    return _measured(system, judge, command, folder, variables, stop_after)


TOML = """\
[agent]
model = "scripted-replies"
concurrency = {workers}
budget_usd = "none"
budget_tokens = 1000000000
"""


def _measured(
    system: str,
    evaluator: str,
    command: list[str],
    folder: Path,
    variables: Mapping[str, str],
    stop_after: int | None = None,
) -> Leg:
    stamps = folder / "stamps"
    load = os.getloadavg()[0]
    before = _children_cpu_s()
    began_s = time.monotonic()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **variables, "BENCH_STAMPS": str(stamps)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        while stop_after and process.poll() is None:
            if len(_clock(stamps)) >= stop_after:
                stop = [sys.executable, str(HERE / "program.py"), evaluator, "stop", "latest"]
                subprocess.run([*stop, "--db", str(folder / "runs.db")], check=True, stdout=log)
                break
            time.sleep(0.1)
        if process.wait():
            raise SystemExit(f"{system} failed; it said:\n{(folder / 'log').read_text()[-2000:]}")
    wall_s = time.monotonic() - began_s
    clock = _clock(stamps)[WARM_UP:stop_after]
    third = len(clock) // 3
    return Leg(
        system=system,
        evaluator=evaluator,
        proposals=len(clock) - 1,
        per_minute=_rate(clock),
        per_minute_first_third=_rate(clock[:third]),
        per_minute_last_third=_rate(clock[-third:]),
        wall_s=wall_s,
        cpu_s=_children_cpu_s() - before,
        load_1m_before=load,
    )


def _clock(stamps: Path) -> list[float]:
    if not stamps.exists():
        return []
    return [float(line.split()[0]) for line in stamps.read_text().splitlines()]


def _rate(clock: Sequence[float]) -> float:
    return 60.0 * (len(clock) - 1) / (clock[-1] - clock[0])


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def summary(legs: Sequence[Leg]) -> dict[str, Any]:
    """Medians of each system over its legs, and kernelsmith's over OpenEvolve's."""
    found: dict[str, Any] = {"legs": [asdict(leg) for leg in legs]}
    for system in SYSTEMS:
        own = [leg for leg in legs if leg.system == system]
        found[system] = {
            "per_minute": statistics.median(leg.per_minute for leg in own),
            "cpu_ms_per_proposal": 1e3
            * statistics.median(leg.cpu_s / (leg.proposals + WARM_UP) for leg in own),
        }
    for system in SYSTEMS[:2]:
        ratio = found[system]["per_minute"] / found["openevolve"]["per_minute"]
        found[f"{system}_to_openevolve"] = ratio
    return found
