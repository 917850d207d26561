"""A finished run says by which options it is given more of what ended it."""

from decimal import Decimal

import pytest

from kernelsmith.continuity import require_resumable
from kernelsmith.errors import InputError
from kernelsmith.lineage.spending import AgentStanding
from kernelsmith.lineage.standings import RunStanding
from kernelsmith.model import Usage


def finished(reason: str, *, usd: str | None = None, tokens: int | None = None) -> RunStanding:
    """A run with an agent that spent a dollar and ten tokens."""
    agent = AgentStanding(
        model="model",
        rehearsal=False,
        budget_usd=None if usd is None else Decimal(usd),
        budget_tokens=tokens,
        calls=1,
        usage=Usage(output=10),
        cost_usd=Decimal(1),
        sessions=(),
    )
    return RunStanding(
        id="run1",
        started_at="",
        device="cpu",
        proposer="agent",
        last="finished",
        last_payload={"reason": reason},
        began={},
        elapsed_s=1.0,
        stop_requested=False,
        tasks=(),
        agent=agent,
    )


@pytest.mark.parametrize(
    ("standing", "options"),
    [
        (finished("time", usd="5"), "--time-limit 1h"),
        (finished("time", usd="1"), "--budget-usd 5 --time-limit 1h"),
        (finished("exhausted", usd="1"), "--budget-usd 5"),
        (finished("exhausted", tokens=10), "--budget-tokens 1000000"),
        (finished("candidates", usd="1"), "--budget-usd 5 --max-candidates 100"),
        (finished("exhausted"), "--time-limit 1h"),
        (finished("stop"), "--time-limit 1h"),
    ],
)
def test_the_hint_names_what_was_spent(standing: RunStanding, options: str) -> None:
    with pytest.raises(InputError, match="run run1 is finished") as caught:
        require_resumable(standing, more=False)
    assert caught.value.hint == f"give it more: `kernelsmith resume run1 {options}`"
