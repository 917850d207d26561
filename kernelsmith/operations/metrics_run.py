"""Metrics of a run as its record has them. Names and units are those of Prometheus' conventions."""

import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

if TYPE_CHECKING:
    from kernelsmith.lineage.spending import AgentStanding
    from kernelsmith.lineage.standings import RunStanding

BOUNDS_S = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
# Counted from 0 before the first, so that a rate sees it.
INCIDENTS = (
    *("retry", "set_aside", "agent_ended", "resumed", "paused", "machine_fault", "slowed"),
    "room_short",
)


def read(db: Path, run_id: str) -> Iterator[Metric]:
    """All that the record says of a run, in one view of it.

    Raises:
        DatabaseError: the record cannot be read.
    """
    from kernelsmith.lineage import queries, standings
    from kernelsmith.lineage.database import open_for_reading

    opened = open_for_reading(db, busy_timeout_s=2.0)
    try:
        with opened.reading() as connection:
            standing = standings.run_standing(connection, run_id)
            row = queries.run_row(connection, run_id)
            yield _info(standing, row["sandbox"], row["versions"])
            yield from _candidates(standing)
            yield from _gains(standing)
            yield from _times(connection, standing)
            yield from _incidents(connection, standing)
    finally:
        opened.close()
    if standing.agent is not None:
        yield from agent(standing.agent)


def disk(db: Path) -> list[Metric]:
    """Room where the record is, and its size with what waits in its log."""
    found: list[Metric] = []
    db = db.expanduser().absolute()
    if db.parent.is_dir():
        free = shutil.disk_usage(db.parent).free
        name = "kernelsmith_disk_free_bytes"
        found.append(GaugeMetricFamily(name, "Free room where the record is.", value=free))
    size = _nbytes(db) + _nbytes(db.with_name(db.name + "-wal"))
    name = "kernelsmith_database_size_bytes"
    found.append(GaugeMetricFamily(name, "The record and its write-ahead log.", value=size))
    return found


def _nbytes(path: Path) -> int:
    """A file's size; 0 where there is none: whoever closes the record last removes its log."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _info(run: "RunStanding", sandbox: dict[str, object], versions: dict[str, str]) -> Metric:
    facts = {
        "run": run.id,
        "device": run.device,
        "proposer": run.proposer,
        "sandbox": str(sandbox.get("name", "")),
        "host": str(run.began["process"].get("host", "")),
        "version": versions.get("kernelsmith-rl", ""),
    }
    return InfoMetricFamily("kernelsmith_run", "The run that this process drives.", value=facts)


def _candidates(run: "RunStanding") -> Iterator[Metric]:
    judged = CounterMetricFamily(
        "kernelsmith_candidates",
        "Candidates by task and what became of them: a verdict's status, DUPLICATE, UNJUDGED.",
        labels=["task", "status"],
    )
    accepted = CounterMetricFamily(
        "kernelsmith_candidates_accepted", "Accepted candidates.", labels=["task"]
    )
    waiting = GaugeMetricFamily(
        "kernelsmith_candidates_waiting", "On record without a verdict.", labels=["task"]
    )
    for task in run.tasks:
        counts = {**task.statuses, "DUPLICATE": task.duplicates, "UNJUDGED": task.set_aside}
        for status, count in sorted(counts.items()):
            judged.add_metric([task.task, status], count)
        accepted.add_metric([task.task], task.accepted)
        waiting.add_metric([task.task], task.waiting)
    yield from (judged, accepted, waiting)


def _gains(run: "RunStanding") -> Iterator[Metric]:
    estimate = GaugeMetricFamily(
        "kernelsmith_incumbent_gain_estimate_ratio",
        "Seed's time over the incumbent's, a product of confirms: an estimate.",
        labels=["task"],
    )
    final = GaugeMetricFamily(
        "kernelsmith_incumbent_gain_ratio",
        "The same, timed against the seed at the run's end; bound: geomean, low, high.",
        labels=["task", "bound"],
    )
    for task in run.tasks:
        estimate.add_metric([task.task], task.estimate)
        if task.gain is not None:
            for bound in ("geomean", "low", "high"):
                final.add_metric([task.task, bound], getattr(task.gain, bound))
    yield from (estimate, final)


def _times(connection: Any, run: "RunStanding") -> Iterator[Metric]:
    from kernelsmith.lineage import tallies

    checks = HistogramMetricFamily(
        "kernelsmith_check_duration_seconds",
        "How long a check of the gate took, by check.",
        labels=["check"],
    )
    for check, spread in sorted(tallies.judging_s(connection, run.id, BOUNDS_S).items()):
        bounds = [*(str(bound) for bound in BOUNDS_S), "+Inf"]
        buckets = list(zip(bounds, spread.counts, strict=True))
        checks.add_metric([check], buckets, spread.sum_s)
    judging = CounterMetricFamily(
        "kernelsmith_judging_seconds", "Time spent on judged candidates.", labels=["task"]
    )
    used_s = tallies.used_s(connection, run.id)
    for task in run.tasks:
        judging.add_metric([task.task], used_s.get(task.task, 0.0))
    yield from (checks, judging)
    active = "Active time of the run when it last recorded how much."
    yield CounterMetricFamily("kernelsmith_active_seconds", active, value=run.elapsed_s)
    at = datetime.fromisoformat(tallies.last_at(connection, run.id)).timestamp()
    name = "kernelsmith_last_record_timestamp_seconds"
    yield GaugeMetricFamily(name, "When the loop recorded anything last.", value=at)


def _incidents(connection: Any, run: "RunStanding") -> Iterator[Metric]:
    from kernelsmith.lineage import standings, tallies

    found = tallies.incidents(connection, run.id)
    incidents = CounterMetricFamily(
        "kernelsmith_incidents", "What went wrong around the candidates, by kind.", labels=["kind"]
    )
    for kind in sorted({*INCIDENTS, *found}):
        incidents.add_metric([kind], found[kind].count if kind in found else 0)
    yield incidents
    ended = GaugeMetricFamily("kernelsmith_run_ended", "1: how the run ended.", labels=["how"])
    for how in standings.ENDS:
        ended.add_metric([how], run.last == how)
    yield ended
    paused = GaugeMetricFamily("kernelsmith_paused", "1: the run is paused.", value=run.paused)
    stopping = "1: someone asked the run to stop."
    name = "kernelsmith_stop_requested"
    yield from (paused, GaugeMetricFamily(name, stopping, value=run.stop_requested))


def agent(standing: "AgentStanding") -> Iterator[Metric]:
    """Calls, tokens and dollars."""
    yield CounterMetricFamily("kernelsmith_model_calls", "Calls of a model.", value=standing.calls)
    tokens = CounterMetricFamily(
        "kernelsmith_model_tokens", "Tokens of recorded answers by kind.", labels=["kind"]
    )
    for kind in ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h"):
        tokens.add_metric([kind], getattr(standing.usage, kind))
    yield tokens
    if standing.cost_usd is not None:
        spent = "US dollars for recorded answers."
        cost = float(standing.cost_usd)
        yield CounterMetricFamily("kernelsmith_model_cost_dollars", spent, value=cost)
    if standing.budget_usd is not None:
        name, what = "kernelsmith_model_budget_dollars", "US dollars that may be spent in all."
        yield GaugeMetricFamily(name, what, value=float(standing.budget_usd))
