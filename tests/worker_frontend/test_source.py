"""What Triton compiles is what the policy read."""

import ast
import json

import pydantic_core
import pytest

from kernelsmith.worker.trace_source import lines_of

from .programs import HEADER, call, tensor, trace

FORWARD = "\n\ndef forward(x):\n    y = x.new_empty((4,))\n    k[(1,)](y)\n    return y\n"
# The decorator's string holds a function; the text from there on is one valid function, too:
# the docstring that it opens ends inside a comment of the real one.
HIDDEN = '''
@triton.jit(do_not_specialize=["""
def k(y_ptr):
    tl.store(y_ptr, 666.0)
    \'\'\'
"""])
def k(y_ptr):
    tl.store(y_ptr, 1.0)
    # \'\'\'
'''
# Characters that str.splitlines takes for the end of a line and Python's parser does not.
ODD_ENDS = ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


def test_a_function_hidden_in_a_decorator_is_refused(tmp_path):
    source = HEADER + HIDDEN + FORWARD
    ast.parse(source)
    failure = trace(source, call(x=tensor(4)), tmp_path=tmp_path).failure
    assert failure is not None
    assert failure.status == "TRACE"
    assert "the text of kernel k is not what Triton would compile" in failure.message


@pytest.mark.parametrize("end", ODD_ENDS, ids=[repr(end) for end in ODD_ENDS])
def test_odd_line_ends_do_not_shift_the_text_that_is_compiled(end, tmp_path):
    kernels = "@triton.jit\ndef k(y_ptr):\n    tl.store(y_ptr, 1.0)\n"
    plain = trace(HEADER + kernels + FORWARD, call(x=tensor(4)), tmp_path=tmp_path)
    source = HEADER + f"NOTE = 'a{end}b'  # {end}\n" + kernels + FORWARD
    odd = trace(source, call(x=tensor(4)), tmp_path=tmp_path)
    assert odd.failure is None
    assert odd.plans == plain.plans
    assert "1.000000e+00" in next(iter(odd.classes.values())).ttir


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_are_those_of_the_parser(newline):
    source = newline.join(["a = 1", "", "b = 'x\x0cy'", "c = 3"])
    lines = lines_of(source)
    assert len(lines) == 4
    last = ast.parse(source).body[-1]
    assert lines[last.lineno - 1] == "c = 3"


def test_windows_line_ends_trace_like_others(tmp_path):
    kernels = "@triton.jit\ndef k(y_ptr):\n    tl.store(y_ptr, 1.0)\n"
    source = HEADER + kernels + FORWARD
    plain = trace(source, call(x=tensor(4)), tmp_path=tmp_path)
    windows = trace(source.replace("\n", "\r\n"), call(x=tensor(4)), tmp_path=tmp_path)
    assert windows == plain


def test_a_message_that_is_no_text_can_be_answered(tmp_path):
    source = HEADER + "def forward(x):\n    raise ValueError('\\ud800')\n"
    result = trace(source, call(x=tensor(4)), tmp_path=tmp_path)
    assert json.loads(pydantic_core.to_json(result))["failure"]["message"].endswith("?")
