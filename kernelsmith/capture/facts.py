"""What a recorded answer says about itself: message id, model, stop reason, tokens."""

from typing import Any

from kernelsmith import wire


def stated(
    target: str, status: int | None, headers: tuple[tuple[str, str], ...], body: bytes
) -> dict[str, Any]:
    """Fields of CallAnswered that an answer of the Messages API states, be it broken off or whole;
    {} for other paths. A body that cannot be read states nothing."""
    if status is None or not body or not target.partition("?")[0].endswith("/messages"):
        return {}
    answer = wire.read_response(status, headers, body)
    return {
        "message_id": answer.message_id,
        "model": answer.model,
        "stop_reason": answer.stop_reason,
        "usage": answer.usage,
    }
