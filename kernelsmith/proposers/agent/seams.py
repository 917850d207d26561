"""What a conversation needs of the other parts of the agent."""

from collections.abc import Mapping
from typing import Any, Protocol

from kernelsmith.model import ToolDone, Usage


class ToolReply(Protocol):
    """A tool's result. ``finished``: why the session ends with it; "" if it does not."""

    @property
    def text(self) -> str: ...
    @property
    def is_error(self) -> bool: ...
    @property
    def facts(self) -> Mapping[str, Any]: ...
    @property
    def finished(self) -> str: ...


class Toolbox(Protocol):
    """A session's tools. A tool's own refusal is a reply with ``is_error``; what it raises ends
    the run."""

    async def run(
        self, tool_use_id: str, name: str, tool_input: Mapping[str, Any]
    ) -> ToolReply: ...
    def replay(self, name: str, tool_input: Mapping[str, Any], done: ToolDone) -> None:
        """Takes in a recorded result; runs nothing."""


class Budget(Protocol):
    """Leave to make calls. Every ticket is settled, also that of a call that failed."""

    async def admit(
        self, prompt_bytes: int, max_tokens: int, call: tuple[str, int, int]
    ) -> Any | None:
        """A ticket for one call (session, turn, attempt); None: the budget is spent."""

    def settle(self, ticket: Any, usage: Usage | None) -> None: ...
    def require_no_limits(self) -> None:
        """Raises InputError if something is limited."""
