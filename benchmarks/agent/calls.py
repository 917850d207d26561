"""What a call costs on its way: straight to the server, through the proxy, through the agent.

The bodies are those of a conversation that was recorded before, so they are as long as real ones
and each begins with the one before it. "straight": an httpx2 client that reads the whole answer.
"proxied": the same client through the capture proxy with its journal on disk. "agent": the agent's
own client through them. Client, proxy and journal share a process, as in a run; the server has its
own.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx2

from kernelsmith import capture
from kernelsmith.lineage import conversations, database
from kernelsmith.lineage.journal import open_journal
from kernelsmith.model import Usage
from kernelsmith.proposers.agent.client import Caller

STREAMS = (1, 64)
KINDS = ("straight", "proxied", "agent")
RUN = "overhead"
HEADERS = {"content-type": "application/json", "anthropic-version": "2026-10-21"}

Call = Callable[[str, int, bytes], Awaitable[None]]


class Unlimited:
    """A budget that never ends."""

    async def admit(self, prompt_bytes: int, max_tokens: int) -> object:
        return self

    def settle(self, ticket: object, usage: Usage | None) -> None:
        return None


def recorded_bodies(db: Path) -> list[bytes]:
    """The requests of the longest conversation in a database, one a turn."""
    opened = database.open_for_reading(db)
    try:
        with opened.reading() as connection:
            run_id = connection.exec_driver_sql("SELECT id FROM runs").scalar_one()
            found = max(conversations.sessions(connection, run_id), key=lambda s: len(s.calls))
    finally:
        opened.close()
    return list({call.sent.turn: call.sent.request for call in found.calls}.values())


def measure(server: str, bodies: Sequence[bytes], count: int, folder: Path) -> dict[str, Any]:
    """``count``: calls of each kind at each number of streams."""
    db = folder / "calls.db"
    journal = open_journal(db)
    try:
        with capture.running(journal, server) as proxy:
            found = asyncio.run(_measured(server, proxy, bodies, count))
    finally:
        journal.close()
    recorded = _recorded(db)
    made = sum(found[str(n)][kind]["calls"] for n in STREAMS for kind in KINDS if kind != KINDS[0])
    assert recorded >= made, (recorded, made)
    return {
        "bodies": {
            "calls_of_a_conversation": len(bodies),
            "bytes_min": min(map(len, bodies)),
            "bytes_max": max(map(len, bodies)),
        },
        "recorded": recorded,
        "streams": found,
    }


async def _measured(
    server: str, proxy: str, bodies: Sequence[bytes], count: int
) -> dict[str, dict[str, Any]]:
    caller = Caller(f"{proxy}/k/{RUN}", "test")
    limits = httpx2.Limits(max_connections=None, keepalive_expiry=2.0)
    async with httpx2.AsyncClient(limits=limits, timeout=60.0, trust_env=False) as client:

        async def straight(session: str, turn: int, body: bytes) -> None:
            await _read(client, f"{server}/v1/messages", body)

        async def proxied(session: str, turn: int, body: bytes) -> None:
            await _read(client, f"{proxy}/k/{RUN}/{session}/v1/messages", body)

        async def agent(session: str, turn: int, body: bytes) -> None:
            answer = await caller.call(session, turn, 0, body, Unlimited(), 16_000)
            assert answer is not None
            assert answer.received

        calls = dict(zip(KINDS, (straight, proxied, agent), strict=True))
        try:
            return {str(n): await _at(calls, n, bodies, count) for n in STREAMS}
        finally:
            await caller.close()


async def _read(client: httpx2.AsyncClient, url: str, body: bytes) -> None:
    async with client.stream("POST", url, content=body, headers=HEADERS) as response:
        assert response.status_code == 200, response.status_code
        async for _ in response.aiter_raw():
            pass


async def _at(
    calls: dict[str, Call], streams: int, bodies: Sequence[bytes], count: int
) -> dict[str, Any]:
    """Rounds of conversations, the kinds in turn and back (A B C C B A)."""
    rounds = max(2, 2 * round(count / len(bodies) / streams / 2))
    seconds: dict[str, list[float]] = {kind: [] for kind in calls}
    spent = dict.fromkeys(calls, 0.0)
    for number in range(-1, rounds):  # round -1 warms up and is left out
        for kind in KINDS if number % 2 == 0 else KINDS[::-1]:
            began_s = time.perf_counter()
            found = await asyncio.gather(
                *(
                    _converse(calls[kind], f"s{kind[0]}{streams}x{number + 1}x{stream}", bodies)
                    for stream in range(streams)
                )
            )
            if number >= 0:
                spent[kind] += time.perf_counter() - began_s
                seconds[kind] += [each for one in found for each in one]
    result = {kind: _described(seconds[kind], spent[kind]) for kind in calls}
    for kind in KINDS[1:]:
        result[f"{kind}_over_straight_ms"] = {
            name: result[kind][f"ms_{name}"] - result["straight"][f"ms_{name}"]
            for name in ("median", "p95")
        }
    return result


async def _converse(call: Call, session: str, bodies: Sequence[bytes]) -> list[float]:
    found = []
    for turn, body in enumerate(bodies):
        began_s = time.perf_counter()
        await call(session, turn, body)
        found.append(time.perf_counter() - began_s)
    return found


def _described(seconds: Sequence[float], spent_s: float) -> dict[str, float]:
    return {
        "calls": len(seconds),
        "ms_median": 1e3 * statistics.median(seconds),
        "ms_p95": 1e3 * statistics.quantiles(seconds, n=20)[-1],
        "calls_per_s": len(seconds) / spent_s,
    }


def _recorded(db: Path) -> int:
    """Whole answers on record."""
    opened = database.open_for_reading(db)
    try:
        with opened.reading() as connection:
            query = "SELECT count(*) FROM model_answers WHERE complete AND status = 200"
            return int(connection.exec_driver_sql(query).scalar_one())
    finally:
        opened.close()
