"""Row strides may become addresses and nothing else."""

import pytest

from kernelsmith.gate.strides import misused

KERNEL = """module {{
  tt.func public @k(%x: !tt.ptr<f32>, %stride: i32, %n: i32) attributes {{noinline = false}} {{
    %c1344 = arith.constant 1344 : i32
    %zero = arith.constant 0.000000e+00 : f32
    %pid = tt.get_program_id x : i32
    %at = arith.muli %pid, %stride : i32
    %p = tt.addptr %x, %at : !tt.ptr<f32>, i32
    %v = tt.load %p : !tt.ptr<f32>
    {body}
    tt.store %p, %v : !tt.ptr<f32>
    tt.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("body", "op"),
    [
        ("", ""),
        ("%b = arith.cmpi slt, %pid, %n : i32", ""),
        ("%w = arith.extsi %at : i32 to i64\n    %q = tt.addptr %x, %w : !tt.ptr<f32>, i64", ""),
        ("%b = arith.cmpi eq, %stride, %c1344 : i32", "arith.cmpi"),
        ("%d = arith.subi %at, %c1344 : i32\n    %b = arith.cmpi eq, %d, %pid : i32", "arith.cmpi"),
        ("%d = arith.divsi %stride, %c1344 : i32", "arith.divsi"),
        ("%f = arith.sitofp %stride : i32 to f32", "arith.sitofp"),
        ("%d = arith.andi %at, %c1344 : i32", "arith.andi"),
        (
            "%s = scf.for %i = %n to %stride step %n iter_args(%a = %zero) -> (f32)  : i32 {\n"
            "      scf.yield %a : f32\n    }",
            "scf.for",
        ),
        (
            "%s = scf.for %i = %pid to %n step %n iter_args(%a = %at) -> (i32)  : i32 {\n"
            "      %b = arith.addi %a, %stride : i32\n      scf.yield %b : i32\n    }",
            "",
        ),
        (
            "%s = scf.for %i = %pid to %n step %n iter_args(%a = %pid) -> (i32)  : i32 {\n"
            "      %c = arith.cmpi eq, %a, %c1344 : i32\n"
            "      %b = arith.addi %a, %stride : i32\n      scf.yield %b : i32\n    }",
            "arith.cmpi",
        ),
    ],
)
def test_what_a_stride_reaches_is_read_from_the_text(body: str, op: str) -> None:
    assert misused(KERNEL.format(body=body), [1]) == op


def test_other_arguments_may_be_compared() -> None:
    text = KERNEL.format(body="%b = arith.cmpi eq, %n, %c1344 : i32")
    assert misused(text, [1]) == ""
    assert misused(text, [2]) == "arith.cmpi"


def test_a_text_that_does_not_parse_is_left_to_the_compiler() -> None:
    assert misused("no module", [0]) == ""
