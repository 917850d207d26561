"""What TTIR may say: every word of it, by op. What is on no list is refused by name.

A new Triton release that brings an attribute, a flag or a type is refused until somebody has read
what it does to bits and listed it here; ops are those of
:data:`kernelsmith.devices.cpu.ttir_ops.KNOWN_OPS`, launch options those of
:data:`kernelsmith.model.language.LAUNCH_OPTIONS`. Not listed on purpose: ``fastmath`` and
``overflow`` flags (promises that make a wrong value undefined), encodings, rounding modes of ops
that have one rounding.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from kernelsmith.devices.cpu.ttir import BITS
from kernelsmith.devices.cpu.ttir_ops import KNOWN_OPS
from kernelsmith.devices.cpu.ttir_text import strip_loc
from kernelsmith.model.language import LAUNCH_OPTIONS

OPTION_MAX = 1 << 16


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


HINTS = _words("tt.contiguity tt.divisibility tt.constancy dense")
"""Promises about integers and pointers, on any op; :mod:`rules` reads none of them."""
_CACHE = _words(
    """none ca cg wb cs wt cv evict_normal evict_first evict_last cacheModifier evictionPolicy
    cachePolicy #tt.cache_policy cache_modifier eviction_policy isVolatile true false"""
)
_ATOMIC = _words("relaxed acquire release acq_rel gpu cta sys")
_LOOP = _words(
    """tt.num_stages tt.loop_unroll_factor tt.flatten tt.warp_specialize
    tt.disallow_acc_multi_buffer true false"""
)
_CALLED = _words("libname libpath pure symbol true false")
ATTRIBUTES: Mapping[str, frozenset[str]] = {
    "module": frozenset(),
    "tt.func": _words("public private attributes noinline true false tt.divisibility"),
    "}": _words("else do") | _LOOP,
    "arith.constant": _words("dense true false inf nan"),
    "arith.cmpi": _words("eq ne slt sle sgt sge ult ule ugt uge"),
    "arith.cmpf": _words("false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true"),
    "scf.for": _words("unsigned to step iter_args") | _LOOP,
    "tt.load": _CACHE,
    "tt.store": _CACHE,
    "tt.dot": _words("inputPrecision maxNumImpreciseAcc tf32 tf32x3 ieee bf16x3 bf16x6"),
    "tt.make_range": _words("start end"),
    "tt.expand_dims": _words("axis"),
    "tt.trans": _words("order array"),
    "tt.reshape": _words("allow_reorder efficient_layout"),
    "tt.gather": _words("axis efficient_layout"),
    "tt.reduce": _words("axis"),
    "tt.scan": _words("axis reverse true false"),
    "tt.map_elementwise": _words("pack"),
    "tt.get_program_id": _words("x y z"),
    "tt.get_num_programs": _words("x y z"),
    "tt.fp_to_fp": _words("rounding rtne rtz"),
    "tt.clampf": _words("propagateNan none all"),
    "tt.atomic_rmw": _ATOMIC | _words("and or xor add fadd max min umax umin exch"),
    "tt.atomic_cas": _ATOMIC,
    "tt.atomic_load": _ATOMIC,
    "tt.atomic_store": _ATOMIC,
    "tt.atomic_poll": _ATOMIC,
    "tt.extern_elementwise": _CALLED,
    "tt.print": _words("hex isSigned array true false"),
    "tt.call": _words("noinline true false"),
    "ttg.barrier": _words("all local"),
}
_CONVERSIONS = _words(
    """arith.extf arith.extsi arith.extui arith.truncf arith.trunci arith.sitofp arith.uitofp
    arith.fptosi arith.fptoui arith.bitcast arith.index_cast"""
)
_SPEAKING = _words("tt.print tt.assert tt.extern_elementwise")
"""Ops whose strings are words for people, or checked by the parser."""

_ELEMENT = "|".join(sorted((name for name in BITS if name != "ptr"), key=len, reverse=True))
_TYPE = re.compile(
    rf"tensor<(?:\d+x)*(?:!tt\.ptr<(?:{_ELEMENT})>|(?:{_ELEMENT}))>"
    rf"|!tt\.ptr<(?:{_ELEMENT})>|(?<![\w.])(?:{_ELEMENT}|index)(?![\w.])"
)
_TOKEN = re.compile(
    r"""@?"(?:[^"\\]|\\.)*"|%|@[\w.$-]+|\^[\w.]+|[#!]?[A-Za-z_][\w.]*|-?0x[0-9A-Fa-f]+"""
    r"""|[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|->|[][(){}<>,:=/*]|\S"""
)
_VALUE = re.compile(r"%[\w.$-]+(?:[#:]\d+)?")
_START = re.compile(r'^(?:(?:%, )*% = )?(?:"([\w.]+)"|([\w.]+))?(.*)$', re.S)
_PUNCTUATION = frozenset(["->", *"%[](){}<>,:=/*"])


def offence(text: str) -> str:
    """The first thing in a TTIR text that is on no list, in a sentence; "" if there is none."""
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith(("#loc", "//")):
            continue
        found = _of_line(_VALUE.sub("%", strip_loc(line)[0] if " loc(" in line else line))
        if found:
            return found
    return ""


def option_offence(options: Mapping[str, object]) -> str:
    """The first launch option that is on no list, in a sentence; "" if there is none."""
    for name, value in options.items():
        if name not in LAUNCH_OPTIONS:
            return f"launch option {name!r} is not known; options are {_list(LAUNCH_OPTIONS)}"
        if type(value) is not int or not 1 <= value <= OPTION_MAX:
            return f"launch option {name}={value!r} is no number from 1 to {OPTION_MAX}"
    return ""


@lru_cache(maxsize=8192)
def _of_line(line: str) -> str:
    """The offence of a line whose values have lost their names."""
    if line.startswith("^"):
        name, rest = "", line.split("  //")[0]
    else:
        found = _START.match(line)
        assert found is not None
        name, rest = found.group(1) or found.group(2) or line[0], found.group(3)
        if name not in KNOWN_OPS and name not in ATTRIBUTES:
            return f"op {name} is not on the list of what the IR may say"
    known = ATTRIBUTES.get(name, frozenset()) | HINTS
    if name in _CONVERSIONS:
        known |= {"to"}
    for token in _TOKEN.findall(_TYPE.sub(" ", rest)):
        if not _is_known(token, known, name):
            what = "type" if token.startswith("!") else "attribute"
            where = f" of {name}" if len(name) > 1 else ""
            return f"{what} {token}{where} is not on the list of what the IR may say"
    return ""


def _is_known(token: str, known: frozenset[str], name: str) -> bool:
    if token in _PUNCTUATION or token in known or token[0] in "@^" or token[0].isdigit():
        return True
    if token[0] == '"':
        return name in _SPEAKING or (name == "arith.constant" and token.startswith('"0x'))
    return token[0] in "+-" and len(token) > 1


def _list(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))
