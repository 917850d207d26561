"""Metrics of a run for Prometheus: over HTTP, or as a file for the node exporter.

What is counted is read from the record when it is asked for, so that a resumed run goes on
counting where it ended. Only what no record holds (workers that died, log records, disk space)
is counted in this process.
"""

import logging
import sys
import threading
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

from kernelsmith.errors import InputError, KernelsmithError
from kernelsmith.operations import logs, metrics_run

WRITTEN_EVERY_S = 15.0
_LOG = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class Collector:
    """What a scrape is answered with. ``run_id`` is "" until the run is on record; ``left_s``
    tells how much of its time is left."""

    db: Path
    run_id: str = ""
    left_s: Callable[[], float] | None = None
    records: Counts[str] = field(default_factory=Counts)
    worker_deaths: Counts[str] = field(default_factory=Counts)

    def collect(self) -> Iterator[Metric]:
        """All metrics. A record that cannot be read just now is itself one."""
        yield from self._of_process()
        readable = GaugeMetricFamily(
            "kernelsmith_database_readable", "1: the record could be read for this scrape."
        )
        try:
            found = list(metrics_run.read(self.db, self.run_id)) if self.run_id else []
            readable.add_metric([], 1)
        except KernelsmithError as error:
            _LOG.warning(error.message, exc_info=error, extra={"event": "metrics_failed"})
            found = []
            readable.add_metric([], 0)
        yield readable
        yield from found

    def _of_process(self) -> Iterable[Metric]:
        counted = CounterMetricFamily(
            "kernelsmith_log_records", "Log records of this process by level.", labels=["level"]
        )
        for level in ("warning", "error", "critical"):
            counted.add_metric([level], self.records[level])
        deaths = CounterMetricFamily(
            "kernelsmith_worker_deaths",
            "Sandbox workers of this process that died or hung at their start or at a job.",
            labels=["role"],
        )
        for role in sorted({"frontend", "launcher", "seed", *self.worker_deaths}):
            deaths.add_metric([role], self.worker_deaths[role])
        found = [counted, deaths, *metrics_run.disk(self.db)]
        if self.left_s is not None:
            left = "kernelsmith_time_left_seconds"
            found.append(GaugeMetricFamily(left, "Active seconds left.", value=self.left_s()))
        return found

    def count(self, record: logging.LogRecord) -> bool:
        """A filter that lets nothing through: it counts."""
        self.records[record.levelname.lower()] += 1
        if getattr(record, "event", "") == "worker_died":
            self.worker_deaths[str(getattr(record, "facts", {}).get("role", ""))] += 1
        return False


@contextmanager
def served(db: Path, port: int | None, address: str, to: Path | None) -> Iterator[Collector]:
    """Answers scrapes and writes the file while the block runs; ``port`` 0 takes any free one.

    Raises:
        InputError: the address cannot be listened at, or the file cannot be written.
    """
    collector = Collector(db=db)
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    counting = logging.Handler()
    counting.addFilter(collector.count)
    ours = logging.getLogger(logs.OURS)
    with ExitStack() as stack:
        ours.addHandler(counting)
        stack.callback(ours.removeHandler, counting)
        if port is not None:
            server = _listen(registry, port, address)
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            where = f"http://{address}:{server.server_port}/metrics"
            _LOG.info("metrics at %s", where, extra={"event": "metrics", "facts": {"url": where}})
            print(f"metrics at {where}", file=sys.stderr, flush=True)  # with its port
        if to is not None:
            stack.enter_context(_written(registry, to))
        yield collector


def _listen(registry: CollectorRegistry, port: int, address: str) -> WSGIServer:
    try:
        server, _ = start_http_server(port, addr=address, registry=registry)
    except (OSError, UnicodeError) as error:  # the latter: no name of a machine can be so
        why = getattr(error, "strerror", None) or error
        raise InputError(
            f"metrics cannot be served at {address}:{port}: {why}",
            hint="name another port with --metrics-port (0 takes any free one) or another "
            "--metrics-address",
        ) from error
    return server


@contextmanager
def _written(registry: CollectorRegistry, to: Path) -> Iterator[None]:
    """Writes the file now, every so often, and once more at the end."""
    _write(registry, to)
    ended = threading.Event()

    def write_again() -> None:
        try:
            _write(registry, to)
        except InputError as error:
            _LOG.warning(error.message, exc_info=error, extra={"event": "metrics_failed"})

    def keep_writing() -> None:
        while not ended.wait(WRITTEN_EVERY_S):
            write_again()

    thread = threading.Thread(target=keep_writing, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        write_again()


def _write(registry: CollectorRegistry, to: Path) -> None:
    try:
        write_to_textfile(str(to), registry)
    except OSError as error:
        raise InputError(
            f"cannot write the metrics file {to}: {error.strerror}",
            hint="name another with --metrics-to",
        ) from error
