"""The gate's proof of itself on seeds as people write them."""

import ast
from pathlib import Path

import pytest

from kernelsmith import catalog, devices
from kernelsmith.authoring import draft, facts, questions, writing
from kernelsmith.gate import policy
from kernelsmith.gate.judge import Gate
from kernelsmith.gate.probes.cheats import cheats
from kernelsmith.gate.proof import prove
from kernelsmith.gate.subject import Limits
from kernelsmith.model import Task
from kernelsmith.sandbox.choose import choose

CLIP = '''"""Clips. No torch, one dimension, a bare tensor, and training calls what inference is."""

import triton
import triton.language as tl


@triton.jit
def _clip(x_ptr, y_ptr, n, low, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, tl.where(x < low, low, x).to(y_ptr.dtype.element_ty), mask=at < n)


def  clip_infer (
    x, low):
    n = x.shape[0]
    y = x.new_empty((n,)); _clip[(triton.cdiv(n, 64),)](x, y, n, low, BLOCK=64)
    return y


def clip_train(x, low):
    return clip_infer(x, low)
'''
HEAD, _, TAIL = CLIP.partition("    return y\n")
FORMS = {
    "bare": ("    return y\n", False),
    "tuple": ("    return (y,)\n", True),
    "list": ("    return [y]\n", True),
    "a local that is a tuple": ("    outs = (y,)\n    return outs\n", True),
    "one of two bare": ("    return y if n else x\n", False),
    "one of two tuples": ("    return (y,) if n else (x,)\n", True),
    "itself": ("    y = y if n else x\n    return y\n", False),
    "another function's": ("    return _both(y)\n\n\ndef _both(y):\n    return (y,)\n", True),
    "two": ("    return y, x.new_empty((n,))\n", True),
}  # fmt: skip


def task_of(source: str, folder: Path, name: str = "clip") -> Task:
    """The task that ``tasks new`` makes of a source, its smallest cases alone."""
    known = facts.read_seed(source, "clip.py")
    given = {"--arg x=": "T[M]", "--arg low=": "0.25", "--device ": "cpu", "--tokens ": "0:70"}
    asker = lambda question, trouble: question.proposal  # noqa: E731
    inquiry = questions.Inquiry(given=given, asker=asker)
    made = draft.make_draft(name, f"{name}.py", known, known.entries, inquiry)
    path = folder / f"{name}.py"
    writing.write(folder, made, writing.task_text(made, source), path, source)
    return catalog.load_task(name, "cpu", [folder])


def test_a_right_gate_proves_itself_on_an_awkward_seed(tmp_path: Path) -> None:
    task = task_of(CLIP, tmp_path)
    sandbox = choose("auto", trusted_origin=False)
    gate = Gate(task, devices.get("cpu"), sandbox, 5, Limits(sessions_max=1, octets=1))
    try:
        found = prove(gate)
    finally:
        gate.close()
        sandbox.close()
    assert found["cheats"] == {"tried": 10, "rejected": 10}
    assert (found["mutants"], found["survived"]) == ({"tried": 3, "rejected": 3}, [])
    told = {each["name"]: (each["check"], each["status"]) for each in found["rejections"]}
    assert told["inference differs from training"] == ("parity.infer", "BITS_DIFFER")
    assert told["two programs write one address"] == ("determinism", "NONDETERMINISTIC")


@pytest.mark.parametrize("form", FORMS)
def test_cheats_take_the_output_however_it_is_returned(form: str, tmp_path: Path) -> None:
    text, in_tuple = FORMS[form]
    source = HEAD + text + TAIL
    found = cheats(task_of(source, tmp_path))
    for cheat in found[3:]:
        assert policy.check(cheat.source, ("clip_infer", "clip_train")) == []
        assert ("probe_out = probe_outs[0]" in cheat.source) is in_tuple
        assert ("return (*probe_outs[:0], probe_out, *probe_outs[1:])" in cheat.source) is in_tuple
        assert ("return probe_out\n" in cheat.source) is not in_tuple


def test_each_return_is_cheated_on_as_it_is(tmp_path: Path) -> None:
    """Bare without the optional argument, a tuple with it."""
    mixed = HEAD + "    if n:\n        return y, x\n    return y\n" + TAIL
    cheat = cheats(task_of(mixed, tmp_path))[-2]
    assert policy.check(cheat.source, ("clip_infer", "clip_train")) == []
    assert cheat.source.count("probe_out = probe_outs[0]") == 1
    assert cheat.source.count("return probe_out\n") == 1


def test_only_the_entry_itself_is_cheated_on(tmp_path: Path) -> None:
    """Other functions of the seed go on calling the seed's own."""
    cheat = cheats(task_of(CLIP, tmp_path))[2]
    names = [node.name for node in ast.parse(cheat.source).body if hasattr(node, "name")]
    assert names.count("clip_infer") == 1
    assert "_seed_clip_infer" in names
    assert "return _seed_clip_infer(x, low)" in cheat.source


def test_an_entry_that_both_paths_share_may_be_found_on_either(tmp_path: Path) -> None:
    shared = CLIP.replace("clip_infer", "clip").partition("\n\ndef clip_train")[0] + "\n"

    def differs(task: Task) -> list[tuple[str, ...]]:
        return [each.checks for each in cheats(task) if each.name.startswith("inference differs")]

    # Nothing can differ from the other path, then.
    assert differs(task_of(shared, tmp_path)) == [("parity.train", "parity.infer")]
    assert differs(task_of(CLIP, tmp_path, "apart")) == [("parity.infer",), ("cross_path",)]


def test_an_output_of_integers_will_do(tmp_path: Path) -> None:
    whole = CLIP.replace("x.new_empty((n,))", "x.new_empty((n,), dtype=torch.int32)")
    whole = whole.replace("import triton\n", "import torch\nimport triton\n", 1)
    task = task_of(whole, tmp_path)
    assert task.calls[0].outputs[0].dtype == "int32"
    told = [cheat.checks for cheat in cheats(task)]
    assert len(told) == 8
    assert ("witness",) not in told  # nothing is a float
