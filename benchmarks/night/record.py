"""What must hold of a database whose writers were killed: it opens, it is whole, nothing that was
acknowledged is missing, nothing stands twice."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernelsmith.errors import DatabaseError
from kernelsmith.lineage import database
from kernelsmith.lineage.verify import verify

SAID = re.compile(r"^ *[\d:]+  (\S+)  ([0-9a-f]{16})  (accepted|[A-Z_]+)\b")
"""A line of progress that tells of a verdict: it is printed after the verdict is on record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """``verdicts``: (verdict id, status) by candidate; ``last_step``: what came on record last."""

    problems: tuple[str, ...] = ()
    verdicts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    last_step: str = "nothing"
    runs: int = 0

    @property
    def statuses(self) -> dict[str, str]:
        return {name: status for name, (_, status) in self.verdicts.items()}


def acknowledged(said: Sequence[str]) -> dict[str, str]:
    """Status by candidate, of what a run said was on record. ``said``: lines with their ends; one
    that a kill cut short has none, and says nothing."""
    found = {}
    for line in said:
        if line.endswith("\n") and (match := SAID.match(line)):
            word = match.group(3)
            found[match.group(2)] = "ACCEPTED" if word == "accepted" else word
    return found


def examine(db: Path, before: Record, said: Mapping[str, str]) -> Record:
    """The record as it is now. ``before``: as it was at the last look; ``said``: what was
    acknowledged since."""
    try:
        opened = database.open_for_reading(db)
    except DatabaseError as error:
        # Killed before its first step: there is no file yet, or no table in it.
        early = error.message.startswith("no database at") or "holds no runs" in error.message
        early = early and not before.runs and not said
        return Record(problems=() if early else (f"does not open: {error.message}",))
    try:
        with opened.reading() as connection:
            problems = [f"lineage: {each.line()}" for each in verify(connection).findings]
            whole = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
            problems += [f"integrity: {each}" for each in whole if each != "ok"]
            rows = connection.exec_driver_sql(
                "SELECT candidates.id, verdicts.id, status FROM verdicts "
                "JOIN candidates USING (record) ORDER BY verdicts.step"
            ).all()
            newest = "SELECT kind FROM steps ORDER BY seq DESC LIMIT 1"
            last = connection.exec_driver_sql(newest).scalar() or "nothing"
            runs = connection.exec_driver_sql("SELECT count(*) FROM runs").scalar_one()
    finally:
        opened.close()
    verdicts = {name: (identity, status) for name, identity, status in rows}
    if len(verdicts) != len(rows):
        problems.append(f"doubled: {len(rows) - len(verdicts)} verdicts")
    for name, kept in before.verdicts.items():
        if verdicts.get(name) != kept:
            problems.append(f"lost: {name} was {kept}, is {verdicts.get(name)}")
    for name, status in said.items():
        if verdicts.get(name, ("", ""))[1] != status:
            problems.append(f"lost: {name} was said to be {status}, is {verdicts.get(name)}")
    return Record(problems=tuple(problems), verdicts=verdicts, last_step=last, runs=int(runs))
