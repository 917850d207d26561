"""What conversations with a model, and jobs, wait for while their run is paused."""

import asyncio
from typing import Any

from kernelsmith.active_clock import ActiveClock
from kernelsmith.pauses import Pauses
from kernelsmith.proposers.agent.guards import Purse


class Budget:
    def __init__(self) -> None:
        self.admitted = 0

    async def admit(self, prompt_bytes: int, max_tokens: int, call: Any = None) -> str:
        self.admitted += 1
        return "ticket"


class Desk:
    def admits(self, task: str) -> bool:
        return True


def test_no_call_of_a_paused_run_begins() -> None:
    """It would wait at the proxy until its client gives up, and be tried again."""
    pauses, budget = Pauses(), Budget()
    purse = Purse(budget=budget, desk=Desk(), task="toy", pauses=pauses)  # type: ignore[arg-type]

    async def ask() -> tuple[int, Any, int]:
        pauses.close("resident")
        asked = asyncio.create_task(purse.admit(10, 10))
        await asyncio.sleep(0.15)
        before = budget.admitted
        pauses.open()
        return before, await asked, budget.admitted

    assert asyncio.run(ask()) == (0, "ticket", 1)


def test_a_wait_between_two_tries_counts_active_seconds() -> None:
    hands = [100.0]
    pauses = Pauses(clock=ActiveClock(base=lambda: hands[0]))

    async def wait() -> list[bool]:
        waiting = asyncio.create_task(pauses.sleep(0.2))
        done = []
        await asyncio.sleep(0.02)
        pauses.clock.stop()
        hands[0] += 3600.0
        await asyncio.sleep(0.3)
        done.append(waiting.done())
        pauses.clock.go()
        hands[0] += 0.3
        await asyncio.wait_for(waiting, 20)
        return [*done, waiting.done()]

    assert asyncio.run(wait()) == [False, True]


def test_a_job_knows_at_its_end_that_the_machine_was_suspended_in_the_middle() -> None:
    """However soon after it: nobody has to have noticed before."""
    asleep = [50.0]
    pauses = Pauses(asleep_s=lambda: asleep[0])
    began = pauses.admit()
    asleep[0] += 0.01  # two clocks, read one after the other
    assert not pauses.overlapped(began)
    asleep[0] += 3600.0
    assert pauses.overlapped(began)
    assert not pauses.overlapped(pauses.admit())
