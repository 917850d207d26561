"""Prompts: versioned files, put together by device and release, hashed, and short."""

import ast
import re
from importlib import resources
from pathlib import Path

import pytest

from kernelsmith import catalog
from kernelsmith.gate import policy
from kernelsmith.model import AgentSettings, language, new_candidate, seed_candidate
from kernelsmith.proposers.agent import prompts
from kernelsmith.proposers.agent.desk import View
from tests.agent.fake_desk import FakeDesk, other, past, rms_norm
from tests.loop.fakes import make_task

FACTS = {"cpu": "AMD EPYC", "level": "x86-64-v4", "key": "9b7f03e3fdce6b0a"}
SETTINGS = AgentSettings(model="m", turns_max=17, stale_submissions=5)
TOKENS_MAX = 3_500
CHARS_A_TOKEN = 3.2
"""Of technical English with names, counted low so that the bound holds for other tokenisers."""


def system(device: str = "cpu") -> str:
    return prompts.system(catalog.load_task("rms_norm", device), FACTS, SETTINGS)[0]


def test_the_system_prompt_is_short_whole_and_the_same_each_time() -> None:
    text = system()
    assert len(text) / CHARS_A_TOKEN <= TOKENS_MAX
    assert "{{" not in text
    assert "17 turns" in text
    assert "5 submissions" in text
    assert text == system()
    assert text == prompts.system(catalog.load_task("linear", "cpu"), FACTS, SETTINGS)[0]


def test_it_speaks_of_the_device_at_hand_and_of_no_place_on_it() -> None:
    cpu, cuda = system("cpu"), system("cuda")
    assert "Bits on this device (cpu)" in cpu
    assert "wgmma" not in cpu
    assert "wgmma" in cuda
    assert "one core" not in cuda
    assert "AMD EPYC" in cpu
    assert FACTS["key"] not in cpu


@pytest.mark.parametrize(
    ("release", "says"),
    [
        ("3.6.0", "folds a thread's elements left to right, then lanes"),
        ("3.7.1", "folds a thread's elements left to right, then lanes"),
        ("3.8.0", "as a balanced tree"),
        ("3.9.0", "as a balanced tree"),
        ("3.10.0", "as a balanced tree"),
    ],
)
def test_the_order_of_tl_sum_is_that_of_the_running_triton(
    monkeypatch: pytest.MonkeyPatch, release: str, says: str
) -> None:
    monkeypatch.setattr(prompts.metadata, "version", lambda name: release)
    text = system("cuda")
    assert f"Triton {release}: on CUDA tl.sum" in text
    assert says in text


def test_every_name_of_the_language_is_told_and_no_other() -> None:
    text = system()
    calls = re.search(r"tl calls: ([^.]*)\.", text)
    assert calls is not None
    assert set(calls[1].split()) == language.TL_CALLS
    methods = re.search(r"Tensor methods: (.*?)\. Attributes", text, re.S)
    assert methods is not None
    assert {name.strip(".") for name in methods[1].split()} == language.TENSOR_METHODS
    assert "from kernelsmith.lang import tree_sum" in text
    for name in (*language.LAUNCH_OPTIONS, *language.HOST_CALLS, *language.HOST_METHODS):
        assert name in text


def test_what_the_prompt_says_of_the_language_holds() -> None:
    """Statements of language.md against the policy itself."""
    head = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
    body = "@triton.jit\ndef _k(x_ptr, BLOCK: tl.constexpr):\n    {}\n\n\ndef f(x):\n    {}\n"
    plain = "tl.store(x_ptr, 1.0)"

    def refused(jit: str = plain, host: str = "return x.new_empty((1,))") -> bool:
        return bool(policy.check(head + body.format(jit, host), ("f",)))

    assert not refused()
    assert not refused(host="_k[lambda meta: (4,)](x, BLOCK=4, num_warps=4)")
    assert not refused(host="assert x.shape[0] > 0, 'text'")
    assert refused(host="return x.to(torch.float32)")
    assert refused(host="return x.contiguous()")
    assert refused(host="x = x + 1\n    while x:\n        pass")
    assert refused(jit="assert BLOCK > 1")
    assert refused(jit="for i in range(4):\n        break")
    assert not refused(jit="tl.atomic_add(x_ptr, 1)")
    assert refused(jit="tl.math.exp(1.0)")


def test_the_hash_is_of_all_files_and_the_way_they_are_put_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = Path(str(resources.files("kernelsmith.proposers.agent.prompts")))
    assert set(prompts.file_names()) == {path.name for path in folder.glob("*.md")}
    assert len(prompts.file_names()) >= 10
    before = prompts.system(rms_norm(), FACTS, SETTINGS)[1]
    assert re.fullmatch(r"[0-9a-f]{64}", before)
    assert before == prompts.system(catalog.load_task("linear", "cuda"), {}, SETTINGS)[1]
    prompts.files_hash.cache_clear()
    try:
        monkeypatch.setattr(prompts, "VERSION", prompts.VERSION + 1)
        assert prompts.files_hash() != before
        monkeypatch.undo()
        prompts.files_hash.cache_clear()
        monkeypatch.setattr(prompts, "_text", lambda name: name)
        assert prompts.files_hash() != before
    finally:
        monkeypatch.undo()
        prompts.files_hash.cache_clear()
    assert prompts.files_hash() == before


def test_the_opening_begins_with_its_line_and_holds_task_limits_lineage_and_source() -> None:
    desk = FakeDesk(rms_norm())
    text = prompts.opening(desk.task, desk.seed, desk.view("rms_norm"), 3)
    assert text.splitlines()[0] == f"Task: rms_norm. Session: 3. Parent: {desk.seed.id}."
    assert "residual_infer.bf16.M16-N1024.normal | infer | 0.2" in text
    assert "| bytes | not yet" in text
    assert "Nothing was tried yet" in text
    assert "(the seed)" in text
    assert desk.task.seed_source.rstrip() in text


def test_the_opening_shows_a_parent_as_code_with_its_gain() -> None:
    desk = FakeDesk(rms_norm())
    parent = other(desk.task, "y = (h * rstd) * weight", "y = weight * (h * rstd)  # mine")
    desk.history.append(past(parent, "ACCEPTED", gain=1.25))
    text = prompts.opening(desk.task, parent, desk.view("rms_norm"), 0)
    assert f"{parent.id} (gain 1.250 against the seed)" in text
    assert "# mine" not in text
    assert "y = weight * (h * rstd)\n" in text


def test_what_is_filled_in_is_not_read_as_a_place_to_fill() -> None:
    task = make_task("toy", 'def forward_train(x):\n    return "{{source}} {{nowhere}}"\n')
    seed = seed_candidate(task)
    view = View(task=task, seed=seed, incumbent=seed, history=())
    text = prompts.opening(task, seed, view, 0)
    assert '"{{source}} {{nowhere}}"' in text


def test_a_parent_that_is_too_long_or_does_not_parse_is_left_to_read_source() -> None:
    task = make_task("toy", "x = 1\n" * 8000)
    seed = seed_candidate(task)
    view = View(task=task, seed=seed, incumbent=seed, history=())
    assert "read_source shows it" in prompts.opening(task, seed, view, 0)
    broken = new_candidate("def f(:\n", "toy", author="agent")
    assert "is not shown: it does not parse" in prompts.opening(task, broken, view, 0)


def test_the_files_keep_to_the_width_and_name_every_tool() -> None:
    texts = {name: prompts._text(name) for name in prompts.file_names()}
    long = [name for name, text in texts.items() for line in text.split("\n") if len(line) > 110]
    assert long == []
    assert all(name in texts["role.md"] for name in ("check", "measure", "submit", "finish"))
    ast.parse(Path(prompts.__file__).read_text())
