"""Every word that three releases print is listed; any other is refused by name."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelsmith.devices.cpu.ttir_ops import KNOWN_OPS
from kernelsmith.devices.cpu.versions import TESTED_TRITON, require_triton
from kernelsmith.errors import MissingError
from kernelsmith.gate.witness.allowed import ATTRIBUTES, offence, option_offence
from tests.conformance import corpus

CORPUS = Path(__file__).parents[1] / "devices" / "corpus"
KEPT = corpus.read()
GOOD = """module {
  tt.func @k(%a: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) attributes {noinline = false} {
    %z = arith.constant dense<0.000000e+00> : tensor<64xf32>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %s = tt.splat %a : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %p = tt.addptr %s, %r : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %l = scf.for %i = %c0 to %n step %c1 iter_args(%x = %z) -> (tensor<64xf32>)  : i32 {
      %v = tt.load %p : tensor<64x!tt.ptr<f32>>
      %w = arith.addf %x, %v : tensor<64xf32>
      scf.yield %w : tensor<64xf32>
    } {tt.num_stages = 3 : i32}
    %t = "tt.reduce"(%l) <{axis = 0 : i32}> ({
    ^bb0(%b: f32, %d: f32):
      %e = arith.addf %b, %d : f32
      tt.reduce.return %e : f32
    }) : (tensor<64xf32>) -> f32
    tt.store %a, %t : !tt.ptr<f32>
    tt.return
  }
}
"""


@pytest.mark.parametrize("release", TESTED_TRITON)
def test_every_word_a_release_prints_is_listed(release: str) -> None:
    texts = {n: t[release] for n, t in KEPT.items() if release in t}
    texts |= {path.name: path.read_text() for path in (CORPUS / release).glob("*.ttir")}
    assert len(texts) > 150
    found = {name: offence(text) for name, text in texts.items()}
    said = {name: fault for name, fault in found.items() if fault}
    assert all(name.startswith("refused/") for name in said), said
    assert said["refused/inline_asm_elementwise/fp32/32"] == (
        "op tt.elementwise_inline_asm is not on the list of what the IR may say"
    )


def test_the_ops_are_those_of_the_one_list() -> None:
    others = set(ATTRIBUTES) - KNOWN_OPS
    assert others == {"module", "tt.func", "}", "tt.extern_elementwise"}


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("tt.load %p", "tt.load %p cacheHint = l7", "attribute cacheHint of tt.load"),
        ("tt.load %p", "tt.load %p {tt.ordered = false}", "attribute tt.ordered of tt.load"),
        ("arith.addf %x, %v", "arith.addf %x, %v fastmath<reassoc>", "attribute fastmath of"),
        ("addptr %s, %r", "addptr %s, %r overflow<nsw>", "attribute overflow of tt.addptr"),
        ("<{axis = 0 : i32}>", '<{axis = 0 : i32, ordering = "none"}>', "attribute ordering of"),
        ("<{axis = 0 : i32}>", "<{axis = 0 : i32}> {unordered}", "attribute unordered of"),
        ("tt.store %a, %t", "ttx.scatter %a, %t", "op ttx.scatter"),
        ("tt.num_stages = 3", "tt.fast_math = 3", "attribute tt.fast_math"),
        ("noinline = false", "allow_fma = true", "attribute allow_fma of tt.func"),
        ("{tt.divisibility = 16 : i32}", "{tt.aliased = 1 : i32}", "attribute tt.aliased of"),
        ("module {", "module attributes {ttg.fma = 1 : i32} {", "attribute attributes of module"),
        ("%v = tt.load %p : tensor<64x!tt.ptr<f32>>",
         "%v = tt.load %p : tensor<64x!tt.ptr<f32>, #blocked>", "attribute tensor of tt.load"),
        ("dense<0.000000e+00> : tensor<64xf32>", "dense<0.0> : tensor<64xf8E3M4>",
         "attribute tensor of arith.constant"),
        ("%a: !tt.ptr<f32>", "%a: !tt.tensordesc<tensor<64xf32>>", "type !tt.tensordesc of"),
        ("%e = arith.addf %b, %d : f32", "%e = arith.addf %b, %d : f32 fused<%b>", "fused"),
        ("tt.return\n", "tt.return\n    #blocked = #ttg.blocked<{}>\n", "op #"),
        ("tt.store %a, %t :", 'tt.store %a, %t "now" :', 'attribute "now" of tt.store'),
    ],
)  # fmt: skip
def test_what_is_new_is_refused_in_a_sentence_that_names_it(old: str, new: str, named: str) -> None:
    assert offence(GOOD) == ""
    text = GOOD.replace(old, new)
    assert text != GOOD
    said = offence(text)
    assert said.startswith(named) or named in said
    assert said.endswith("is not on the list of what the IR may say")
    assert "\n" not in said


@settings(max_examples=150, deadline=None)
@given(
    word=st.from_regex(r"[a-z][a-zA-Z]{2,9}(\.[a-z]{2,6})?", fullmatch=True),
    line=st.integers(0, GOOD.count("\n") - 1),
)
def test_an_invented_word_passes_on_no_line(word: str, line: int) -> None:
    lines = GOOD.splitlines()
    name = re.search(r"(?:= )?\"?((?:tt|arith|scf)\.[\w.]+|module)", lines[line])
    known = ATTRIBUTES.get(name[1] if name else "}", frozenset())
    lines[line] = f"{lines[line]} {{{word} = 1 : i32}}"
    said = offence("\n".join(lines))
    listed = word in known or word in ("dense", "index", "true", "to") or lines[line][0] == "^"
    assert said == "" if listed else word in said


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": 128}, ""),
        ({}, ""),
        ({"enable_fp_fusion": 1}, "launch option 'enable_fp_fusion' is not known"),
        ({"ir_override": "x"}, "launch option 'ir_override' is not known"),
        ({"num_warps": True}, "launch option num_warps=True"),
        ({"num_warps": "4"}, "launch option num_warps='4'"),
        ({"num_stages": 0}, "launch option num_stages=0"),
    ],
)
def test_launch_options_are_those_that_are_listed(options: dict[str, object], named: str) -> None:
    said = option_offence(options)
    assert said.startswith(named)
    assert bool(said) == bool(named)


@pytest.mark.parametrize("version", ["3.8.0", "3.9.1", "3.10.0", "4.0.0"])
def test_a_release_nobody_has_read_is_refused(version: str) -> None:
    with pytest.raises(MissingError, match=rf"Triton {re.escape(version)} is not supported"):
        require_triton(version)
