"""A run followed by its record alone, whoever drives it, on this machine or another."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelsmith.cli.standing import is_over
from kernelsmith.errors import InfrastructureError
from kernelsmith.interrupts import EXIT_INTERRUPTED, EXIT_PAUSED

if TYPE_CHECKING:
    from kernelsmith.lineage.database import Database
    from kernelsmith.lineage.occurrences import Occurrence
    from kernelsmith.lineage.standings import RunStanding

LOOK_EVERY_S = 0.5  # whether anything was written: one number, read from shared memory
ALIVE_EVERY = 10  # looks between two at the process
NOTHING = 2**62  # a step after which nothing ever follows


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What came on record since the last look, and how the run stands with it."""

    news: tuple["Occurrence", ...]
    run: "RunStanding"


def follow(
    database: "Database", run_id: str, after: int, look_every_s: float = LOOK_EVERY_S
) -> Iterator[Sight]:
    """One look at once, then one after each change; the last one shows the run's end, or that
    its process is gone without a word."""
    from kernelsmith.lineage import occurrences, standings

    over = False
    while True:
        changes = database.changes()
        with database.reading() as connection:
            news = tuple(occurrences.since(connection, run_id, after))
            run = standings.run_standing(connection, run_id)
        after = news[-1].seq if news else after
        yield Sight(news=news, run=run)
        if over:
            return
        # Once over, one more look: its last word may have come between the record and the process.
        over = is_over(run)
        if not over:
            _wait(database, changes, run, look_every_s)


def _wait(database: "Database", changes: int, run: "RunStanding", look_every_s: float) -> None:
    """Until somebody wrote, or the run's process is gone."""
    looks = 0
    while database.changes() == changes:
        time.sleep(look_every_s)
        looks += 1
        if looks % ALIVE_EVERY == 0 and is_over(run):
            return


def exit_code(run: "RunStanding") -> int:
    """What the command that drove an ended run exited with; a killed one failed."""
    codes = {"finished": 0, "interrupted": EXIT_INTERRUPTED, "paused": EXIT_PAUSED}
    if run.last in codes:
        return codes[run.last]
    return int(run.last_payload.get("exit_code", InfrastructureError.exit_code))
