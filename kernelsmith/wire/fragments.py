"""Request bodies as frozen JSON fragments, one a message: ``prefix + b",".join(fragments) + end``.

A fragment is written once and never again, so each body begins with the bytes of the one before.
"""

from collections.abc import Sequence

from kernelsmith.model import END_OF_BODY
from kernelsmith.wire.answer import Answer
from kernelsmith.wire.blocks import UNSIGNED
from kernelsmith.wire.canonical import dumps

# A message without content is refused by servers; the model must still be seen to have answered.
NO_CONTENT = b'{"type":"text","text":"(no answer)"}'


def prefix(
    model: str,
    max_tokens: int,
    system: str,
    tools_json: bytes,
    thinking: str | None,
    effort: str | None,
) -> bytes:
    """What every request of a session begins with, up to its first message. The prompt cache is
    asked for once, at the top: the server marks the last block, so no marker moves in the body.

    ``thinking``: a type of thinking ("adaptive", "disabled"), or a number of tokens to think for;
    ``effort``: as the server knows it; None leaves either out. ``tools_json``: a JSON array.
    """
    parts = [b'"model":' + dumps(model), b'"max_tokens":' + dumps(max_tokens)]
    parts += [b'"system":' + dumps(system)] if system else []
    parts += [b'"tools":' + tools_json, b'"cache_control":{"type":"ephemeral"}']
    if thinking is not None:
        of_tokens = thinking.isascii() and thinking.isdigit()
        chosen = {"type": "enabled", "budget_tokens": int(thinking)} if of_tokens else None
        parts.append(b'"thinking":' + dumps(chosen or {"type": thinking}))
    if effort is not None:
        parts.append(b'"output_config":' + dumps({"effort": effort}))
    parts += [b'"stream":true', b'"messages":[']
    return b"{" + b",".join(parts)


def body(prefix: bytes, fragments: Sequence[bytes]) -> bytes:
    """A whole request body."""
    return prefix + b",".join(fragments) + END_OF_BODY


def assistant(answer: Answer) -> bytes:
    """The model's message, to be sent back.

    Blocks that servers refuse are left out: text without a visible character, and a last
    thinking block that was cut before its signature.
    """
    cut = answer.blocks[-1:] if answer.stop_reason == "max_tokens" else ()
    raws = [
        block.raw
        for block in answer.blocks
        if not (block.kind == "text" and not block.text.strip())
        and not (block.kind == "thinking" and block.problem == UNSIGNED and block in cut)
    ]
    return b'{"role":"assistant","content":[' + (b",".join(raws) or NO_CONTENT) + b"]}"


def user_text(text: str) -> bytes:
    """A message of the user."""
    return b'{"role":"user","content":[' + _text(text) + b"]}"


def tool_results(results: Sequence[tuple[str, str, bool]], text: str = "") -> bytes:
    """The message with the results of a turn's tools, (tool_use_id, text, is_error) in the order
    in which the model asked for them, and what is said after them."""
    parts = [
        b'{"type":"tool_result","tool_use_id":'
        + dumps(tool_use_id)
        + b',"content":'
        + dumps(result)
        + (b',"is_error":true}' if is_error else b"}")
        for tool_use_id, result, is_error in results
    ]
    parts += [_text(text)] if text else []
    return b'{"role":"user","content":[' + b",".join(parts) + b"]}"


def _text(text: str) -> bytes:
    return b'{"type":"text","text":' + dumps(text) + b"}"
