"""Writes the tables of the documents from the committed JSON: ``python benchmarks/figures.py``.

A block between two markers is generated, in whichever page has them: ``figures``, one line a
figure (the README), ``speed``, the CPU device's goals and ratios, ``null-...``, the statistics of a
gain. A test compares each block with what this makes of the results.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import audit_tables
import device_tables
import kill_tables
import mutant_report
import null_tables
import soak_table
import speed_goals

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def main() -> None:
    for page, name, written in blocks():
        begin, end = markers(name)
        text = page.read_text()
        page.write_text(text.replace(begin + written + end, begin + BLOCKS[name]() + end))


def markers(name: str) -> tuple[str, str]:
    """Lines around a generated block."""
    return f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"


def blocks() -> Iterator[tuple[Path, str, str]]:
    """(page, name, what it holds now) of every generated block."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for name in BLOCKS:
            begin, end = markers(name)
            _, found, rest = page.read_text().partition(begin)
            if found:
                yield page, name, rest.partition(end)[0]


def render() -> str:
    """The README's table, Markdown."""
    rows = ["| what | figure | from |", "|---|---|---|"]
    for name, lines in FIGURES.items():
        document = json.loads((RESULTS / f"{name}.json").read_text())
        rows += [f"| {what} | {figure} | `{name}.json` |" for what, figure in lines(document)]
    return "\n".join(rows) + "\n"


def _main_job(document: Any) -> list[tuple[str, str]]:
    found = []
    for task in document["tasks"]:
        gain = task["gain"]
        cases = [case["gain"] for case in gain["cases"]]
        found.append(
            (
                f"`make run`: `{task['task']}`, gain over the seed",
                f"{gain['geomean']:.2f}× (96 %: {gain['low']:.2f}–{gain['high']:.2f}); "
                f"cases {', '.join(f'{case:.2f}' for case in cases)}",
            )
        )
    return found


def _winner(document: Any) -> list[tuple[str, str]]:
    found = []
    for op in dict.fromkeys(row["op"] for row in document["rows"]):
        rows = [row for row in document["rows"] if row["op"] == op]
        key, than = "winner_to_torch", "torch eager in its dtype"
        if op == "linear":
            rows = [row for row in rows if row["tokens"] in (1, 16)]
            key, than = "winner_to_torch_fp32", "torch fp32 at M = 1 and 16"
        found.append(
            (
                f"winner of `{op}` to {than}, time: worst, median of sizes and dtypes",
                f"{max(row[key] for row in rows):.2f}×, {_median([row[key] for row in rows]):.2f}×",
            )
        )
    return found


def _device(document: Any) -> list[tuple[str, str]]:
    compile_ms = [entry["ms"] for entry in document["compile"]]
    launch = document["launch"]
    return [
        (
            f"CPU device: compiling a kernel, most and median of {len(compile_ms)}",
            f"{max(compile_ms):.0f} ms, {_median(compile_ms):.0f} ms",
        ),
        (
            "CPU device: a launch, the launcher's part of it and through all of Triton, at most",
            f"{max(entry['launcher_us'] for entry in launch):.1f} µs, "
            f"{max(entry['triton_us'] for entry in launch):.1f} µs",
        ),
        (
            "CPU device: speed goals met (which, and by how much: docs)",
            f"{sum(goal.met for goal in speed_goals.goals(document))} of "
            f"{len(speed_goals.goals(document))}",
        ),
    ]


def _speed() -> str:
    document = json.loads((RESULTS / "cpu_device.json").read_text())
    when = (
        f"Measured {document['date'][:16].replace('T', ' ')} UTC, load average before: "
        f"{document['load_1m_before']:.1f} on {document['device']['cpus']} cores.\n\n"
    )
    return when + speed_goals.table(document) + "\n" + speed_goals.ratios(document)


def _verdicts(document: Any) -> list[tuple[str, str]]:
    found = []
    for name, task in document["tasks"].items():
        accept = task["accepts"][0]["seconds"] if task["accepts"] else None
        found.append(
            (
                f"a verdict of `{name}`: policy reject, bits reject, accept",
                f"{1e3 * task['policy_reject_s']['median']:.0f} ms, "
                f"{task['bits_reject_s']['median']:.2f} s, "
                + (f"{accept:.0f} s" if accept else "none"),
            )
        )
    peak = document["peak_memory_bytes"] / 2**30
    return [*found, ("peak memory, host and workers", f"{peak:.2f} GiB")]


def _statistics(document: Any) -> list[tuple[str, str]]:
    drawn = document["resampled"]["all"]
    rate = null_tables.rate
    return [
        (
            "identical kernels, distinct binaries, all conditions: accepted, of real trials",
            rate(document["real"]["null"]),
        ),
        (
            f"the same, resampled from {drawn['from_sessions']:,} real sessions; moved to the edge "
            "of the null",
            f"{rate(drawn['null']['1'])}; {rate(drawn['edge']['1'])}",
        ),
        (
            "power at a true gain of 2 %, of 5 % (resampled)",
            f"{rate(drawn['power']['2']['1'])}; {rate(drawn['power']['5']['1'])}",
        ),
    ]


def _mutants(document: Any) -> list[tuple[str, str]]:
    return mutant_report.figures(document)


def _cheats(document: Any) -> list[tuple[str, str]]:
    walls = document["first_wall"]
    return [
        (
            "cheats: files; stopped by policy, by later checks; accepted, which are named gaps",
            f"{document['count']}; {walls['policy']}, "
            f"{document['count'] - walls['policy'] - document['gaps']}; {document['gaps']}",
        )
    ]


def _versions(document: Any) -> list[tuple[str, str]]:
    names = ", ".join(sorted(version["triton"] for version in document["versions"]))
    return [
        (
            f"digests compared over Triton {names}, program orders and threads; different",
            f"{document['comparisons']}; {len(document['differences'])}",
        )
    ]


def _lineage(document: Any) -> list[tuple[str, str]]:
    medians = document["query_ms"]
    return [
        (
            f"{document['candidates']:,} candidates: queries of `runs`, `show`, `diff`, median",
            ", ".join(f"{medians[name]['median']:.0f}" for name in ("runs", "show_run", "diff"))
            + " ms",
        )
    ]


def _overhead(document: Any) -> list[tuple[str, str]]:
    found = []
    for key, what in (("nothing", "nothing is judged"), ("bits", "the gate looks at bits")):
        part = document[f"proposals_{key}"]
        systems = ("kernelsmith", "kernelsmith_checks", "openevolve")
        rates = ", ".join(f"{part[name]['per_minute']:,.0f}" for name in systems)
        found.append(
            (
                f"model that answers at once, {what}, {document['setting']['workers']} workers, a "
                "minute: the agent's proposals, its checks, OpenEvolve's programs",
                rates,
            )
        )
    for streams, one in document["calls"]["streams"].items():
        over = one["agent_over_straight_ms"]
        found.append(
            (
                f"a call through client, proxy and journal, over one straight to the server, "
                f"{streams} stream{'s' if streams != '1' else ''}: median, p95",
                f"{over['median']:.0f} ms, {over['p95']:.0f} ms "
                f"({one['agent']['calls_per_s']:.0f} calls a second)",
            )
        )
    return found


def _kills(document: Any) -> list[tuple[str, str]]:
    return [
        (
            f"the scripted night killed with SIGKILL at {document['killed']} moments in "
            f"{len(document['nights'])} nights and resumed: findings",
            str(len(document["problems"])),
        )
    ]


def _escapes(document: Any) -> list[tuple[str, str]]:
    counts = []
    for name in dict.fromkeys(row["sandbox"] for row in document["rows"]):
        own = [row for row in document["rows"] if row["sandbox"] == name]
        stopped = sum(row["state"] == "blocked" for row in own)
        counts.append(f"{name} {stopped} of {len(own)}")
    ways = len({row["name"] for row in document["rows"]})
    return [
        (
            f"{ways} ways out of the sandboxes, each in every kind of job: stopped (the rest is "
            "named, `docs/escapes.md`)",
            ", ".join(counts),
        )
    ]


def _latency(document: Any) -> list[tuple[str, str]]:
    found = []
    for name in document["sandboxes"]:
        over = [told[name]["over_bare_ms"] for told in document["kinds"].values() if name in told]
        found.append(f"{name} {min(over):.1f}–{max(over):.1f}")
    return [
        (
            "a warm job over one without a wall, median by kind of job (load average "
            f"{document['machine']['load_1m_before']:.0f} on {document['machine']['cores']} cores)",
            ", ".join(found) + " ms",
        )
    ]


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


FIGURES: dict[str, Callable[[Any], list[tuple[str, str]]]] = {
    "main_job": _main_job,
    "winner_beside_torch": _winner,
    "cpu_device": _device,
    "verdict_cost": _verdicts,
    "statistics": _statistics,
    "mutants": _mutants,
    "cheats": _cheats,
    "triton_versions": _versions,
    "lineage_scale": _lineage,
    "agent_overhead": _overhead,
    "agent_kills": _kills,
    "night_kills": kill_tables.figures,
    "audit": audit_tables.figures,
    "night_escapes": _escapes,
    "night_latency": _latency,
}

BLOCKS: dict[str, Callable[[], str]] = {
    "figures": render,
    "speed": _speed,
    "ops": device_tables.ops,
    "ulp": device_tables.ulp,
    "conformance": device_tables.conformance,
    "kills": kill_tables.kills,
    "kill-points": kill_tables.points,
    **null_tables.BLOCKS,
    **audit_tables.BLOCKS,
}

if soak_table.RESULT.exists():  # the longest of the proofs comes last
    FIGURES["night_soak"] = soak_table.figures
    BLOCKS["night-soak"] = soak_table.table

if __name__ == "__main__":
    main()
