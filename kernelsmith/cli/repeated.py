"""How a repeated verdict is shown beside the recorded one."""

from typing import TYPE_CHECKING, Any

from kernelsmith.cli import printing
from kernelsmith.model import Gain, Verdict

if TYPE_CHECKING:
    from rich.console import Console

    from kernelsmith.replay import Change, Replay


def replay_fields(done: "Replay") -> dict[str, Any]:
    """The JSON document: the recorded verdict, the new one, and where they part."""
    from kernelsmith.cli.verdicts import verdict_fields

    recorded = done.recorded
    return {
        "outcome": done.outcome,
        "candidate": recorded.candidate.id,
        "task": recorded.task.name,
        "run": recorded.run_id,
        "record": recorded.record,
        "judged_at": recorded.judged_at,
        "against": recorded.incumbent.id,
        "epoch": {"recorded": recorded.epoch, "here": done.epoch},
        "changes": done.changes,
        "differences": done.differences,
        "recorded": verdict_fields(recorded.verdict),
        "here": verdict_fields(done.verdict),
    }


def show_changes(console: "Console", changes: "tuple[Change, ...]") -> None:
    """What is not as it was when the verdict was reached."""
    for change in changes:
        words = "another epoch" if change.epoch else "another version"
        line = f"{words}: {change.name} is {change.here}, was {change.recorded}"
        printing.say(console, line, "yellow" if change.epoch else "dim")


def show_replay(console: "Console", done: "Replay") -> None:
    """Both verdicts, and where they part."""
    recorded = done.recorded
    printing.say(console, f"{'':<10} {'recorded':<28} here")
    rows = [("verdict", _status(recorded.verdict), _status(done.verdict))]
    rows.append(("speed", _speed(recorded.verdict), _speed(done.verdict)))
    for label, then, now in rows:
        printing.say(console, f"{label:<10} {then:<28} {now}")
    for each in done.differences:
        where = f"{each.check}, " if each.check else ""
        printing.say(console, f"{where}{each.what}:", "red")
        printing.say_all(console, "  recorded ", each.recorded)
        printing.say_all(console, "  here     ", each.here)
    printing.say(console, _conclusion(done))


def _conclusion(done: "Replay") -> str:
    if done.outcome == "undecidable":
        return "the bits are kept as then; the speed of another epoch says nothing of that one"
    if done.outcome == "different":
        return "the verdict is not repeated"
    return "the verdict is repeated"


def _status(verdict: Verdict) -> str:
    words = printing.status_words(verdict.status, str(verdict.device.get("device", "?")))
    failing = next((check.name for check in verdict.checks if check.status == "fail"), "")
    return f"{words} at {failing}" if failing else words


def _speed(verdict: Verdict) -> str:
    """The gain that confirm measured, else that of the one session that screens."""
    gain: Gain | None = verdict.gain
    if gain is not None:
        return f"{printing.times(gain.geomean)}, {printing.counted(gain.sessions, 'session')}"
    for check in verdict.checks:
        if check.name == "latency" and "gain_warm" in check.evidence:
            return f"{printing.times(float(check.evidence['gain_warm']))}, 1 session"
    return "–"
