"""The agent's sessions as they really are: prompts, conversation, desk and budget together."""

import asyncio
import json
import re
from typing import Any

from kernelsmith.catalog import load_task
from kernelsmith.model import seed_candidate
from kernelsmith.proposers.agent.desk import Desk
from kernelsmith.proposers.agent.fittings import Origin, real
from kernelsmith.proposers.agent.population import Choice
from kernelsmith.proposers.search import normalised_hash
from kernelsmith.wire import fragments, parse_answer
from tests.agent.night import RUN, Gate, Night, NoCaller, settings

WIN = Gate(statuses={"a": "BITS_DIFFER", "b": "ACCEPTED"})
MESSAGE = (
    b'{"type":"message","id":"m","model":"model","role":"assistant","stop_reason":"tool_use",'
    b'"content":[{"type":"tool_use","id":"tool%d","name":"submit","input":{"source":"%s"}}],'
    b'"usage":{"input_tokens":10,"output_tokens":5}}'
)


class Played(NoCaller):
    """A model that submits a, then b, then only talks; it asks the budget as the real one."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def call(
        self, session_id: str, turn: int, attempt: int, body: bytes, budget: Any, max_tokens: int
    ) -> Any:
        ticket = await budget.admit(len(body), max_tokens, (session_id, turn, attempt))
        if ticket is None:
            return None
        self.bodies.append(body)
        said = MESSAGE % (turn, b"ab"[turn : turn + 1]) if turn < 2 else WORDS
        answer = parse_answer(200, "application/json", said)
        budget.budget.count(answer.usage)
        budget.settle(ticket, answer.usage)
        return answer


WORDS = MESSAGE.replace(b"tool_use", b"end_turn", 1).split(b'"content":')[0] + (
    b'"content":[{"type":"text","text":"done"}],"usage":{"input_tokens":1,"output_tokens":1}}'
)


def test_the_real_conversation_runs_on_desk_budget_and_population() -> None:
    from kernelsmith.proposers.agent.talk import converse

    caller = Played()
    night = Night(
        None,
        WIN,
        converse=converse,
        caller=lambda: caller,
        settings=settings(max_tokens=100),
    )
    assert night.run() == ["toy"]
    assert night.statuses() == [("a", "BITS_DIFFER"), ("b", "ACCEPTED")]
    assert night.journal.answers == ["BITS_DIFFER", "ACCEPTED"]
    assert night.journal.ends == ["end_turn"]
    assert len(caller.bodies) == 4
    for before, after in zip(caller.bodies, caller.bodies[1:], strict=False):
        assert after.startswith(before[:-2])
    assert caller.closed


def test_a_real_session_begins_with_its_prompts_frozen() -> None:
    task = load_task("rms_norm", "cpu")
    seed = seed_candidate(task)
    desk = Desk([task], {task.name: seed}, normalised_hash)
    origin = Origin(
        settings=settings(effort="high", thinking="adaptive"),
        run_id=RUN,
        base_url="http://127.0.0.1:9",
        api_key="secret",
        device_facts={"level": "avx2"},
        normal_hash=normalised_hash,
    )
    made = real(origin, desk)
    start = made.begin(Choice(task=task.name, ordinal=3, parent=seed), desk.view(task.name))
    assert re.fullmatch("s[0-9a-f]{11}", start.id)
    body = json.loads(fragments.body(start.prefix, (start.opening,)))
    assert (body["model"], body["max_tokens"], body["stream"]) == ("model", 100, True)
    assert body["output_config"] == {"effort": "high"}
    assert [tool["name"] for tool in body["tools"]][:3] == ["get_task", "read_source", "check"]
    (message,) = body["messages"]
    first = message["content"][0]["text"].splitlines()[0]
    assert first == f"Task: rms_norm. Session: 3. Parent: {seed.id}."
    assert len(start.prompt) == 64
    assert b"secret" not in start.prefix + start.opening
    assert asyncio.run(made.toolbox(task, start.id, seed).run("t", "lineage", {})).is_error is False
