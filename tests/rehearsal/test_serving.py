"""The script "zero", the log, the server as a process of its own."""

import ast
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from kernelsmith import catalog, rehearsal
from kernelsmith.errors import InputError
from kernelsmith.proposers.search import normalised_hash
from kernelsmith.rehearsal import variants, zero
from kernelsmith.rehearsal.delivery import Delivery
from kernelsmith.wire import fragments
from tests.rehearsal.conftest import Server
from tests.rehearsal.playing import FIRST, HEADERS, PARENT, PREFIX, ask, body, play


def always_new(name: str, given: dict[str, object]) -> str:
    return f"Candidate {FIRST}: bits kept so far."


def test_zero_proposes_another_program_at_every_turn(server: Server) -> None:
    client = server("zero")
    seed = catalog.load_task("rms_norm", "cpu").seed_source
    seen = set()
    for session in (0, 1):
        played = play(client, "rms_norm", session, always_new)
        assert set(played.names) == {"check"}
        for _, given in played.calls[:4]:
            assert given["base"] == PARENT
            ((edit,),) = (given["edits"],)
            source = variants.edited(seed, ((edit["old"], edit["new"]),))
            ast.parse(source)
            seen.add(normalised_hash(source))
    assert len(seen) == 8


@pytest.mark.parametrize("task", list(zero.EDITS))
def test_an_edit_of_zero_fits_its_seed(task: str) -> None:
    edit = zero.edit(task, 3, 5)
    seed = catalog.load_task(task, "cpu").seed_source
    assert "3000006" in variants.edited(seed, ((edit["old"], edit["new"]),))


def test_zero_finds_the_turn_in_either_spelling_of_json(server: Server) -> None:
    client = server("zero")
    played = play(client, "linear", 0, always_new)
    compact = fragments.body(PREFIX, played.fragments[:5])
    spaced = json.dumps(json.loads(compact)).encode()
    one, other = ask(client, compact)[1], ask(client, spaced)[1]
    assert one is not None
    assert other is not None
    assert one.blocks == other.blocks


def test_zero_ends_a_session_of_a_task_it_does_not_know(server: Server) -> None:
    _, answer = ask(server("zero"), body("softmax"))
    assert answer is not None
    assert [block.tool_name for block in answer.blocks if block.tool_name] == ["finish"]


def logged(path: Path, count: int) -> list[dict[str, object]]:
    """The log, once it has so many lines."""
    for _ in range(500):
        lines = path.read_text().splitlines() if path.exists() else []
        if len(lines) >= count:
            return [json.loads(line) for line in lines]
        time.sleep(0.01)
    raise AssertionError(f"{len(lines)} lines")


def test_the_log_tells_of_each_request_how_it_went(server: Server, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    client = server("night", Delivery(log=log))
    played = play(client, "rms_norm", 0)
    lines = logged(log, len(played.statuses))
    assert [line["status"] for line in lines][:2] == [529, 200]
    whole = [line["turn"] for line in lines if line["written_whole"] and line["status"] == 200]
    assert whole == list(range(9))  # every turn is answered in full once
    assert sum(not line["written_whole"] for line in lines) == 2
    troubles = [line["trouble"] for line in lines if line["trouble"]]
    assert troubles == ["status", "status", "cut", "status", "status", "cut"]
    assert {line["task"] for line in lines} == {"rms_norm"}
    assert all(line["own_headers_seen"] == [] for line in lines)
    again = {str(line["request_sha256"]) for line in lines}
    assert len(again) == 9
    client.post(
        "/v1/messages", content=body("linear"), headers={**HEADERS, "x-kernelsmith-turn": "0"}
    )
    assert logged(log, len(lines) + 1)[-1]["own_headers_seen"] == ["x-kernelsmith-turn"]


def test_the_log_knows_that_a_client_left(server: Server, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    client = server("minute", Delivery(log=log, latency_s=0.2))
    host, port = client.base_url.host, client.base_url.port
    request = body("rms_norm")
    head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {len(request)}\r\n"
    head += "anthropic-version: 1\r\n\r\n"
    with socket.create_connection((host, port)) as left:
        left.sendall(head.encode() + request)
    assert logged(log, 1)[0]["written_whole"] is False


def test_an_unknown_script_is_named() -> None:
    with pytest.raises(InputError, match="no script 'noon'"), rehearsal.running("noon"):
        pass


def test_running_serves_while_the_block_runs() -> None:
    with rehearsal.running() as url:
        found = httpx2.get(f"{url}/v1/models", trust_env=False).json()
        assert found["data"][0]["display_name"] == rehearsal.LABEL
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{url}/v1/models", trust_env=False)


def test_it_runs_as_a_process_of_its_own(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    options = ["--script", "minute", "--latency-ms", "1", "--gzip", "--odd-chunks", "3"]
    process = subprocess.Popen(
        [sys.executable, "-m", "kernelsmith.rehearsal", *options, "--log", str(log)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert process.stdout is not None
    with process.stdout:
        line = process.stdout.readline()
        found = re.fullmatch(rf"{rehearsal.LABEL}: minute at (http://127\.0\.0\.1:\d+)\n", line)
        assert found is not None
        with httpx2.Client(base_url=found.group(1), trust_env=False) as client:
            status, answer = ask(client, body("rms_norm"))
    assert status == 200
    assert answer is not None
    assert answer.finished
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0
    assert len(logged(log, 1)) == 1
