"""How a verdict is shown: JSON fields of the contract, and lines for people."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsmith.cli import printing
from kernelsmith.cli.transcript import REHEARSAL
from kernelsmith.model import Candidate, CheckResult, Gain, Verdict

if TYPE_CHECKING:
    from rich.console import Console

    from kernelsmith.lineage.reviews import Standing
    from kernelsmith.lineage.verdicts import CandidateRecord

MARKS = {"pass": ("✓", "green"), "fail": ("✗", "red"), "unchecked": ("–", "yellow")}
EVIDENCE_CHARACTERS = {"pass": 200, "fail": 2000, "unchecked": 200}


def verdict_fields(verdict: Verdict) -> dict[str, Any]:
    """The JSON contract of ``gate`` and of ``show CANDIDATE``."""
    return {
        "verdict": "accepted" if verdict.accepted else "rejected",
        "status": verdict.status,
        "task": verdict.task,
        "candidate": verdict.candidate,
        "epoch": verdict.epoch,
        "device": verdict.device,
        "checks": [
            {
                "name": check.name,
                "status": check.status,
                "seconds": check.seconds,
                "message": check.message,
                "evidence": check.evidence,
            }
            for check in verdict.checks
        ],
        "gain": printing.gain_fields(verdict.gain),
        "unchecked": list(verdict.unchecked),
    }


def record_fields(found: "CandidateRecord") -> dict[str, Any]:
    """``show CANDIDATE``: the verdict's fields and what else is on record."""
    candidate = found.candidate
    judged: dict[str, Any]
    if found.verdict is not None:
        judged = verdict_fields(found.verdict)
    else:
        judged = {
            "verdict": None,
            "status": _unjudged(found),
            "task": candidate.task,
            "candidate": candidate.id,
        }
    return {
        **judged,
        "run": found.run_id,
        "record": found.record,
        "parents": [{"candidate": name, "record": record} for name, record in found.parents],
        "author": candidate.author,
        "rehearsal": found.rehearsal,
        "changes": list(candidate.changes),
        "note": candidate.note,
        "origin": candidate.origin or None,
        "proposed_at": found.proposed_at,
        "judged_at": found.judged_at,
        "seconds": found.seconds,
        "raw_sessions": found.raw_sessions,
        "against_seed": None
        if found.final is None
        else {"holds": found.final[0], **(printing.gain_fields(found.final[1]) or {})},
        "unsupported": found.unsupported,
        "decision": decision_fields(found.decision),
        "source": candidate.source,
    }


def decision_fields(decision: "Standing | None") -> dict[str, Any] | None:
    """A review's decision as JSON."""
    if decision is None:
        return None
    names = ("decision", "reviewer", "note", "at")
    return {name: getattr(decision, name) for name in names}


def decision_words(decision: "Standing") -> str:
    """``approved by Ada, 2026-11-29: reads well``."""
    done = {"approve": "approved", "reject": "rejected"}[decision.decision]
    words = f"{done} by {decision.reviewer}, {decision.at[:16].replace('T', ' ')} UTC"
    return f"{words}: {decision.note}" if decision.note else words


def say_origin(console: "Console", candidate: Candidate, where: str, note: str = "note") -> None:
    """What is told of a candidate's making: session, changes, its author's note. ``where``: what
    a next command needs to find the database."""
    if candidate.origin:
        session_id = candidate.origin.partition("/")[0]
        printing.say(console, f"session    {session_id} (kernelsmith show {session_id}{where})")
    if candidate.changes:
        printing.say(console, f"changes    {', '.join(candidate.changes)}")
    if candidate.note:
        printing.say_all(console, f"{note:<11}", candidate.note)


def show_record(found: "CandidateRecord", db: Path | None) -> None:
    """A candidate's record for people. ``db``: the file, if the user named it as an option."""
    console = printing.out()
    candidate = found.candidate
    where = printing.named_database(db)
    printing.say(console, f"candidate  {candidate.id}")
    printing.say(console, f"task       {candidate.task}")
    printing.say(console, f"run        {found.run_id}")
    label = f"  ({REHEARSAL})" if found.rehearsal else ""
    printing.say(console, f"author     {candidate.author}, {found.proposed_at}{label}")
    for name, _ in found.parents:
        printing.say(console, f"parent     {name}")
    say_origin(console, candidate, where)
    if found.verdict is None:
        printing.say(console, f"verdict    {_unjudged(found)}")
        return
    show_verdict(found.verdict)
    if found.final is not None:
        holds, gain = found.final
        words = "" if holds else ", which does not hold: an ancestor stands"
        printing.say(console)
        printing.say(console, f"against the seed: {printing.gain_line(gain)}{words}")
        show_cases(console, gain)
    if found.unsupported is not None and found.final is not None and found.final[0]:
        printing.say(console)
        printing.say(console, f"unsupported: {found.unsupported}", "yellow")
    if found.decision is not None:
        printing.say(console)
        printing.say_all(console, "review     ", decision_words(found.decision), "bold")
    printing.say(console)
    printing.say(console, f"  kernelsmith diff {candidate.id}{where}")


def show_verdict(verdict: Verdict) -> None:
    """A verdict for people: each check with its evidence, the gains by case."""
    console = printing.out()
    words = printing.status_words(verdict.status, str(verdict.device.get("device", "?")))
    seconds = sum(check.seconds for check in verdict.checks)
    style = "bold green" if verdict.accepted else "bold red"
    printing.say(console, f"verdict    {words}, {seconds:.1f} s, epoch {verdict.epoch}", style)
    for check in verdict.checks:
        _show_check(console, check)
    if verdict.unchecked:
        printing.say(console, f"unchecked  {', '.join(verdict.unchecked)}", "yellow")
    if verdict.gain is not None:
        printing.say(console)
        printing.say(console, f"against {verdict.gain.against}: {printing.gain_line(verdict.gain)}")
        show_cases(console, verdict.gain)


def _show_check(console: "Console", check: CheckResult) -> None:
    mark, colour = MARKS[check.status]
    printing.say(console, f"  {mark} {check.name:<15} {check.seconds:7.2f} s", colour)
    if check.message:
        printing.say_all(console, "      ", check.message)
    for key, value in check.evidence.items():
        text = json.dumps(value, ensure_ascii=False, default=str)
        limit = EVIDENCE_CHARACTERS[check.status]
        if len(text) > limit:
            text = f"{text[:limit]} … (all of it with --json)"
        printing.say(console, f"      {key}: {text}", "dim")


def show_cases(console: "Console", gain: Gain) -> None:
    """A line for each timed case."""
    for case in gain.cases:
        printing.say(console, f"  {printing.times(case.gain):>8}  {case.path:<6} {case.case}")


def _unjudged(found: "CandidateRecord") -> str:
    if found.candidate.author == "seed":
        return "SEED"
    return "UNJUDGED" if found.set_aside else "WAITING"
