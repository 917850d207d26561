"""What the Messages API says on the wire: bytes in, nouns out. Pure functions.

``read_response`` and ``answer_of`` read what came back; ``fragments`` writes what is sent.
"""

from kernelsmith.wire.answer import Answer, parse_answer
from kernelsmith.wire.blocks import Block, BlockKind
from kernelsmith.wire.canonical import dumps
from kernelsmith.wire.encoding import decode_body
from kernelsmith.wire.problems import ApiError
from kernelsmith.wire.recorded import answer_of, header, read_response
from kernelsmith.wire.usage import read_usage

__all__ = [
    "Answer",
    "ApiError",
    "Block",
    "BlockKind",
    "answer_of",
    "decode_body",
    "dumps",
    "header",
    "parse_answer",
    "read_response",
    "read_usage",
]
