"""What conversations are made with: the real parts, and how a session begins."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelsmith.model import AgentSettings, Candidate, SessionEnd, SessionStart, Task
from kernelsmith.pauses import Pauses
from kernelsmith.proposers.agent.desk import Desk, View
from kernelsmith.proposers.agent.population import Choice
from kernelsmith.proposers.agent.seams import Toolbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Fittings:
    """What conversations are made with. ``begin`` writes a session's start; ``converse`` holds it
    until it ends, which it records, or gives None where it pauses; its ``should_end`` is asked
    between turns and says why to end, "" to go on."""

    begin: Callable[[Choice, View], SessionStart]
    toolbox: Callable[[Task, str, Candidate], Toolbox]
    caller: Callable[[], Any]
    converse: Callable[..., Awaitable[SessionEnd | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What all sessions of a run have in common. ``base_url``: session ids are added to it;
    ``proxy_token``: the proxy there wants it."""

    settings: AgentSettings
    run_id: str
    base_url: str
    api_key: str = field(repr=False)
    proxy_token: str = field(repr=False, default="")
    device_facts: Mapping[str, Any]
    normal_hash: Callable[[str], str]
    pauses: Pauses = field(default_factory=Pauses)


def real(origin: Origin, desk: Desk) -> Fittings:
    """Conversations with the model over HTTP, with the gate's tools."""

    def toolbox(task: Task, session_id: str, parent: Candidate) -> Toolbox:
        from kernelsmith.proposers.agent.tools import Toolbox as GateTools

        return GateTools(task, session_id, parent, desk, origin.normal_hash)

    def caller() -> Any:
        from kernelsmith.proposers.agent.client import Caller

        return Caller(
            origin.base_url,
            origin.api_key,
            proxy_token=origin.proxy_token,
            sleep=origin.pauses.sleep,
        )

    async def converse(*args: Any, **named: Any) -> SessionEnd | None:
        from kernelsmith.proposers.agent import talk

        return await talk.converse(*args, **named)

    return Fittings(
        begin=lambda choice, view: begin(origin, choice, view),
        toolbox=toolbox,
        caller=caller,
        converse=converse,
    )


def begin(origin: Origin, choice: Choice, view: View) -> SessionStart:
    """A session's start: its prompts, built once and recorded for good."""
    from kernelsmith.proposers.agent import prompts
    from kernelsmith.proposers.agent.tools import TOOLS_JSON
    from kernelsmith.wire import fragments

    settings = origin.settings
    system, prompt_hash = prompts.system(view.task, dict(origin.device_facts), settings)
    opening = prompts.opening(view.task, choice.parent, view, choice.ordinal)
    prefix = fragments.prefix(
        settings.model,
        settings.max_tokens,
        system,
        TOOLS_JSON,
        settings.thinking,
        settings.effort,
    )
    return SessionStart(
        id="s" + secrets.token_hex(6)[1:],
        run_id=origin.run_id,
        task=choice.task,
        ordinal=choice.ordinal,
        parent=choice.parent.id,
        model=settings.model,
        prompt=prompt_hash,
        prefix=prefix,
        opening=fragments.user_text(opening),
        facts={"rehearsal": settings.rehearsal},
    )
