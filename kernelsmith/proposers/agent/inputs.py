"""What a model hands to a tool, checked by hand: each refusal says how to mend the call."""

from collections.abc import Mapping, Sequence
from typing import Any

from kernelsmith.proposers.agent.tool_list import EDITS_MAX, SOURCE_MAX_BYTES, TOOLS

SHOWN_CHARS = 60


class RefusedError(Exception):
    """A tool refuses a call. ``facts`` go on record with it."""

    def __init__(self, text: str, **facts: Any) -> None:
        super().__init__(text)
        self.facts = facts


def valid(name: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The input as it came, if the tool can take it.

    Raises:
        RefusedError: an unknown tool, a field that is missing, unknown or of the wrong type.
    """
    tool = next((one for one in TOOLS if one["name"] == name), None)
    if tool is None:
        names = ", ".join(one["name"] for one in TOOLS)
        raise RefusedError(f"There is no such tool. Tools: {names}.")
    schema = tool["input_schema"]
    fields: Mapping[str, Any] = schema["properties"]
    takes = f"{name} takes {', '.join(fields)}" if fields else f"{name} takes nothing"
    unknown = sorted(set(given) - set(fields))
    if unknown:
        raise RefusedError(f"Unknown field {_short(unknown[0])}: {takes}.")
    missing = [field for field in schema["required"] if field not in given]
    if missing:
        raise RefusedError(f"The field {missing[0]} is missing: {takes}.")
    for field, value in given.items():
        if fields[field]["type"] == "string" and not isinstance(value, str):
            raise RefusedError(f"{field} must be a string, not {_kind(value)}.")
        allowed = fields[field].get("enum")
        if allowed and value not in allowed:
            raise RefusedError(f"{field} must be {' or '.join(allowed)}.")
    if name == "check":
        _require_source_or_edits(given)
    return given


def _require_source_or_edits(given: Mapping[str, Any]) -> None:
    whole, edits = "source" in given, "base" in given or "edits" in given
    if whole == edits:
        raise RefusedError("Give either source, or base and edits.")
    if whole:
        if not given["source"].strip():
            raise RefusedError("source is empty: give the whole module.")
        return
    if "base" not in given or "edits" not in given:
        raise RefusedError("edits need a base, and a base needs edits: give both.")
    changes = given["edits"]
    if not isinstance(changes, list) or not changes:
        raise RefusedError("edits must be a list of {old, new} with at least one.")
    if len(changes) > EDITS_MAX:
        raise RefusedError(f"{len(changes)} edits: at most {EDITS_MAX}; give the source instead.")
    for number, one in enumerate(changes):
        fits = isinstance(one, dict) and set(one) == {"old", "new"}
        if not fits or not all(isinstance(text, str) for text in one.values()):
            raise RefusedError(f"edit {number} must be {{old, new}}, both strings.")


def edited(text: str, edits: Sequence[Mapping[str, str]], base: str) -> str:
    """The text with the edits applied in order.

    Raises:
        RefusedError: an ``old`` does not occur exactly once, or an edit changes nothing.
    """
    for number, one in enumerate(edits):
        old, new = one["old"], one["new"]
        count = text.count(old) if old else 0
        if count != 1:
            after = f" after {number} edits" if number else ""
            mend = (
                "copy it from read_source, whitespace included"
                if count == 0
                else "make it longer, so that it occurs once"
            )
            raise RefusedError(
                f"edit {number}: old occurs {count} times in {base}{after}: {mend}. "
                f"It begins: {_short(old)}"
            )
        if old == new:
            raise RefusedError(f"edit {number} changes nothing: old and new are equal.")
        text = text.replace(old, new)
        require_size(text)
    return text


def require_size(source: str) -> None:
    """Refuses a source of more than 64 KiB, or one that is no text.

    Raises:
        RefusedError: it is one.
    """
    try:
        nbytes = len(source.encode())
    except UnicodeEncodeError:
        raise RefusedError("The source holds half a character (a surrogate): send text.") from None
    if nbytes > SOURCE_MAX_BYTES:
        raise RefusedError(f"A source of {nbytes} bytes: at most {SOURCE_MAX_BYTES}.")


def _kind(value: object) -> str:
    return {bool: "true or false", int: "a number", float: "a number", list: "a list"}.get(
        type(value), "an object" if isinstance(value, dict) else "null"
    )


def _short(text: str) -> str:
    shown = repr(text[:SHOWN_CHARS])
    return shown if len(text) <= SHOWN_CHARS else f"{shown} …"
