"""An answer as the record has it: its bytes as received, still encoded."""

from kernelsmith.errors import InputError
from kernelsmith.model import CallAnswered
from kernelsmith.wire.answer import Answer, parse_answer
from kernelsmith.wire.encoding import decode_body
from kernelsmith.wire.problems import unreadable

Headers = tuple[tuple[str, str], ...]


def header(headers: Headers, name: str) -> str:
    """A header's value whatever its case; "" where it is not there."""
    return next((value for key, value in headers if key.lower() == name), "")


def read_response(status: int, headers: Headers, body: bytes) -> Answer:
    """The answer in a response as received. Never raises."""
    try:
        decoded = decode_body(body, header(headers, "content-encoding"))
    except InputError as error:
        return Answer(error=unreadable(error.message, status))
    return parse_answer(status, header(headers, "content-type"), decoded)


def answer_of(answered: CallAnswered) -> Answer | None:
    """The recorded answer, if a conversation could go on from it: it ended properly, it is whole
    and it is no error."""
    if answered.status is None or not answered.complete:
        return None
    answer = read_response(answered.status, answered.headers, answered.body)
    return answer if answer.received else None
