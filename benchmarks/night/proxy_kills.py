"""``kernelsmith proxy`` killed while clients speak through it.

Two clients play a recorded conversation against a scripted server, each with a session of its own,
and read every answer to its end; a call that was cut is made again once the proxy is back. After
each kill the lineage verifies, and what a client has whole is on record, byte for byte; at the end
the server saw no request that is not.
"""

import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import record
from agent import evidence, legs
from agent import night as agent_night
from record import Record

from kernelsmith.lineage import conversations, database

HEADERS = {"content-type": "application/json", "anthropic-version": "2026-10-21"}
DELIVERY = ("--odd-chunks", "7", "--latency-ms", "20")
KILLS = 12
RUN = "proxied"


@dataclass(slots=True)
class Clients:
    """``whole``: hashes of (request, answer) of every answer that was read to its end."""

    base: str = ""
    ended: threading.Event = field(default_factory=threading.Event)
    up: threading.Event = field(default_factory=threading.Event)
    whole: list[tuple[str, str]] = field(default_factory=list)

    def talk(self, session: str) -> None:
        """Calls until it is told to end."""
        turn = 0
        with httpx2.Client(timeout=20.0, trust_env=False) as client:
            while not self.ended.is_set():
                self.up.wait(0.2)
                body = _body(session, turn)
                answer = bytearray()
                try:
                    url = f"{self.base}/k/{RUN}/{session}/v1/messages"
                    with client.stream("POST", url, content=body, headers=HEADERS) as response:
                        for piece in response.iter_raw():
                            answer += piece
                except httpx2.HTTPError:
                    continue  # cut: made again
                if response.status_code == 200:
                    self.whole.append((sha256(body).hexdigest(), sha256(answer).hexdigest()))
                    turn += 1


def play(folder: Path, draw: random.Random) -> tuple[list[dict[str, Any]], list[str]]:
    """Kills the proxy ``KILLS`` times. Returns the kills and the problems at the end."""
    folder.mkdir(parents=True)
    log = folder / "server.log"
    server = [sys.executable, "-m", "kernelsmith.rehearsal", "--script", "zero", *DELIVERY]
    kills: list[dict[str, Any]] = []
    clients, before = Clients(), Record()
    with legs.served(
        [*server, "--log", str(log)], folder / "server.err", agent_night.OWN
    ) as upstream:
        talking = [threading.Thread(target=clients.talk, args=(f"s{n}",)) for n in range(2)]
        proxy = _start(folder, upstream, clients)
        for each in talking:
            each.start()
        try:
            for _ in range(KILLS):
                time.sleep(draw.uniform(0.0, 1.2))
                clients.up.clear()
                told = len(clients.whole)
                proxy.send_signal(signal.SIGKILL)
                proxy.wait()
                left_s = agent_night.until_alone(time.monotonic())
                before = record.examine(folder / "runs.db", before, {})
                problems = [*before.problems, *_lost(folder, clients.whole[:told])]
                facts = {"last_on_record": before.last_step, "outlived_s": round(left_s, 3)}
                noted = {"target": "proxy", "under_way": "calls of two clients", **facts}
                kills.append({**noted, "problems": problems} if problems else noted)
                proxy = _start(folder, upstream, clients)
        finally:
            clients.ended.set()
            for each in talking:
                each.join()
            proxy.send_signal(signal.SIGTERM)
            proxy.wait()
    return kills, [*_lost(folder, clients.whole), *_unrecorded(folder, log)]


def _start(folder: Path, upstream: str, clients: Clients) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kernelsmith", "proxy", "--upstream", upstream]
    process = subprocess.Popen(
        [*command, "--db", str(folder / "runs.db")],
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
        cwd=folder,
    )
    agent_night.OWN.add(process.pid)
    assert process.stdout is not None
    found = re.search(r"http://[\d.]+:\d+", process.stdout.readline())
    if found is None:
        raise SystemExit("the proxy did not come up")
    clients.base = found.group()
    clients.up.set()
    return process


def _body(session: str, turn: int) -> bytes:
    """A request as a client makes it: each begins with the one before it."""
    opening = f"Task: rms_norm. Session: {session[1:]}. Parent: {'0' * 16}."
    messages = [{"role": "user", "content": opening}]
    for number in range(turn):
        messages += [
            {"role": "assistant", "content": f"edit {number}"},
            {"role": "user", "content": "and the next"},
        ]
    asked = {"model": "scripted-replies", "max_tokens": 64, "stream": True, "messages": messages}
    return json.dumps(asked, separators=(",", ":")).encode()


def _calls(folder: Path) -> list[Any]:
    opened = database.open_for_reading(folder / "runs.db")
    try:
        with opened.reading() as connection:
            return [
                call
                for session in conversations.sessions(connection, RUN)
                for call in session.calls
            ]
    finally:
        opened.close()


def _lost(folder: Path, whole: list[tuple[str, str]]) -> list[str]:
    """Answers that a client has whole and the record has not."""
    kept = Counter(
        (sha256(call.sent.request).hexdigest(), sha256(call.answer.body).hexdigest())
        for call in _calls(folder)
        if call.answer is not None and call.answer.complete
    )
    return [f"lost: the answer to request {name[:12]}" for name, _ in Counter(whole) - kept]


def _unrecorded(folder: Path, log: Path) -> list[str]:
    """Requests that the server saw and the record has not."""
    kept = Counter(sha256(call.sent.request).hexdigest() for call in _calls(folder))
    seen = Counter(line["request_sha256"] for line in evidence.lines(log))
    return [f"lost: request {name[:12]}, which the server saw" for name in seen - kept]
