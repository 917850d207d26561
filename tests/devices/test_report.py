"""``tt.print`` and ``tt.assert``: what is printed, and that a failed assertion ends the kernel."""

import dataclasses
import json
import math

import numpy as np
import pytest

from kernelsmith.devices.cpu.compile import compile_ttir
from kernelsmith.devices.cpu.kernel import load
from kernelsmith.devices.cpu.report import as_stats, from_stats
from kernelsmith.errors import DeviceAssertError
from tests.devices.ttir_texts import Array, compiled, function, levels, pack, run

LOC = 'loc("kernel.py":12:8)'


def printing(elem: str, prefix: str = " v: ", shape: str = "2x2", extra: str = "") -> str:
    t, ptr = f"tensor<{shape}x", f"!tt.ptr<{elem}>"
    count = math.prod(map(int, shape.split("x")))
    line = f'tt.print "{prefix}" {{hex = false, isSigned = array<i32: 1>}} : %v : {t}{elem}>'
    return function(
        "k",
        [f"%x: {ptr}"],
        [
            f"%l = tt.make_range {{end = {count} : i32, start = 0 : i32}} : tensor<{count}xi32>",
            f"%i = tt.reshape %l : tensor<{count}xi32> -> {t}i32>",
            f"%s = tt.splat %x : {ptr} -> {t}{ptr}>",
            f"%p = tt.addptr %s, %i : {t}{ptr}>, {t}i32>",
            f"%v = tt.load %p : {t}{ptr}>",
            extra or line,
            "tt.return",
        ],
    )


@pytest.mark.parametrize(
    ("elem", "stored", "texts"),
    [
        ("f32", np.array([0.1, -0.0, np.inf, np.nan], np.float32), ["0.1", "-0.0", "inf", "nan"]),
        ("f32", np.array([1e-45, 16777217.0, 1 / 3, 1e30], np.float32),
         ["1e-45", "16777216.0", "0.33333334", "1e+30"]),
        ("f64", np.array([0.1, 1 / 3, 1e300, 2.0]),
         ["0.1", "0.3333333333333333", "1e+300", "2.0"]),
        ("f16", np.array([0.1, 65504, 1, -2.5], np.float16), ["0.1", "65500.0", "1.0", "-2.5"]),
        ("bf16", np.array([0x3DCD, 0x4049, 0x7F80, 0xC020], np.uint16),
         ["0.1", "3.14", "inf", "-2.5"]),
        ("f8E4M3FN", np.array([0x7E, 0x7F, 0x81, 0x38], np.uint8),
         ["448.0", "nan", "-0.001953125", "1.0"]),
        ("i8", np.array([-1, 127, 0, -128], np.int8), ["-1", "127", "0", "-128"]),
        ("i64", np.array([-1, 2**62, 0, 5], np.int64), ["-1", str(2**62), "0", "5"]),
    ],
)  # fmt: skip
def test_a_print_writes_one_line_an_element(
    elem: str, stored: Array, texts: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    run(printing(elem), stored)
    places = ["(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)"]
    want = [f"pid (0, 0, 0) idx {p} v: {t}" for p, t in zip(places, texts, strict=True)]
    captured = capfd.readouterr()
    assert captured.err.splitlines() == want
    assert captured.out == ""


def test_several_operands_scalars_unsigned_and_hexadecimal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    text = function(
        "k",
        ["%a: i32", "%b: f32", "%p: !tt.ptr<i8>"],
        [
            "%pid = tt.get_program_id y : i32",
            "%c = arith.trunci %a : i32 to i8",
            "%m = arith.cmpi slt, %a, %pid : i32",
            'tt.print " m: " {hex = false, isSigned = array<i32: 0, 1, 0>} : %c, %a, %m '
            ": i8, i32, i1",
            'tt.print " h: " {hex = true, isSigned = array<i32: 1, 0>} : %a, %b : i32, f32',
            'tt.print " done" {hex = false, isSigned = array<i32>}',
            "tt.return",
        ],
    )
    run(text, -2, 1.5, np.zeros(1, np.int8), grid=(1, 2, 1))
    assert capfd.readouterr().err.splitlines() == [
        line
        for y in (0, 1)
        for line in (
            f"pid (0, {y}, 0) m: (operand 0) 254",
            f"pid (0, {y}, 0) m: (operand 1) -2",
            f"pid (0, {y}, 0) m: (operand 2) True",
            f"pid (0, {y}, 0) h: (operand 0) 0xfffffffe",
            f"pid (0, {y}, 0) h: (operand 1) 0x3fc00000",
            f"pid (0, {y}, 0) done",
        )
    ]


def test_a_prefix_may_hold_anything(capfd: pytest.CaptureFixture[str]) -> None:
    run(printing("i32", r" 100%v { \22a\22: \C3\A9 : ", "1"), np.array([7], np.int32))
    assert capfd.readouterr().err == 'pid (0, 0, 0) idx (0) 100%v { "a": é : 7\n'


def test_a_print_shows_memory_as_it_was_at_its_place(capfd: pytest.CaptureFixture[str]) -> None:
    text = printing("i32", shape="2").replace(
        "tt.return", "%t = arith.addi %v, %v : tensor<2xi32>\n"
        "tt.store %p, %t : tensor<2x!tt.ptr<i32>>\n"
        'tt.print " w: " {hex = false, isSigned = array<i32: 1>} : %v : tensor<2xi32>\ntt.return'
    )  # fmt: skip
    x = np.array([3, 4], np.int32)
    run(text, x)
    lines = capfd.readouterr().err.splitlines()
    assert [line.split()[-1] for line in lines] == ["3", "4", "3", "4"]
    assert x.tolist() == [6, 8]


def asserting(condition: str = "%c", types: str = "tensor<2x2xi1>") -> str:
    check = (
        "%z = arith.constant dense<0.000000e+00> : tensor<2x2xf32>\n"
        "%c = arith.cmpf ogt, %v, %z : tensor<2x2xf32>\n"
        "%pid = tt.get_program_id x : i32\n"
        "%k = arith.constant 2 : i32\n"
        "%s1 = arith.cmpi slt, %pid, %k : i32\n"
        f'tt.assert {condition}, "x {{must}} be %v" : {types} {LOC}\n'
        "%t = arith.addf %v, %v : tensor<2x2xf32>\n"
        "tt.store %p, %t : tensor<2x2x!tt.ptr<f32>>"
    )
    return printing("f32", extra=check)


def test_a_failed_assertion_names_program_element_message_and_line_and_ends_the_kernel() -> None:
    x = np.array([1, 2, -3, -4], np.float32)
    for cpu in levels():
        with pytest.raises(DeviceAssertError) as caught:
            run(asserting(), x, cpu=cpu)
        assert caught.value.message == (
            "device_assert failed in program (0, 0, 0) of k at element (1, 0): "
            "x {must} be %v (kernel.py:12)"
        )
        assert caught.value.line == "kernel.py:12"
        assert caught.value.program == (0, 0, 0)
        assert x.tolist() == [1, 2, -3, -4]  # nothing after it ran
    good = np.array([1, 2, 3, 4], np.float32)
    run(asserting(), good)
    assert good.tolist() == [2, 4, 6, 8]


@pytest.mark.parametrize("order", ["ascending", "threads:2"])
def test_a_scalar_assertion_stops_the_programs_that_follow(order: str) -> None:
    kernel = compiled(asserting("%s1", "i1"), "host")
    x = np.ones(4, np.float32)
    with pytest.raises(DeviceAssertError) as caught:
        kernel.run(pack(kernel.info.params, (x,)), (4, 1, 1), order=order)
    assert caught.value.program[0] >= 2
    assert "element" not in caught.value.message
    if order == "ascending":
        assert x[0] == 4
    x[:] = 1
    kernel.run(pack(kernel.info.params, (x,)), (2, 1, 1))  # the next run starts afresh
    assert x[0] == 4


@pytest.mark.parametrize("text", [printing("f32"), asserting()], ids=["print", "assert"])
def test_with_no_one_listening_prints_are_dropped_and_a_failed_assertion_still_ends_it(
    text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    done = compile_ttir(text)
    deaf = load(dataclasses.replace(done.info, stats={}), done.code)
    x = np.array([1, -1, 1, 1], np.float32)
    deaf.run(pack(done.info.params, (x,)), (1, 1, 1))
    assert x.tolist() == [1, -1, 1, 1]
    assert capfd.readouterr().err == ""


def test_sites_survive_json() -> None:
    sites = from_stats(compile_ttir(asserting()).info.stats["reports"])
    assert from_stats(json.loads(json.dumps(as_stats(sites)))) == sites
    assert sites[0].kind == "assert"
    assert sites[0].shapes == ((2, 2),)
