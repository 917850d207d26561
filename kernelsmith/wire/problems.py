"""Errors as servers of the Messages API report them, in a body or in the middle of a stream."""

import json
from dataclasses import dataclass
from typing import Any

STATUS_OF_KIND = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
UNREADABLE = "unreadable"
MESSAGE_MAX_CHARS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiError:
    """An error of the server. ``status``: of HTTP; that of the kind where it came in a stream
    that began well. Kind ``UNREADABLE``: what came is no answer of the Messages API."""

    kind: str
    message: str
    status: int


def error_of_body(status: int, body: bytes) -> ApiError:
    """The error that a response of this status carries."""
    text = body.decode("utf-8", "replace").strip()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    kind, message = _kind_and_message(value)
    return ApiError(
        kind=kind or next((k for k, s in STATUS_OF_KIND.items() if s == status), "error"),
        message=(message or text or f"HTTP status {status}")[:MESSAGE_MAX_CHARS],
        status=status,
    )


def error_of_event(value: Any) -> ApiError:
    """The error that an error event, or an error object under a good status, tells."""
    kind, message = _kind_and_message(value)
    return ApiError(
        kind=kind or "api_error",
        message=message[:MESSAGE_MAX_CHARS] or "the server names no reason",
        status=STATUS_OF_KIND.get(kind, 500),
    )


def unreadable(message: str, status: int) -> ApiError:
    """An answer that cannot be read."""
    return ApiError(kind=UNREADABLE, message=message[:MESSAGE_MAX_CHARS], status=status)


def _kind_and_message(value: Any) -> tuple[str, str]:
    """Anthropic's form, that of OpenAI's API, and FastAPI's ``detail``."""
    if not isinstance(value, dict):
        return "", value if isinstance(value, str) else ""
    error = value.get("error")
    if isinstance(error, str):
        return "", error
    inner = error if isinstance(error, dict) else value
    kind = inner.get("type")
    message = inner.get("message") or inner.get("detail") or ""
    if not isinstance(message, str):
        message = json.dumps(message)
    return kind if isinstance(kind, str) and kind != "error" else "", message
