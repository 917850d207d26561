"""Metrics of a run, scraped while it goes on and read by Prometheus' own parser."""

import json
import re
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kernelsmith.errors import SandboxError
from tests.cli.asking import one_error_line, run_of
from tests.operations.processes import LONG, SHORT, lines, until

UNITS = re.compile(r"_(total|seconds|bytes|info|ratio|dollars|created|bucket|sum|count)$")
PLAIN = {
    *("kernelsmith_candidates_waiting", "kernelsmith_paused", "kernelsmith_stop_requested"),
    *("kernelsmith_database_readable", "kernelsmith_run_ended"),
}


def parsed(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Sample name -> labels -> value."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in found.setdefault(sample.name, {}), sample
            found[sample.name][labels] = sample.value
    return found


def by(samples: dict[tuple[tuple[str, str], ...], float], label: str) -> dict[str, float]:
    return {dict(labels)[label]: value for labels, value in samples.items()}


def scrape(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return str(answer.read().decode())


def test_a_run_is_scraped_while_it_goes_on(start: Any, tmp_path: Path) -> None:
    words = ("run", "toy", *LONG, "--seed", "4", "--metrics-port", "0", "--log", "log.jsonl")
    run = start(*words, KS_SLEEP_S="0.05")
    url = run.stderr.readline().removeprefix("metrics at ").strip()
    assert url.startswith("http://127.0.0.1:")
    logged = lines((tmp_path / "log.jsonl").read_text())
    assert [each["url"] for each in logged if each["event"] == "metrics"] == [url]

    def with_a_winner() -> Any:
        found = parsed(scrape(url))
        won = sum(found.get("kernelsmith_candidates_accepted_total", {}).values())
        return found if won else None

    found = until(with_a_winner)
    assert run.poll() is None
    ours = {name for name in found if name.startswith("kernelsmith_")}
    assert {name for name in ours if not UNITS.search(name)} <= PLAIN
    (info,) = found["kernelsmith_run_info"]
    assert {"run", "device", "proposer", "sandbox", "host", "version"} == set(dict(info))
    statuses = by(found["kernelsmith_candidates_total"], "status")
    assert (
        statuses["ACCEPTED"] == found["kernelsmith_candidates_accepted_total"][(("task", "toy"),)]
    )
    assert found["kernelsmith_incumbent_gain_estimate_ratio"][(("task", "toy"),)] > 1.0
    counts = by(found["kernelsmith_check_duration_seconds_count"], "check")
    assert counts["policy"] == sum(statuses.values())
    buckets = found["kernelsmith_check_duration_seconds_bucket"]
    policy = {dict(k)["le"]: v for k, v in buckets.items() if dict(k)["check"] == "policy"}
    assert policy["+Inf"] == counts["policy"]
    assert list(policy.values()) == sorted(policy.values()), "buckets are cumulative"
    assert policy["0.05"] == 0
    assert policy["0.1"] == counts["policy"]
    assert 0 < found["kernelsmith_time_left_seconds"][()] < 3600
    assert found["kernelsmith_disk_free_bytes"][()] > 0
    assert found["kernelsmith_paused"][()] == 0
    assert by(found["kernelsmith_incidents_total"], "kind")["retry"] == 0
    assert found["process_resident_memory_bytes"][()] > 0


def test_a_resumed_run_goes_on_counting_and_the_file_has_its_end(
    kernelsmith: Any, tmp_path: Path
) -> None:
    run_of(kernelsmith)
    words = ("--max-candidates", "5", "--metrics-to", "run.prom")
    assert kernelsmith("resume", "latest", *words)[0] == 0
    found = parsed((tmp_path / "run.prom").read_text())
    statuses = by(found["kernelsmith_candidates_total"], "status")
    assert sum(statuses.values()) == 13
    assert by(found["kernelsmith_run_ended"], "how") == {
        "finished": 1.0,
        "interrupted": 0.0,
        "failed": 0.0,
        "paused": 0.0,
    }
    gains = by(found["kernelsmith_incumbent_gain_ratio"], "bound")
    assert gains["low"] <= gains["geomean"] <= gains["high"]
    assert by(found["kernelsmith_incidents_total"], "kind")["resumed"] == 1
    assert [each.name for each in tmp_path.glob("*.prom*")] == ["run.prom"]


def test_an_agents_calls_tokens_and_dollars_are_metrics(tmp_path: Path) -> None:
    from kernelsmith.lineage.spending import AgentStanding
    from kernelsmith.model import Usage
    from kernelsmith.operations import metrics_run

    agent = AgentStanding(
        model="m",
        rehearsal=False,
        budget_usd=None,
        budget_tokens=None,
        calls=3,
        usage=Usage(input=10, output=4),
        cost_usd=None,
        sessions=(),
    )
    found = {each.name: each for each in metrics_run.agent(agent)}
    assert set(found) == {"kernelsmith_model_calls", "kernelsmith_model_tokens"}
    tokens = {s.labels["kind"]: s.value for s in found["kernelsmith_model_tokens"].samples}
    assert (tokens["input"], tokens["output"], tokens["cache_read"]) == (10, 4, 0)


@pytest.mark.parametrize("level", ["info", "error"])
def test_workers_that_died_and_records_of_trouble_are_counted_whatever_is_logged(
    level: str, tmp_path: Path
) -> None:
    import logging

    from kernelsmith.operations import logs, metrics

    log = logging.getLogger("kernelsmith.tests")
    with (
        logs.opened(tmp_path / "x.jsonl", level, ()),
        metrics.served(tmp_path / "runs.db", None, "127.0.0.1", tmp_path / "x.prom"),
    ):
        died = {"event": "worker_died", "facts": {"role": "launcher"}}
        log.warning("the launcher worker died", extra=died)
        log.error("more", exc_info=SandboxError("x"))
    log.error("after it")
    logged = [each["level"] for each in lines((tmp_path / "x.jsonl").read_text())]
    assert logged == (["warning", "error"] if level == "info" else ["error"])
    found = parsed((tmp_path / "x.prom").read_text())
    assert by(found["kernelsmith_worker_deaths_total"], "role")["launcher"] == 1
    levels = by(found["kernelsmith_log_records_total"], "level")
    assert levels == {"warning": 1, "error": 1, "critical": 0}


def test_a_record_that_cannot_be_read_is_a_metric_and_ends_no_scrape(tmp_path: Path) -> None:
    from prometheus_client import CollectorRegistry, generate_latest

    from kernelsmith.operations import metrics

    (tmp_path / "runs.db").write_bytes(b"no database" * 500)
    registry = CollectorRegistry()
    registry.register(metrics.Collector(db=tmp_path / "runs.db", run_id="r"))
    found = parsed(generate_latest(registry).decode())
    assert found["kernelsmith_database_readable"][()] == 0
    assert found["kernelsmith_disk_free_bytes"][()] > 0


def test_a_port_that_is_taken_is_said_before_the_run_begins(kernelsmith: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, _, err = kernelsmith("run", "toy", *SHORT, "--metrics-port", port)
    assert (code, "metrics cannot be served at 127.0.0.1" in one_error_line(err)) == (2, True)
    code, out, _ = kernelsmith("runs", "--json")
    assert code == 2 or json.loads(out)["runs"] == []


@pytest.mark.parametrize("address", ["..", "nowhere.invalid"])
def test_an_address_that_no_machine_has_is_said_too(kernelsmith: Any, address: str) -> None:
    words = ("--metrics-port", "0", "--metrics-address", address)
    code, _, err = kernelsmith("run", "toy", *SHORT, *words)
    assert (code, f"metrics cannot be served at {address}:0" in one_error_line(err)) == (2, True)


@pytest.mark.parametrize("to", ["nowhere/x.prom", "."])
def test_a_metrics_file_that_cannot_be_written_is_said_too(kernelsmith: Any, to: str) -> None:
    code, _, err = kernelsmith("run", "toy", *SHORT, "--metrics-to", to)
    assert (code, "cannot write the metrics file" in one_error_line(err)) == (2, True)
