"""The summary of a run's end: what it says, where it goes, and that it never ends a run."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kernelsmith.config import operations
from kernelsmith.errors import InfrastructureError, InputError
from kernelsmith.operations import delivery
from tests.cli.asking import one_error_line
from tests.operations.processes import LONG, SHORT, lines, until

SECRET = "/services/T0/B0/verysecretpath"


@contextmanager
def webhook(*codes: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that answers with these codes, then with 200; what it was sent."""
    left, came = list(codes), []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/json"
            came.append({"path": self.path, **json.loads(body)})
            self.send_response(left.pop(0) if left else 200)
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{SECRET}", came
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_summary_goes_to_a_file_a_webhook_and_a_command(kernelsmith, tmp_path: Path) -> None:
    with webhook() as (url, came):
        code, _, err = kernelsmith(
            *("run", "toy", "other", "--max-candidates", "12", "--seed", "4"),
            *("--summary-to", "night.txt", "--summary-webhook", url),
            *("--summary-command", "cat > told.txt", "--log", "log.jsonl"),
        )
    assert code == 0
    assert SECRET not in err + (tmp_path / "log.jsonl").read_text()
    text = (tmp_path / "night.txt").read_text()
    assert (tmp_path / "told.txt").read_text() == text
    (posted,) = came
    assert posted["text"] + "\n" == text
    assert (posted["schema"], posted["state"]) == ("kernelsmith.summary/1", "finished")
    headline, *rest = text.splitlines()
    assert headline.startswith("kernelsmith on ")
    assert "finished (cpu): toy 1.200x" in headline
    run_id = posted["id"]
    assert rest[0].startswith(f"run {run_id}  finished after")
    assert f"  kernelsmith review {run_id}" in rest
    for task in posted["tasks"]:
        checks = posted["rejected_by"][task["task"]]
        rejected = sum(n for status, n in task["statuses"].items() if status != "ACCEPTED")
        assert sum(checks.values()) == rejected
        most = ", ".join(f"{name} {count}" for name, count in checks.items())
        assert f"{task['task']}: rejected most by {most}" in rest
    sent = list(lines((tmp_path / "log.jsonl").read_text()))
    assert [each["event"] for each in sent].count("summary_sent") == 3


def test_a_killed_run_has_a_summary_too(start, kernelsmith, tmp_path: Path) -> None:
    run = start("run", "toy", *LONG)
    until(lambda: "judging" in run.stderr.readline())
    run.kill()
    run.wait()
    code, out, _ = kernelsmith("summary", "--send", "--summary-to", "late.txt")
    assert (code, (tmp_path / "late.txt").read_text()) == (0, out)
    assert "interrupted (cpu)" in out.splitlines()[0]
    _, out, _ = kernelsmith("summary", "--json")
    assert json.loads(out)["schema"] == "kernelsmith.summary/1"
    words = ("summary", "--send", "--summary-to", "nowhere/x", "--log", "late.jsonl")
    code, _, err = kernelsmith(*words)
    assert (code, "nowhere/x" in one_error_line(err)) == (4, True)
    logged = lines((tmp_path / "late.jsonl").read_text())
    assert "summary_failed" in [each["event"] for each in logged]


def test_an_interrupted_run_tells_what_to_do(start, tmp_path: Path) -> None:
    run = start("run", "toy", *LONG, "--summary-to", "night.json")
    until(lambda: "judging" in run.stderr.readline())
    run.send_signal(2)
    assert run.wait(timeout=30) == 130
    told = json.loads((tmp_path / "night.json").read_text())
    assert told["state"] == "interrupted"
    assert f"kernelsmith resume {told['id']}" in told["next"]


def test_what_went_wrong_in_the_night_is_in_its_summary(kernelsmith, tmp_path: Path) -> None:
    from kernelsmith.lineage.store import open_store

    assert kernelsmith("run", "toy", *SHORT)[0] == 0
    store = open_store(tmp_path / "runs.db")
    with store.database.reading() as connection:
        run_id = connection.exec_driver_sql("SELECT id FROM runs").scalar_one()
    for number in range(2):
        store.append(run_id, "retry", {"task": "toy", "error": f"worker died \x1b[31m{number}"})
    store.append(run_id, "paused", {"level": "freeze", "reason": "SIGTERM"})
    store.append(run_id, "thawed", {"level": "freeze"})
    store.close()
    words = ("--max-candidates", "1", "--summary-to", "night.txt")
    assert kernelsmith("resume", "latest", *words)[0] == 0
    text = (tmp_path / "night.txt").read_text()
    assert "incident: retry, 2x; last at " in text
    assert r"worker died \x1b[31m1" in text
    assert "incident: paused, 1x" in text
    assert "incident: resumed, 1x" in text
    assert "incident: thawed" not in text


@pytest.mark.parametrize("to", ["nowhere/night.txt", "."])
def test_a_summary_that_goes_nowhere_costs_a_line_and_not_the_run(
    kernelsmith, tmp_path: Path, to: str
) -> None:
    with webhook(404) as (url, came):
        code, out, err = kernelsmith(
            *("run", "toy", *SHORT, "--summary-to", to),
            *("--summary-webhook", url, "--summary-command", "echo no room; exit 3"),
        )
    assert (code, len(came)) == (0, 1)
    assert "next:" in out
    problems = [line for line in err.splitlines() if "did not reach" in line]
    assert f"the file: cannot write {to}" in problems[0]
    assert not [*tmp_path.glob(".*night*"), *tmp_path.glob("..*")]
    assert "the webhook: 127.0.0.1 did not take it: it answered 404" in problems[1]
    assert "the command: it failed (3): no room" in problems[2]
    assert SECRET not in err


@pytest.mark.parametrize("codes", [(500, 503, 429), ()])
def test_a_webhook_is_tried_again_with_longer_waits(codes: tuple[int, ...]) -> None:
    waits: list[float] = []
    with webhook(*codes) as (url, came):
        delivery.to_webhook(url, "text", {"a": 1}, wait=waits.append)
    assert len(came) == len(codes) + 1
    assert waits == [1.0, 2.0, 4.0][: len(codes)]


def test_a_webhook_that_is_not_there_or_leads_elsewhere_is_given_up() -> None:
    waits: list[float] = []
    with pytest.raises(InfrastructureError, match=r"127\.0\.0\.1 did not take it: ConnectError"):
        delivery.to_webhook("http://127.0.0.1:9/x", "text", {}, wait=waits.append)
    assert len(waits) == delivery.WEBHOOK_TRIES - 1
    with webhook(302) as (url, came), pytest.raises(InfrastructureError, match="answered 302"):
        delivery.to_webhook(url, "text", {}, wait=waits.append)
    assert len(came) == 1


@pytest.mark.parametrize("then", ["sleep 600", "exit 0"])
def test_a_command_that_hangs_is_killed_with_what_it_started(tmp_path: Path, then: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(InfrastructureError, match=r"did not end within 1 s"):
        delivery.to_command(f"(echo; sleep 600) > {pipe} & {then}", "text", timeout_s=1.0)

    def at_its_end() -> bool:  # nobody has the pipe open any more
        try:
            return not os.read(held, 100)
        except BlockingIOError:
            return False

    until(at_its_end)
    os.close(held)


def test_the_file_of_settings_says_where_it_goes_and_the_environment_wins(
    kernelsmith, tmp_path: Path
) -> None:
    (tmp_path / "kernelsmith.toml").write_text('[operations]\nsummary_to = "s.txt"\n')
    assert kernelsmith("run", "toy", *SHORT)[0] == 0
    assert "finished" in (tmp_path / "s.txt").read_text()
    (tmp_path / "kernelsmith.toml").write_text("[operations]\nwebhook = 1\n")
    code, _, err = kernelsmith("run", "toy", *SHORT)
    assert (code, "unknown key operations.webhook" in one_error_line(err)) == (2, True)
    table = {"summary_webhook": "https://a/b"}
    found = operations(table, {"KERNELSMITH_SUMMARY_WEBHOOK": "https://c/d"})
    assert found.summary_webhook == "https://c/d"


@pytest.mark.parametrize(
    "url", ["hooks.example.com/secret", "http://[::1/secret", "http:///secret", "http://a:b/secret"]
)
def test_a_webhook_that_is_no_address_is_refused_before_the_run_and_not_told(url: str) -> None:
    with pytest.raises(InputError, match="no http or https") as caught:
        operations({}, {"KERNELSMITH_SUMMARY_WEBHOOK": url})
    assert "secret" not in str(caught.value)
