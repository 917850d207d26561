"""The tools as the model is told of them: one constant, the same bytes for every session."""

import json
from typing import Any

SOURCE_MAX_BYTES = 64 * 1024
EDITS_MAX = 64
NOTE_MAX_CHARS = 200

_CANDIDATE = {
    "type": "string",
    "description": "An id of 16 hex digits that check returned in this session.",
}


def _tool(
    name: str, description: str, required: tuple[str, ...] = (), /, **fields: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "input_schema": {
            "type": "object",
            "properties": fields,
            "required": list(required),
            "additionalProperties": False,
        },
    }


def _string(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}


TOOLS: tuple[dict[str, Any], ...] = (
    _tool(
        "get_task",
        "What is to be made faster: entries, call forms, declared ranges, timed cases with their "
        "weights and what limits each.",
    ),
    _tool(
        "read_source",
        "A source: the seed's whole, your own as you wrote it, another author's as code alone "
        "(comments, docstrings and free names taken out).",
        ("name",),
        name=_string('"seed", "parent", "incumbent", or a candidate\'s id.'),
    ),
    _tool(
        "check",
        "Checks bits quickly: language, trace, compile, and every byte of the declared cases on "
        "both paths against the seed's. Gives the candidate's id, or the first element that "
        "differs with both bit patterns. Costs no verdict. Give either source, or base and edits "
        "(shorter, so better).",
        source=_string("The whole module, at most 64 KiB of UTF-8."),
        base=_string(
            'What edits apply to, as read_source shows it: "seed", "parent", "incumbent", or an id.'
        ),
        edits={
            "type": "array",
            "description": "Applied in order.",
            "items": {
                "type": "object",
                "properties": {
                    "old": _string("Text that occurs exactly once, whitespace included."),
                    "new": _string("What replaces it."),
                },
                "required": ["old", "new"],
                "additionalProperties": False,
            },
        },
    ),
    _tool(
        "measure",
        "One timing session of a checked candidate against the incumbent: gain by case, warm and "
        "cold caches. A screen: it decides nothing.",
        ("candidate",),
        candidate=_CANDIDATE,
    ),
    _tool(
        "submit",
        "Submits a checked candidate for its verdict: all checks, hidden shapes drawn after "
        "submission, many timing sessions. Minutes of the gate's time: measure first.",
        ("candidate", "note"),
        candidate=_CANDIDATE,
        note=_string("One line for the people who review: what changed and why bits stay."),
    ),
    _tool(
        "read_ir",
        "What the compiler made of a checked candidate: its kernels with scratch, loads, stores, "
        "FMAs and spills, and one kernel's text.",
        ("candidate", "what"),
        candidate=_CANDIDATE,
        kernel=_string("The kernel's name as listed; by default the first."),
        what={"type": "string", "enum": ["ttir", "assembly"], "description": "Which text."},
    ),
    _tool(
        "lineage",
        "What was tried in this run on this task by whoever, with verdicts, gains and reasons.",
    ),
    _tool(
        "finish",
        "Ends this session, when no idea is left that is worth its cost.",
        ("reason",),
        reason=_string("One line: what was learned."),
    ),
)
TOOLS_JSON: bytes = json.dumps(TOOLS, ensure_ascii=False, separators=(",", ":")).encode()
