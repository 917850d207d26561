"""A conversation with a model for people: each turn's calls, words, tool calls and results."""

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsmith.cli import printing
from kernelsmith.model import candidate_id

if TYPE_CHECKING:
    from rich.console import Console

REHEARSAL = "scripted replies, not a model"
SOURCE_LINES = 12
TEXT_LINES = 24
_INDENT = " " * 11


def dollars(cost: Decimal | None) -> str:
    """``$0.0123``; "not priced" where a model has no price."""
    return "not priced" if cost is None else f"${cost:,.4f}"


def tokens_words(usage: Mapping[str, int]) -> str:
    """``12,345 tokens in (10,000 from the cache), 512 out``."""
    read = f" ({usage['cache_read']:,} from the cache)" if usage["cache_read"] else ""
    return f"{usage['tokens'] - usage['output']:,} tokens in{read}, {usage['output']:,} out"


def end_words(session: Mapping[str, Any]) -> str:
    """How a session ended, or that it has not."""
    ended = session["end"]
    if ended is None:
        return "open" if session["ordinal"] is not None else "a foreign client's"
    return str(ended["reason"]) + (f": {ended['message']}" if ended["message"] else "")


def show_session(session: Mapping[str, Any], db: Path | None) -> None:
    """Prints a conversation. ``session``: the fields of ``conversations.session_fields``."""
    console = printing.out()
    _head(console, session)
    diffs = {each["candidate"]: printing.named_database(db) for each in session["submitted"]}
    if not session["exchanges"] and session["opening"]:
        _user(console, session["opening"])
    own = session["ordinal"] is not None
    for turn in session["exchanges"]:
        printing.say(console)
        printing.say(console, f"turn {turn['turn']}", "bold")
        asked = [b for b in turn["user"] if not own or b.get("type") != "tool_result"]
        _user(console, asked)
        for call in turn["calls"]:
            _call(console, call, diffs)
        for result in turn["results"]:
            _result(console, result)


def _head(console: "Console", session: Mapping[str, Any]) -> None:
    rows = [("session", session["id"]), ("run", session["run"]), ("task", session["task"])]
    rows += [("parent", session["parent"]), ("model", session["model"])]
    rows += [("began", f"{session['started_at'][:19].replace('T', ' ')} UTC")]
    silent = session["calls"] - session["answers"]
    calls = f"{session['calls']} in {printing.counted(session['turns'], 'turn')}"
    rows.append(("calls", calls + (f", {silent} without an answer" if silent else "")))
    rows.append(("tokens", tokens_words(session["usage"])))
    rows.append(("spend", dollars(session["cost_usd"])))
    for each in session["submitted"]:
        rows.append(("submitted", f"{each['candidate']}  {each['status'] or 'waiting'}"))
    rows.append(("end", end_words(session)))
    for label, value in rows:
        if value:
            printing.say_all(console, f"{label:<11}", value)
    if session["rehearsal"]:
        printing.say(console, f"{'':<11}{REHEARSAL}", "bold yellow")


def _user(console: "Console", blocks: list[dict[str, Any]]) -> None:
    for block in blocks:
        kind = str(block.get("type", "?"))
        if kind == "text":
            _shortened(console, "  user     ", str(block.get("text", "")), TEXT_LINES, "dim")
        else:
            text = json.dumps(block, ensure_ascii=False)
            _shortened(console, "  user     ", text, SOURCE_LINES, "dim")


def _call(console: "Console", call: Mapping[str, Any], diffs: Mapping[str, str]) -> None:
    answer = call["answer"]
    attempt = f" (attempt {call['attempt']})" if call["attempt"] else ""
    size = f"{call['request_bytes']:,} bytes sent{attempt}"
    if answer is None:
        printing.say(console, f"  call     {size}; no answer is on record", "yellow")
        return
    if answer["received"]:
        parts = [f"{answer['seconds']:.1f} s", tokens_words(answer["usage"])]
        parts += [dollars(answer["cost_usd"]), answer["stop_reason"]]
        printing.say(console, f"  call     {size}; {', '.join(p for p in parts if p)}", "dim")
    else:
        printing.say_all(console, f"  call     {size}; ", _failed(answer), "yellow")
    for block in answer["said"]:
        _block(console, block, diffs)


def _failed(answer: Mapping[str, Any]) -> str:
    """Why a conversation could not go on from this answer: status, what the server said."""
    status = "no status" if answer["status"] is None else f"status {answer['status']}"
    parts = [f"{status} after {answer['seconds']:.1f} s"]
    said = answer["server_said"]
    if said is not None:
        parts.append(f"{said['kind']}: {said['message']}")
    if answer["error"]:
        parts.append(answer["error"])
    if not answer["complete"]:
        parts.append(f"cut off after {answer['body_bytes']:,} bytes")
    elif said is None:
        parts.append("the message is not whole")
    return "; ".join(parts)


def _block(console: "Console", block: Mapping[str, Any], diffs: Mapping[str, str]) -> None:
    match block["kind"]:
        case "text":
            printing.say_all(console, "  model    ", block["text"])
        case "thinking" | "redacted_thinking":
            count = f"{len(block['text']):,} characters" if block["text"] else "kept hidden"
            printing.say(console, f"  thinking {count}", "dim")
        case "tool_use":
            printing.say(console, f"  tool     {block['name']}  ({block['id']})", "cyan")
            if block.get("problem"):
                printing.say_all(console, _INDENT, block["problem"], "yellow")
                _shortened(console, _INDENT, block["written"], SOURCE_LINES)
            for name, value in _arguments(block["input"] or {}):
                _argument(console, name, value, diffs)
        case _:
            _shortened(console, "  other    ", block["raw"], SOURCE_LINES, "dim")


def _arguments(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Every leaf of a tool's input with its path: strings as text, all else as JSON."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _arguments(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _arguments(item, f"{name}[{index}]")
    elif name:
        yield name, value if isinstance(value, str) else json.dumps(value)


def _argument(console: "Console", name: str, value: str, diffs: Mapping[str, str]) -> None:
    if "\n" not in value:
        printing.say(console, f"{_INDENT}{name}: {value}")
        return
    printing.say(console, f"{_INDENT}{name}:")
    made = candidate_id(value)
    where = f"kernelsmith diff {made}{diffs[made]}" if made in diffs else "--json has all"
    _shortened(console, _INDENT + "  ", value, SOURCE_LINES, where=where)


def _result(console: "Console", result: Mapping[str, Any]) -> None:
    word = "error" if result["is_error"] else "result"
    style = "red" if result["is_error"] else ""
    head = f"  {word:<8} {result['name']}, {result['seconds']:.1f} s  ({result['tool_use_id']})"
    printing.say(console, head, style or "green")
    _shortened(console, _INDENT, result["text"], TEXT_LINES, style)


def _shortened(
    console: "Console",
    label: str,
    text: str,
    lines: int,
    style: str = "",
    where: str = "--json has all",
) -> None:
    """The first ``lines`` lines; where the rest is."""
    found = text.removesuffix("\n").split("\n")
    left = len(found) - lines
    if left > 2:  # else the hint takes as much room as the rest
        printing.say_all(console, label, "\n".join(found[:lines]), style)
        printing.say(console, f"{' ' * len(label)}… {left} more lines: {where}", "dim")
    else:
        printing.say_all(console, label, text, style)
