"""What follows from an answer: pure, so that a conversation taken from the record goes the way it
went live."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelsmith.model import ToolDone
from kernelsmith.wire import Answer, ApiError, Block, fragments

CUTS_MAX = 3  # answers in a row cut off at max_tokens
GATE_TOOLS = frozenset({"check", "measure", "submit", "read_ir"})  # each may cost the gate's time
GATE_CALLS_MAX = 8  # of one answer

CUT_TOOL = (
    "Not run: your message was cut off at the limit of output tokens before this call was whole. "
    "Call it again with less: fewer words, or edits in place of a whole source."
)
CUT_TEXT = (
    "Your message was cut off at the limit of output tokens. Go on from there, with shorter steps."
)
NUDGE = (
    "You called no tool, and this conversation goes on only by tools. Check, measure or submit "
    "something, or call finish if there is nothing left to try."
)
TOO_MANY = (
    f"Not run: only the first {GATE_CALLS_MAX} calls of check, measure, submit and read_ir of one "
    "message are; read their results, then call it again."
)
BAD_INPUT = "Not run: {problem}. Send the arguments as one JSON object."

_CONTEXT = re.compile(
    r"prompt is too long|too many (input )?tokens|context[ _](length|window|size|limit)"
    r"|(exceeds?|longer than) .{0,60}context",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A conversation between two turns. ``cuts``: answers in a row cut off at max_tokens;
    ``nudged``: the last one called no tool and was told so; ``end``: why it is over."""

    fragments: tuple[bytes, ...]
    turn: int = 0
    cuts: int = 0
    nudged: bool = False
    end: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStep:
    """A tool call of an answer. ``refusal``: why it is not run; "" if it is."""

    ordinal: int
    block: Block
    refusal: str


def steps(answer: Answer) -> tuple[ToolStep, ...]:
    """The tool calls of an answer, in the model's order."""
    if answer.stop_reason in _ENDS:
        return ()
    found: list[ToolStep] = []
    gate_calls = 0
    for block in answer.blocks:
        if block.kind != "tool_use":
            continue
        refusal = _refusal(answer, block)
        if not refusal and block.tool_name in GATE_TOOLS:
            gate_calls += 1
            refusal = TOO_MANY if gate_calls > GATE_CALLS_MAX else ""
        found.append(ToolStep(ordinal=len(found), block=block, refusal=refusal))
    return tuple(found)


def after(state: State, answer: Answer, results: Sequence[ToolDone]) -> State:
    """The conversation after an answer and the results of all of its tools, or of those up to
    the one that finished it."""
    ended = _ENDS.get(answer.stop_reason)
    said = (*state.fragments, fragments.assistant(answer))
    then = replace(state, fragments=said, turn=state.turn + 1)
    if ended is not None:
        return replace(then, end=(ended, _words(answer)))
    for done in results:
        if done.facts.get("finished"):
            return replace(then, end=(str(done.facts["finished"]), done.text))
    cut = answer.stop_reason == "max_tokens"
    cuts = state.cuts + 1 if cut else 0
    if cuts >= CUTS_MAX:
        message = f"{cuts} answers in a row were cut off at max_tokens"
        return replace(then, cuts=cuts, end=("max_tokens", message))
    if results:
        triples = [(done.tool_use_id, done.text, done.is_error) for done in results]
        told = any(done.text == CUT_TOOL for done in results)
        more = CUT_TEXT if cut and not told else ""
        return _say(replace(then, cuts=cuts, nudged=False), fragments.tool_results(triples, more))
    if cut:
        return _say(replace(then, cuts=cuts), fragments.user_text(CUT_TEXT))
    if answer.stop_reason == "pause_turn":
        return replace(then, cuts=0)
    if state.nudged:
        return replace(then, cuts=0, end=("end_turn", _words(answer)))
    return _say(replace(then, cuts=0, nudged=True), fragments.user_text(NUDGE))


def after_refusal(state: State, error: ApiError) -> State:
    """The conversation after the server refused its request for good: over."""
    context = error.status == 413 or _CONTEXT.search(error.message) is not None
    reason = "context" if context else "rejected"
    return replace(state, end=(reason, f"{error.status} {error.kind}: {error.message}"))


_ENDS = {"refusal": "refusal", "model_context_window_exceeded": "context"}


def _refusal(answer: Answer, block: Block) -> str:
    cut = answer.stop_reason == "max_tokens" and block is answer.blocks[-1]
    if cut and (block.problem or not block.text):
        return CUT_TOOL
    return BAD_INPUT.format(problem=block.problem) if block.problem else ""


def _words(answer: Answer) -> str:
    """What the model said at the end, for people."""
    return answer.text.strip()[:500] or f"stop reason {answer.stop_reason or 'none'}"


def _say(state: State, fragment: bytes) -> State:
    return replace(state, fragments=(*state.fragments, fragment))
