"""Sessions that exercise what a model's answer may look like beside text and well-made calls."""

from kernelsmith.rehearsal import LABEL, variants
from kernelsmith.rehearsal.replies import Reply, Text, Thought, ToolCall
from kernelsmith.rehearsal.spelling import call
from kernelsmith.rehearsal.stories import Story, finish, one, say

REPLIES_MAX = 3


def stumbling(task: str) -> Story:
    """Input that is not JSON, mended; calls side by side; a call cut off by max_tokens; a pause;
    a turn that ends without a call."""
    torn = '{"name": "seed", "note": "a string that never en'
    yield say(f"({LABEL}) I read the seed.", ToolCall("read_source", torn))
    yield say("My input was not JSON. Again.", call("read_source", "escaped", name="seed"))
    yield say(
        "Three questions at once, an unknown tool and a wrong argument among them.",
        call("lineage", "indented"),
        call("read_source", "slashed", name="incumbent"),
        call("get_tasks"),
        call("measure", candidate="0000000000000000"),
    )
    whole = call("check", "compact", source=variants.source(task, "first"))
    cut = ToolCall("check", whole.json_text[: len(whole.json_text) // 3])
    yield Reply(parts=(Text("A rewrite."), cut), stop_reason="max_tokens")
    told = one((yield say("Shorter, then.", whole)))
    yield Reply(parts=(Thought("Which kernel?"), Text("Let me think")), stop_reason="pause_turn")
    if told.candidate:
        yield say("The code?", call("read_ir", candidate=told.candidate, what="ttir"))
    yield Reply(parts=(Text("I believe that is all I can do."),), stop_reason="end_turn")
    yield finish("Then I finish.", "nothing left to try")


def refusing(task: str) -> Story:
    """The model declines in the middle."""
    yield say(f"({LABEL}) The task of {task}.", call("get_task"))
    yield Reply(parts=(Text("I cannot go on with this."),), stop_reason="refusal")


def overflowing(task: str) -> Story:
    """The context is full."""
    yield say(f"({LABEL}) The seed of {task}.", call("read_source", name="seed"))
    yield Reply(parts=(Text("So much to read that"),), stop_reason="model_context_window_exceeded")


def reading(task: str) -> Story:
    """Reads on until the prompt is too long (the server refuses it, see ``quirks``)."""
    yield say(f"({LABEL}) The seed of {task}.", call("read_source", name="seed"))
    yield say("And the best so far.", call("read_source", name="incumbent"))
    yield finish("Read.", "everything is read")


def rambling(task: str) -> Story:
    """Is cut off by max_tokens again and again."""
    for _ in range(REPLIES_MAX + 1):
        yield Reply(
            parts=(Text(f"({LABEL}) On {task} much can be said,"),), stop_reason="max_tokens"
        )
    yield finish("Enough.", "nothing left to try")


def idle(task: str) -> Story:
    """Has no idea."""
    yield finish(f"({LABEL}) I have no idea for {task}.", "nothing left to try")
