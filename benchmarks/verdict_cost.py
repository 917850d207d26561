"""What a verdict costs, by outcome, and how much memory the whole thing takes at its peak.

    python benchmarks/verdict_cost.py [--accepts N] [--tasks rms_norm,linear] [--quick]

A gate as a run has it: workers warm, the seed's bytes known. Policy rejects and bits rejects are
the self-proof's cheat and mutants, by a gate that has not compiled them before; accepts come from
what the search proposes first. Memory is the sum of proportional set sizes over this process and
all its children, read twice a second. Writes ``benchmarks/results/verdict_cost.json``. Wall times
of one machine, for orientation; nothing asserts them. About 12 minutes.
"""

import argparse
import json
import os
import platform
import secrets
import statistics
import threading
import time
from pathlib import Path
from typing import Any

from kernelsmith import wiring
from kernelsmith.gate.probes.cheats import cheats
from kernelsmith.gate.probes.mutants import mutants
from kernelsmith.lineage.past import PastCandidate
from kernelsmith.model import new_candidate, seed_candidate
from kernelsmith.proposers.search import Search

RESULT = Path(__file__).resolve().parent / "results" / "verdict_cost.json"
TASKS = ("rms_norm", "linear", "swiglu", "logprob")
REPEATS = 10
PROPOSALS_MAX = 25


class PeakMemory:
    """Peak of the summed proportional set sizes of this process and its descendants, in bytes."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            self.peak_bytes = max(self.peak_bytes, sum(map(_pss_bytes, _family(os.getpid()))))


def _family(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    found = {root}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return sorted(found)


def _pss_bytes(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--accepts", type=int, default=2, help="accepts to time for each task")
    parser.add_argument("--tasks", default=",".join(TASKS), help="by commas")
    parser.add_argument("--quick", action="store_true", help="no accepts; writes nothing")
    options = parser.parse_args()
    accepts = 0 if options.quick else options.accepts
    wires = wiring.real()
    device = wires.device(wires.device_name("auto"))
    sandbox = wires.sandbox("auto", True)
    report: dict[str, Any] = {
        "schema": "kernelsmith.benchmark.verdict_cost/1",
        "machine": {"device": device.describe(), "cores": os.cpu_count(), "os": platform.release()},
        "sandbox": sandbox.describe()["name"],
        "written_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "tasks": {},
    }
    with PeakMemory() as memory:
        for name in options.tasks.split(","):
            report["tasks"][name] = measure(wires, name, device, sandbox, accepts)
            print(json.dumps({name: report["tasks"][name]}, indent=1), flush=True)
            report["peak_memory_bytes"] = memory.peak_bytes
            if not options.quick:  # after each task: one that is broken off loses no other
                RESULT.write_text(json.dumps(report, indent=1) + "\n")
    sandbox.close()
    print(f"peak memory {memory.peak_bytes / 2**30:.2f} GiB")


def measure(
    wires: wiring.Wiring, name: str, device: Any, sandbox: Any, accepts: int
) -> dict[str, Any]:
    task = wires.load_task(name, device.name, ())
    gate = wires.judge(task, device, sandbox, secrets.randbits(255))
    found: dict[str, Any] = {"proof_s": wires.prove(gate, None)["seconds"]}
    gate.close()
    gate = wires.judge(task, device, sandbox, secrets.randbits(255))
    seed = seed_candidate(task)

    def judged(source: str) -> tuple[float, Any]:
        candidate = new_candidate(source, name, author="benchmark", parents=(seed.id,))
        began = time.monotonic()
        verdict = gate.judge(candidate, seed, 0)
        return time.monotonic() - began, verdict

    shell = next(cheat for cheat in cheats(task) if "policy" in cheat.checks)
    found["policy_reject_s"] = _spread(
        [judged(f"{shell.source}\n# {n}\n")[0] for n in range(REPEATS)]
    )
    judged(task.seed_source)  # the seed's bytes, once a run
    wrong = [source for _, source in mutants(task)]
    rejects = [judged(source) for source in wrong]
    found["bits_reject_s"] = _spread([seconds for seconds, _ in rejects])
    found["bits_reject_statuses"] = sorted({verdict.status for _, verdict in rejects})
    found["same_code_s"] = _spread([judged(f"{task.seed_source}\n# the seed\n")[0]])
    found["accepts"] = _accepts(task, gate, seed, accepts)
    gate.close()
    return found


def _accepts(task: Any, gate: Any, seed: Any, wanted: int) -> list[dict[str, Any]]:
    proposer = Search(0)
    history: list[PastCandidate] = []
    incumbent, confirms, found = seed, 0, []
    for _ in range(PROPOSALS_MAX):
        if len(found) >= wanted:
            break
        candidate = proposer.propose(task, history)
        if candidate is None:
            break
        began = time.monotonic()
        verdict = gate.judge(candidate, incumbent, confirms)
        seconds = time.monotonic() - began
        names = [check.name for check in verdict.checks]
        confirms += "confirm" in names
        history.append(
            PastCandidate(
                candidate=candidate,
                status=verdict.status,
                gain_vs_seed=verdict.gain.geomean if verdict.gain else None,
                message=verdict.checks[-1].message,
            )
        )
        if verdict.accepted:
            incumbent = candidate
            checks = {check.name: round(check.seconds, 3) for check in verdict.checks}
            confirm_s = checks["confirm"] / verdict.gain.sessions
            found.append(
                {
                    "seconds": seconds,
                    "sessions": verdict.gain.sessions,
                    "confirm_s_by_session": confirm_s,
                    "gain": verdict.gain.geomean,
                    "changes": list(candidate.changes),
                    "checks_s": checks,
                }
            )
    return found


def _spread(seconds: list[float]) -> dict[str, float]:
    return {
        "median": statistics.median(seconds),
        "min": min(seconds),
        "max": max(seconds),
        "count": len(seconds),
    }


if __name__ == "__main__":
    main()
