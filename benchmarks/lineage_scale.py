"""100,000 candidates in one database: what the queries of ``runs``, ``show`` and ``diff`` take.

Whole commands are measured apart (``cli_seconds``), and so is the start of Python within them
(``cli_start_seconds``): the goal is about queries. The candidates are made up but of real size:
seed sources with one line changed, ten checks with evidence, raw sessions for one in thirty.

    python benchmarks/lineage_scale.py [--candidates 100000] [-o benchmarks/results/...]
"""

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kernelsmith.lineage import database, queries, standings
from kernelsmith.lineage.step import StepWriter
from kernelsmith.lineage.store import open_store
from kernelsmith.lineage.verdicts import accepted, candidate_record, newest
from kernelsmith.lineage.verify import verify
from kernelsmith.lineage.writers import write_candidate, write_verdict
from kernelsmith.model import Candidate, CaseGain, CheckResult, Gain, Verdict, new_candidate

ROOT = Path(__file__).parent.parent
CHECKS = ("policy", "trace", "compile", "parity.train", "parity.infer", "cross_path")
CHECKS += ("determinism", "memory", "latency", "confirm")
GOAL_MS = 200.0
REPEATS = 7


def main() -> None:
    """Fills a database, times the queries, writes JSON."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--candidates", type=int, default=100_000)
    options.add_argument("-o", type=Path, default=ROOT / "benchmarks/results/lineage_scale.json")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        began_s = time.monotonic()
        winner = fill(path, chosen.candidates)
        found: dict[str, Any] = {
            "schema": "kernelsmith.benchmark.lineage_scale/1",
            "candidates": chosen.candidates,
            "fill_seconds": round(time.monotonic() - began_s, 1),
            "db_mib": round(path.stat().st_size / 2**20, 1),
            "query_ms": time_queries(path, winner),
            "cli_seconds": time_commands(path, winner),
            "goal_ms": GOAL_MS,
            "machine": f"{platform.machine()}, {os.cpu_count()} cpus",
            "load": os.getloadavg()[0],
        }
    found["cli_start_seconds"] = found["cli_seconds"].pop("--help")
    asked = ("runs", "show_candidate", "show_run", "diff")
    found["queries_goal_met"] = all(found["query_ms"][name]["median"] < GOAL_MS for name in asked)
    chosen.o.parent.mkdir(parents=True, exist_ok=True)
    chosen.o.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


def fill(path: Path, count: int) -> str:
    """Two runs of one task each share ``count`` candidates. Returns the last accepted id.

    Thousands of steps share a transaction here, which a run never does: the rows are the same.
    """
    store = open_store(path)
    winner = ""
    for name in ("rms_norm", "linear"):
        source = (ROOT / "seed_kernels" / f"{name}.py").read_text()
        seed = new_candidate(source, name, author="seed")
        run_id = store.append("", "run", run_payload(seed))
        parent = seed
        todo = proposals(seed, count // 2)
        while batch := list(itertools.islice(todo, 2000)):
            with store.database.transaction() as connection:
                for number, candidate in batch:
                    child = Candidate(
                        id=candidate.id,
                        task=name,
                        source=candidate.source,
                        parents=(parent.id,),
                        author="search",
                        changes=("BLOCK", "num_warps"),
                    )
                    writer = StepWriter(connection=connection, kind="candidate", run_id=run_id)
                    write_candidate(writer, {"candidate": child, "normal_hash": candidate.id * 4})
                    writer.finish()
                    verdict = make_verdict(child, number, seed.id)
                    writer = StepWriter(connection=connection, kind="verdict", run_id=run_id)
                    facts = {"seconds": 0.3, "elapsed_s": number * 0.3, "gain_vs_seed": 1.2}
                    write_verdict(writer, {"verdict": verdict, **facts})
                    writer.finish()
                    if verdict.accepted:
                        parent, winner = child, child.id
        gain = make_gain(seed.id, 20)
        final = {"task": name, "candidate": parent.id, "holds": True, "gain": gain}
        store.append(run_id, "retiming", {**final, "evidence": {}, "elapsed_s": 1.0})
        store.append(run_id, "finished", {"reason": "time", "elapsed_s": 28800.0})
    store.close()
    return winner


def proposals(seed: Candidate, count: int) -> Iterator[tuple[int, Candidate]]:
    for number in range(count):
        source = f"{seed.source}\n# rewrite {number}\n"
        yield number, new_candidate(source, seed.task, author="search")


def make_verdict(candidate: Candidate, number: int, against: str) -> Verdict:
    reached = 10 if number % 30 == 0 else 1 + number % 8
    status = "ACCEPTED" if number % 300 == 0 else "NOT_FASTER" if reached == 10 else "BITS_DIFFER"
    evidence = {"cases": 60, "first": {"case": "train.bf16.M97-N1024.cancel", "index": [3, 17]}}
    checks = tuple(
        CheckResult(
            name=name,
            status="fail" if i == reached - 1 and status != "ACCEPTED" else "pass",
            seconds=0.03,
            message="case train.bf16.M97-N1024.cancel: y[3, 17]: 0x3f81, expected 0x3f80",
            evidence=evidence,
        )
        for i, name in enumerate(CHECKS[:reached])
    )
    session = {"cases": [{"windows_ns": [float(number + i) for i in range(48)]}] * 5}
    return Verdict(
        candidate=candidate.id,
        task=candidate.task,
        status=status,  # type: ignore[arg-type]
        checks=checks,
        gain=make_gain(against, 8) if reached == 10 else None,
        unchecked=("order",),
        epoch="0123456789abcdef",
        device={"device": "cpu"},
        samples=tuple({**session, "session": i} for i in range(8)) if reached == 10 else (),
    )


def make_gain(against: str, sessions: int) -> Gain:
    cases = tuple(CaseGain(case=f"case{i}", path="infer", gain=1.2) for i in range(5))
    return Gain(geomean=1.2, low=1.19, high=1.21, sessions=sessions, cases=cases, against=against)


def run_payload(seed: Candidate) -> dict[str, Any]:
    facts = {"device": "cpu", "device_facts": {}, "sandbox": {}, "versions": {}, "options": {}}
    seeds = {"seeds": [seed], "normal_hashes": [seed.id], "process": {"pid": 1, "host": ""}}
    return {"proposer": "search", "seed": 0, "secret_seed": 0, **facts, **seeds}


def time_queries(path: Path, winner: str) -> dict[str, dict[str, float]]:
    """Milliseconds of each command's queries, each on a connection of its own."""

    def runs(connection: Any) -> None:
        for run_id in queries.run_ids(connection):
            standings.run_standing(connection, run_id)

    def show_candidate(connection: Any) -> None:
        candidate_record(connection, queries.find_candidate(connection, winner[:9]))

    def show_run(connection: Any) -> None:
        run_id = queries.find_run(connection, "latest")
        standings.run_standing(connection, run_id)
        newest(connection, run_id, 20)
        accepted(connection, run_id)

    def diff(connection: Any) -> None:
        record = queries.find_candidate(connection, winner[:9])
        queries.load_candidate(connection, record)
        queries.load_candidate(connection, queries.seed_record(connection, record))

    def resume(connection: Any) -> None:
        standings.before(connection, queries.find_run(connection, "latest"))

    timed = {
        name: timed_ms(path, query, REPEATS)
        for name, query in (
            ("runs", runs),
            ("show_candidate", show_candidate),
            ("show_run", show_run),
            ("diff", diff),
            ("resume", resume),
        )
    }
    timed["lineage_verify"] = timed_ms(path, lambda connection: check(connection), 1)
    return timed


def check(connection: Any) -> None:
    report = verify(connection)
    if report.findings:
        raise SystemExit(f"not intact: {report.findings[:3]}")


def timed_ms(path: Path, query: Callable[[Any], None], repeats: int) -> dict[str, float]:
    spent = []
    for _ in range(repeats):
        opened = database.open_for_reading(path)
        began_s = time.perf_counter()
        with opened.reading() as connection:
            query(connection)
        spent.append((time.perf_counter() - began_s) * 1e3)
        opened.close()
    return {"median": round(statistics.median(spent), 2), "max": round(max(spent), 2)}


def time_commands(path: Path, winner: str) -> dict[str, float]:
    """Wall seconds of whole commands, start-up included; the best of three."""
    found = {}
    for words in (["--help"], ["runs"], ["show", winner], ["diff", winner]):
        spent = []
        for _ in range(3):
            began_s = time.perf_counter()
            where = [] if words == ["--help"] else ["--db", str(path)]
            command = [str(Path(sys.executable).parent / "kernelsmith"), *words, *where]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            spent.append(time.perf_counter() - began_s)
        found[words[0]] = round(min(spent), 3)
    return found


if __name__ == "__main__":
    main()
