"""What the agent's loop and proxy cost: proposals a minute beside OpenEvolve, overhead of a call.

    python benchmarks/agent_overhead.py --openevolve VENV/bin/openevolve-run

Models are loopback servers that answer at once; no model is called. OpenEvolve (``pip install
openevolve`` into a venv of its own) and kernelsmith run in turn and back in one run of this script
(A B C C B A; kernelsmith once with whole proposals and once with checks alone), with equally many
workers and the same two evaluators: one that judges nothing, and the gate's first look at bits, in
either case in one process that judges one source at a time and each source once. A call's overhead
is the time of one call through the agent's client, the capture proxy and the journal less that of
the same call straight to the server, the two in turn, at 1 and at 64 streams. Writes
``benchmarks/results/agent_overhead.json``. Wall times of one machine, for orientation; nothing
asserts them.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent import calls, legs
from agent.edits_server import initial

from kernelsmith import catalog
from kernelsmith.wiring import versions

HERE = Path(__file__).resolve().parent
RESULT = HERE / "results" / "agent_overhead.json"
ORDER = (*legs.SYSTEMS, *legs.SYSTEMS[::-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--openevolve", type=Path, required=True, help="its command")
    parser.add_argument("--task", default="rms_norm")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--proposals", type=int, default=300, help="a leg, judging nothing")
    parser.add_argument("--judged", type=int, default=70, help="a leg, judging bits")
    parser.add_argument("--calls", type=int, default=400, help="of each kind, at each load")
    parser.add_argument("--result", type=Path, default=RESULT)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        document = _measure(options, Path(name))
    options.result.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document, indent=1))


def _measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = {
        "schema": "kernelsmith.benchmark.agent_overhead/1",
        "written_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "python": platform.python_version()},
        "load_1m_before": os.getloadavg()[0],
        "versions": {**versions(), **_theirs(options.openevolve)},
        "setting": {
            "task": options.task,
            "workers": options.workers,
            "openevolve": (HERE / "agent" / "openevolve.yaml").read_text(),
            "kernelsmith": legs.TOML,
            "not_the_same": NOT_THE_SAME,
        },
    }
    played = [sys.executable, "-m", "kernelsmith.rehearsal", "--script", "zero"]
    edited = [sys.executable, str(HERE / "agent" / "edits_server.py")]
    log = folder / "servers.log"
    with legs.served(played, log) as zero, legs.served(edited, log) as edits:
        for evaluator, count in (("nothing", options.proposals), ("bits", options.judged)):
            found = _legs(options, evaluator, count, zero, edits, folder)
            document[f"proposals_{evaluator}"] = legs.summary(found)
        bodies = calls.recorded_bodies(folder / "nothing0" / "runs.db")
        document["calls"] = calls.measure(zero, bodies, options.calls, folder)
    document["load_1m_after"] = os.getloadavg()[0]
    return document


NOT_THE_SAME = (
    "kernelsmith: two model calls a proposal (check, submit), every byte of every call recorded "
    "through the proxy, candidate and verdict each in one durable transaction of an SQLite file; "
    "a conversation ends after four submissions without a gain, as by default",
    "kernelsmith_checks: one model call a program (check), the same record, nothing submitted; a "
    "conversation has up to 60 turns, as by default",
    "OpenEvolve: one model call a proposal, prompts and programs kept in memory and written at "
    "checkpoints, none of which falls into a leg",
)


def _legs(
    options: argparse.Namespace, evaluator: str, count: int, zero: str, edits: str, folder: Path
) -> list[legs.Leg]:
    seed = catalog.load_task(options.task, "cpu", ()).seed_source
    source = initial(options.task, seed)
    found = []
    for number, system in enumerate(ORDER):
        place = folder / f"{evaluator}{number}"
        if system == "kernelsmith":
            leg = legs.kernelsmith(edits, options.task, evaluator, count, options.workers, place)
        elif system == "kernelsmith_checks":
            leg = legs.checks(zero, options.task, evaluator, count, options.workers, place)
        else:
            with _gate(options.task, evaluator, folder / f"gate{number}") as gate:
                leg = legs.openevolve(
                    options.openevolve, edits, source, gate, count, options.workers, place
                )
        print(leg, file=sys.stderr)
        found.append(leg)
    return found


@contextmanager
def _gate(task: str, evaluator: str, path: Path) -> Iterator[str]:
    """The socket of a gate of its own; "" where nothing is judged."""
    if evaluator == "nothing":
        yield ""
        return
    service = [sys.executable, str(HERE / "agent" / "gate_service.py"), task, str(path)]
    with legs.served(service, path.with_suffix(".log")):
        yield str(path)


def _theirs(command: Path) -> dict[str, str]:
    """Versions of what OpenEvolve's venv has."""
    program = (
        "import json; from importlib.metadata import version; "
        "print(json.dumps({name: version(name) for name in ('openevolve', 'openai')}))"
    )
    python = command.parent / "python"
    found = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    return dict(json.loads(found.stdout))


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))


if __name__ == "__main__":
    main()
