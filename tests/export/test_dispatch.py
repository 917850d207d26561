"""The exported package in a process of its own: the winner where certified, else the seed."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelsmith.library import layout
from tests.export.conftest import Shipped
from tests.export.lineages import ROOT

CALLS = """
import importlib, json, sys
import torch
from our_kernels import rms_norm
from kernelsmith.devices import cpu
import seed

torch.manual_seed(0)
shown = {}

def bits(found):
    found = found if isinstance(found, tuple) else (found,)
    return [(str(t.dtype), list(t.shape), t.contiguous().view(torch.uint8).tolist()) for t in found]

def both(name, entry, *args):
    rms_norm.reset_counters()
    got = getattr(rms_norm, entry)(*args)
    with cpu.activated():
        want = getattr(seed, entry)(*args)
    shown[name] = {"same": bits(got) == bits(want), **rms_norm.counters()}

def rows(m, n, dtype=torch.bfloat16):
    return torch.randn(m, n).to(dtype)

x, w, r = rows(33, 128), torch.randn(128).bfloat16(), rows(33, 128)
both("infer", "forward_infer", x, w, 1e-6, None)
both("another eps", "forward_infer", x, w, 0.5, None)
both("one row", "forward_infer", x[:1], w, 1e-6, None)
both("no rows", "forward_infer", x[:0], w, 1e-6, None)
both("fp32", "forward_train", x.float(), w.float(), 1e-6, None)
both("residual", "forward_train", x, w, 1e-6, r)
wide = rows(33, 256)
both("rows apart", "forward_infer", wide[:, 128:], w, 1e-6, None)
odd = torch.randn(33 * 128 + 1).bfloat16()[1:].view(33, 128)
both("misaligned", "forward_infer", odd, w, 1e-6, None)
dy = rows(33, 128)
_, rstd = rms_norm.forward_train(x, w, 1e-6, None)
both("backward", "backward", dy, x, w, rstd, None, None)

both("too many rows", "forward_infer", rows(41, 128), w, 1e-6, None)
both("other columns", "forward_infer", rows(7, 100), w[:100], 1e-6, None)
both("fp16", "forward_infer", x.half(), w.half(), 1e-6, None)
both("mixed dtypes", "forward_infer", x, w.float(), 1e-6, None)
both("transposed", "forward_infer", rows(128, 33).t(), w, 1e-6, None)
both("no such form", "forward_infer", x, w, 1e-6, r)
both("eps is an int", "forward_infer", x, w, 1, None)
both("rows of an odd width", "forward_infer", rows(33, 131)[:, :128], w, 1e-6, None)
both("a stride of 1", "forward_infer", x.as_strided((1, 128), (1, 1)), w, 1e-6, None)

rms_norm.reset_counters()
x, r, w = (t.requires_grad_() for t in (x, r, w))
y, rstd, h = rms_norm.differentiable(x, w, 1e-6, r)
dy, dh = torch.randn_like(y), torch.randn_like(h)
torch.autograd.backward([y, h], [dy, dh])
dx, dw = rms_norm.backward(dy, h.detach(), w.detach(), rstd, dh, None)
whole = bits(x.grad) == bits(dx), bits(r.grad) == bits(dx), bits(w.grad) == bits(dw.bfloat16())
x.grad = None
y, rstd, h = rms_norm.differentiable(x, w, 1e-6, r)
y.backward(dy)
alone, _ = rms_norm.backward(dy, h.detach(), w.detach(), rstd, None, None)
plain, _ = rms_norm.Function.apply(x, w, 1e-6, None)
try:
    rms_norm.differentiable(x, None, 1e-6, None)
except TypeError as error:
    refusal = str(error)
gradients = {
    "whole": whole, "y alone": bits(x.grad) == bits(alone), "rstd": rstd.requires_grad,
    "plain": plain.requires_grad, "counts": rms_norm.counters(), "refusal": refusal,
}

guide = {}
from contextlib import redirect_stdout
import io, os
said = io.StringIO()
rms_norm.reset_counters()
with redirect_stdout(said), open(os.path.join(sys.path[0], "guide.py")) as page:
    exec(page.read(), guide)
guided = [said.getvalue().strip(), guide["x"].grad is not None]

edited = {}
for name in ("kernel", "launch"):
    op = importlib.import_module(f"edited_{name}.rms_norm")
    op.forward_infer(torch.ones(2, 128), torch.ones(128), 1e-6, None)
    edited[name] = op.counters()
for name in ("seed", "lang"):
    try:
        importlib.import_module(f"edited_{name}.rms_norm")
    except ImportError as error:
        edited[name] = str(error)
json.dump({"calls": shown, "gradients": gradients, "edited": edited, "guided": guided}, sys.stdout)
"""
ALONE = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "kernelsmith":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Without())
import torch
import our_kernels
from our_kernels import rms_norm
assert "rms_norm" in dir(our_kernels)
try:
    rms_norm.forward_infer(torch.ones(2, 128), torch.ones(128), 1e-6, None)
except RuntimeError as error:
    print(error)
"""


def run(folder: Path, script: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """A script beside the library, which is importable there."""
    (folder / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(folder / "script.py")],
        capture_output=True,
        text=True,
        check=False,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TRITON_CACHE_DIR": str(folder / "cache"),
            **environment,
        },
    )
    assert done.returncode == 0, done.stderr
    return done


def copied(shipped: Shipped, to: Path) -> Path:
    """The library, and its seed as it stands in the repository, in a folder of their own."""
    shutil.copytree(shipped.folder, to / "our_kernels", ignore=shutil.ignore_patterns("__pyc*"))
    (to / "seed.py").write_text(shipped.lineage.task.seed_source)
    return to


EDITS = {
    "kernel": ("1.0, tl", "1.5, tl"),
    "launch": ("'divisible': [", "'divisible': ['x', "),
    "seed": ("1.0, tl", "1.5, tl"),
    "lang": ("left + right", "right + left"),
}


@pytest.fixture(scope="module")
def shown(shipped: Shipped, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One process: a process that imports torch and triton costs seconds."""
    folder = copied(shipped, tmp_path_factory.mktemp("calls"))
    epoch = layout.read(shipped.folder).ops["rms_norm"].current
    for name, (old, new) in EDITS.items():
        shutil.copytree(folder / "our_kernels", folder / f"edited_{name}")
        path = folder / f"edited_{name}" / "rms_norm" / epoch / f"{name}.py"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
    page = (ROOT / "docs" / "guides" / "library.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (folder / "guide.py").write_text(block)
    found = run(folder, CALLS)
    return dict(json.loads(found.stdout))


@pytest.fixture
def calls(shown: dict[str, Any]) -> dict[str, Any]:
    return dict(shown["calls"])


def test_every_call_has_the_seeds_bits(calls: dict[str, Any]) -> None:
    assert [name for name, shown in calls.items() if not shown["same"]] == []


@pytest.mark.parametrize(
    "name",
    [
        "infer",
        "another eps",
        "one row",
        "no rows",
        "fp32",
        "residual",
        "rows apart",
        "misaligned",
        "rows of an odd width",
        "backward",
    ],
)
def test_what_was_certified_runs_the_winner(calls: dict[str, Any], name: str) -> None:
    assert (calls[name]["winner"], calls[name]["seed"]) == (1, 0), calls[name]["reasons"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("too many rows", "M outside 0..40 in infer"),
        ("other columns", "sizes of N in infer"),
        ("fp16", "dtype float16 of x in infer"),
        ("mixed dtypes", "dtype float32 of weight in infer"),
        ("transposed", "strides of x in infer: rows of contiguous elements"),
        ("no such form", "the arguments are of no certified call form"),
        ("eps is an int", "the arguments are of no certified call form"),
    ],
)
def test_what_was_not_certified_runs_the_seed_and_says_why(
    calls: dict[str, Any], name: str, reason: str
) -> None:
    assert calls[name] == {"same": True, "winner": 0, "seed": 1, "reasons": {reason: 1}}


def test_a_specialisation_that_nobody_judged_runs_the_seed(calls: dict[str, Any]) -> None:
    shown = calls["a stride of 1"]
    assert (shown["winner"], shown["seed"]) == (0, 1)
    (reason,) = shown["reasons"]
    assert reason.startswith("launch of _forward_tile is not certified: x_ptr:*bf16")
    assert "x_stride=int:1" in reason


def test_gradients_are_backwards_own_bytes(shown: dict[str, Any]) -> None:
    assert shown["gradients"] == {
        "whole": [True, True, True],
        "y alone": True,
        "rstd": False,
        "plain": True,
        "counts": {"winner": 7, "seed": 0, "reasons": {}},
        "refusal": "rms_norm: gradients of these arguments are not wired",
    }


def test_the_guides_example_runs(shown: dict[str, Any]) -> None:
    assert shown["guided"] == ["{'winner': 1, 'seed': 0, 'reasons': {}}", True]


@pytest.mark.parametrize("name", ["kernel", "launch"])
def test_an_edited_winner_is_never_run(shown: dict[str, Any], name: str) -> None:
    reason = f"{name}.py is not the file that was certified"
    assert shown["edited"][name] == {"winner": 0, "seed": 1, "reasons": {reason: 1}}


@pytest.mark.parametrize("name", ["seed", "lang"])
def test_without_its_seed_an_op_does_not_load(shown: dict[str, Any], name: str) -> None:
    assert f"{name}.py of" in shown["edited"][name]
    assert "nothing to fall back to" in shown["edited"][name]


def test_without_kernelsmith_the_package_imports_and_says_what_is_missing(
    shipped: Shipped, tmp_path: Path
) -> None:
    done = run(copied(shipped, tmp_path), ALONE, TRITON_BACKENDS_IN_TREE="1")
    assert done.stdout.startswith(
        "rms_norm: these tensors are on the CPU, and Triton runs there by"
    )
    assert "`pip install kernelsmith-rl`" in done.stdout
