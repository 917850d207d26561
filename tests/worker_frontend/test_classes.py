"""What makes a plan class, and that its text is what Triton would emit for it."""

import re

import pytest

from kernelsmith.worker import frontend
from kernelsmith.worker.frontend_module import load, make_argument
from kernelsmith.worker.trace_classes import constant_key, text_hash
from kernelsmith.worker.trace_emit import Emitter, variants
from kernelsmith.worker.trace_launch import Recorder, recording
from kernelsmith.worker.trace_mode import AllocationAndViews
from kernelsmith.worker.trace_tape import Tape, add_input

from .programs import HEADER, call, tensor, trace

SIZED = (
    HEADER
    + """
def forward(x, n, block):
    y = x.new_empty(x.shape)
    copy[(2,)](x, y, n, BLOCK=block)
    return y
"""
)


def classes_of(tmp_path, source=SIZED, **args):
    args = {"x": tensor(64), "n": 40, "block": 16} | args
    result = trace(source, call(**args), tmp_path=tmp_path, emit=False)
    assert result.failure is None
    (launch,) = result.plans["call"].launches
    return launch.plan_class, launch.plan_class_unaligned


@pytest.mark.parametrize("n", [1, 32, 1 << 33])
def test_one_divisible_and_wide_integers_make_classes_of_their_own(n, tmp_path):
    assert not set(classes_of(tmp_path, n=n)) & set(classes_of(tmp_path, n=40 if n != 40 else 41))


def test_integers_that_specialise_alike_share_a_class(tmp_path):
    assert classes_of(tmp_path, n=41) == classes_of(tmp_path, n=43)


def test_dtype_constants_options_and_text_make_classes_of_their_own(tmp_path):
    variants = [
        classes_of(tmp_path),
        classes_of(tmp_path, x=tensor(64, dtype="bfloat16")),
        classes_of(tmp_path, block=32),
        classes_of(tmp_path, source=SIZED.replace("BLOCK=block", "BLOCK=block, num_warps=8")),
        classes_of(tmp_path, source=SIZED.replace("other=0.0", "other=1.0")),
    ]
    assert len({name for pair in variants for name in pair}) == 10


def test_a_class_keeps_its_id_when_other_code_moves(tmp_path):
    moved = SIZED.replace("import torch\n", "import torch\n\n# a comment\nUNUSED = 3\n")
    assert classes_of(tmp_path, source=moved) == classes_of(tmp_path)


MEANING = """
import triton
import triton.language as tl
from kernelsmith import lang
from triton.runtime.jit import constexpr_function
SCALE = tl.constexpr(2.0)
SHIFT: tl.constexpr = 3
ACC = tl.float32
total = tl.sum
WIDTH = 16
TILE = (16, tl.constexpr(8))

@constexpr_function
def twice(n):
    return 2 * n

@triton.jit
def held(x, axis: tl.constexpr):
    return tl.max(x, axis)

function = tl.constexpr(held)

@triton.jit
def inner(x, step: tl.constexpr = WIDTH):
    return x.to(ACC) * SCALE + step

def make(k):
    extra = tl.constexpr(k)

    @triton.jit
    def outer(x_ptr, BLOCK: tl.constexpr):
        x = tl.load(x_ptr + tl.arange(0, BLOCK))
        tl.store(x_ptr, total(inner(lang.tree_sum(x) + SHIFT + twice(extra) + TILE[1]), 0))
        tl.store(x_ptr, function(x, 0))

    return outer

outer = make(5)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x.to(ACC) * SCALE", "SCALE * x.to(ACC)"),
        ("SCALE = tl.constexpr(2.0)", "SCALE = tl.constexpr(3.0)"),
        ("SHIFT: tl.constexpr = 3", "SHIFT: tl.constexpr = 4"),
        ("ACC = tl.float32", "ACC = tl.float16"),
        ("total = tl.sum", "total = tl.max"),
        ("WIDTH = 16", "WIDTH = 32"),
        ("make(5)", "make(6)"),
        ("tl.constexpr(8)", "tl.constexpr(4)"),
        ("return tl.max(x, axis)", "return tl.min(x, axis)"),
        ("return 2 * n", "return 3 * n"),
        ("@triton.jit\ndef inner", "@triton.jit(noinline=True)\ndef inner"),
        ("from kernelsmith import lang", "import triton.language as lang"),
    ],
)
def test_whatever_a_name_in_a_body_stands_for_is_part_of_the_class(old, new):
    kept = text_hash(load(MEANING).outer)
    assert text_hash(load(MEANING).outer) == kept
    assert text_hash(load("\n# moved\n" + MEANING).outer) == kept
    assert old in MEANING
    assert text_hash(load(MEANING.replace(old, new)).outer) != kept


def test_a_name_that_changes_between_calls_is_a_fault(tmp_path):
    source = (
        "import triton\nimport triton.language as tl\nSCALE = tl.constexpr(1.0)\n\n"
        "@triton.jit\ndef scale(y_ptr):\n    tl.store(y_ptr, SCALE)\n\n"
        "def forward(x):\n    global SCALE\n    y = x.new_empty((1,))\n    scale[(1,)](y)\n"
        "    SCALE = tl.constexpr(SCALE.value + 1)\n    return y\n"
    )
    result = trace(source, call(x=tensor(4)), tmp_path=tmp_path, emit=False)
    assert result.failure is not None
    assert "kernel scale uses changed between calls" in result.failure.message


def test_constants_that_compare_equal_but_differ_are_told_apart():
    keys = [constant_key(value) for value in (1, True, 1.0, 0.0, -0.0, 0, False, None, "1")]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("source_name", ["rms_norm", "linear"])
def test_both_variants_are_what_separate_emissions_give(source_name, repository, tmp_path):
    """The text is emitted once and attributes are left out of it; Triton must agree."""
    source = (repository / "seed_kernels" / f"{source_name}.py").read_text()
    module = load(source)
    backend, emit = frontend.device_front_end("cpu")
    seen = []

    def spy(*arguments):
        seen.append(arguments)
        return emit(*arguments)

    recorder = Recorder(mode=AllocationAndViews("meta"), backend=backend, device="cpu")
    frontend_result = trace_with(recorder, module, source_name)
    assert frontend_result
    emitter = Emitter(emit=spy)
    for spec in list(recorder.met.values())[:4]:
        made = emitter.classes(spec, frozenset())
        for name, divisible in variants(spec):
            attributes = {(index,): [["tt.divisibility", 16]] for index in divisible}
            separate = emit(
                spec.kernel, spec.signature, dict(spec.constants), attributes, spec.options
            )
            assert made[name].ttir == separate
            assert len(re.findall(r"tt\.divisibility", separate.split("{\n")[1])) == len(divisible)
    assert len(seen) <= 4


def trace_with(recorder, module, source_name):
    """Traces the seed's forward at a few row counts with this recorder."""
    done = 0
    with recording(recorder):
        for rows in (1, 7, 16):
            args = {"x": tensor(rows, 96, dtype="bfloat16")}
            if source_name == "rms_norm":
                args |= {"weight": tensor(96, dtype="bfloat16"), "eps": 1e-6, "residual": None}
            else:
                args |= {"weight": tensor(64, 96, dtype="bfloat16"), "bias": None}
            tape = Tape()
            values = {name: make_argument(value, "meta") for name, value in args.items()}
            for name, value in values.items():
                if hasattr(value, "untyped_storage"):
                    add_input(tape, name, value)
            recorder.mode.tape = tape
            with recorder.mode:
                module.forward_infer(**values)
            recorder.mode.tape = None
            done += len(tape.launches)
    return done


def test_known_classes_come_without_text_and_others_with(tmp_path):
    first = trace(SIZED, call(x=tensor(64), n=40, block=16), tmp_path=tmp_path)
    known = tuple(first.classes)
    assert all("tt.func public @copy" in one.ttir for one in first.classes.values())
    calls = (call(x=tensor(64), n=40, block=16), call(key="b", x=tensor(64), n=1, block=16))
    second = trace(SIZED, *calls, tmp_path=tmp_path, known=known)
    assert {name for name, one in second.classes.items() if not one.ttir} == set(known)
    assert len(second.classes) == 4


def test_locations_name_lines_of_the_candidate(tmp_path):
    result = trace(SIZED, call(x=tensor(64), n=40, block=16), tmp_path=tmp_path)
    text = next(iter(result.classes.values())).ttir
    assert 'loc("candidate.py":8:' in text
