"""Texts come from where candidate Python ran: whatever they are, they are read or refused."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelsmith.gate.witness import reading
from tests.witness.test_allowed import GOOD

TOKENS = (
    "%a", "%zz", "%3#7", "{", "}", "({", "^bb0(%q: f32):", "scf.yield", "tt.call @k(%a)", "<", ">",
    "tt.reduce.return", "i32", "-> (f32)", ": tensor<0xf32>", "\x00", "loc(", '"', "((((", "%",
    "tt.return", "scf.if %a {", "cf.br ^bb9", "%a:999999999",
)  # fmt: skip


def test_a_good_text_is_read() -> None:
    said = reading.read(GOOD, None)
    assert said.fault == ""
    assert said.decided == ()
    assert (said.stores, said.loads) == ({0}, {0})
    assert said.facts.accumulators == {("loop", "f32"), ("reduction", "f32")}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected one public tt.func, found 0"),
        ("hello", "op hello is not on the list"),
        (GOOD + GOOD, "expected one public tt.func, found 2"),
        (GOOD.replace("%w : tensor<64xf32>", "%q : tensor<64xf32>"), "before it is defined"),
        (GOOD.replace("    tt.return\n  }\n}\n", ""), "cannot be read: IndexError"),
        (GOOD.replace("iter_args(%x = %z)", "iter_args(%x)"), "cannot be read"),
        (GOOD.replace("%e = ", "%e:99999999 = "), "a thousand results or more"),
        (GOOD.replace('"(%l) <', '"() <'), "cannot be read: ZeroDivisionError"),
        ("x" * (reading.LINE_MAX + 1), "a line of more than 65,536 characters"),
        ("\n" * (reading.TEXT_MAX + 1), "at most 4,194,304 are read"),
        ("// kernelsmith launch options: num_warps=3\n" + GOOD, "no power of two"),
        ("// kernelsmith launch options: fast=1\n" + GOOD, "cannot be 'fast'"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(text: str, why: str) -> None:
    said = reading.read(text, None)
    assert why in said.fault
    assert "\n" not in said.fault
    assert said.facts == reading.Facts()


def test_deep_nesting_is_refused_not_a_crash() -> None:
    text = (
        "module {\n  tt.func public @k() {\n    %t = arith.constant true\n"
        + "    scf.if %t {\n" * 1000 + "    }\n" * 1000 + "    tt.return\n  }\n}\n"
    )  # fmt: skip
    assert "RecursionError" in reading.read(text, None).fault


def test_pointers_that_are_not_the_kernels_are_refused() -> None:
    wrong = (reading.Param(buffer=0, floats=True),) * 2
    assert "cannot be read: ValueError" in reading.read(GOOD, wrong).fault


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    cuts=st.lists(
        st.tuples(st.integers(0, len(GOOD)), st.integers(0, 40), st.sampled_from(TOKENS)),
        min_size=1,
        max_size=4,
    )
)
def test_a_damaged_text_never_crashes_the_host(cuts: list[tuple[int, int, str]]) -> None:
    text = GOOD
    for at, length, token in cuts:
        text = f"{text[:at]} {token} {text[at + length :]}"
    said = reading.read(text, None)
    assert said.fault == "" or "\n" not in said.fault


def test_plain_texts_of_two_alignments_are_one() -> None:
    other = GOOD.replace(" {tt.divisibility = 16 : i32}", "")
    located = GOOD.replace(" : i32 {", " : i32 loc(#loc3) {").replace(
        "tt.return\n", 'tt.return loc("x"(#loc1))\n'
    )
    assert (
        reading.plain(GOOD)
        == reading.plain(other)
        == reading.plain(f"#loc = loc(unknown)\n{located}")
    )
