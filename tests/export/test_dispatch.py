"""The exported package in a process of its own: the winner where certified, else the seed."""

import importlib.util
import json
import marshal
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
COPIED = (
    "transposed", "every other column", "one row for all", "negated", "other columns, transposed"
)

def bits(found):
    found = found if isinstance(found, tuple) else (found,)
    return [(str(t.dtype), list(t.shape), t.contiguous().view(torch.uint8).tolist()) for t in found]

def both(name, entry, *args):
    rms_norm.reset_counters()
    got = getattr(rms_norm, entry)(*args)
    # The seed reads rows, and would read something else of other layouts without a word.
    if name in COPIED:
        args = [a.resolve_neg().contiguous() if torch.is_tensor(a) else a for a in args]
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
both("every other column", "forward_infer", wide[:, ::2], wide[0, ::2], 1e-6, None)
both("one row for all", "forward_infer", x[:1].expand(33, 128), w, 1e-6, None)
both("negated", "forward_infer", torch._neg_view(x), w, 1e-6, None)
both("other columns, transposed", "forward_infer", rows(100, 7).t(), w[:100], 1e-6, None)
both("no such form", "forward_infer", x, w, 1e-6, r)
both("eps is an int", "forward_infer", x, w, 1, None)
both("rows of an odd width", "forward_infer", rows(33, 131)[:, :128], w, 1e-6, None)
both("a stride of 1", "forward_infer", x.as_strided((1, 128), (1, 1)), w, 1e-6, None)

from torch._subclasses.fake_tensor import FakeTensorMode
fake = FakeTensorMode()
def in_fake_mode():
    with fake:
        rms_norm.forward_infer(x, w, 1e-6, None)

refused = {}
rms_norm.reset_counters()
for name, call in {
    "a short weight": lambda: rms_norm.forward_infer(x, w[:100], 1e-6, None),
    "a short weight of another dtype":
        lambda: rms_norm.forward_infer(x.half(), w[:100].half(), 1e-6, None),
    "three dimensions": lambda: rms_norm.forward_infer(x.view(3, 11, 128), w, 1e-6, None),
    "a fake tensor": lambda: rms_norm.forward_infer(fake.from_tensor(x), w, 1e-6, None),
    "in fake mode": in_fake_mode,
    "on meta": lambda: rms_norm.forward_infer(x.to("meta"), w.to("meta"), 1e-6, None),
}.items():
    try:
        call()
    except Exception as error:
        refused[name] = [type(error).__name__, str(error)]
after = rms_norm.counters()

def compiled(x, w):
    return rms_norm.forward_infer(x + x, w, 1e-6, None)[0] + 1

plain = compiled(x, w)
rms_norm.reset_counters()
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    as_graphs = torch.compile(compiled, backend="eager")
    same = all(bits(as_graphs(x, w)) == bits(plain) for _ in range(2))
    torch.compiler.reset()
    try:
        torch.compile(compiled, backend="eager", fullgraph=True)(x, w)
    except Exception as error:
        full = [type(error).__name__, "an exported kernel is launched as it was cert" in str(error)]
in_graphs = {"same": same, "counts": rms_norm.counters(), "full": full}

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
twice = x.detach().clone().requires_grad_()
(g,) = torch.autograd.grad(
    rms_norm.differentiable(twice, w, 1e-6, None)[0].sum(), twice, create_graph=True
)
try:
    (g.norm() + twice.sum()).backward()
except RuntimeError as error:
    twice = str(error)
gradients = {
    "twice": twice, "whole": whole,
    "y alone": bits(x.grad) == bits(alone), "rstd": rstd.requires_grad,
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
for name in ("kernel", "launch", "nothing"):
    op = importlib.import_module(f"edited_{name}.rms_norm")
    op.forward_infer(torch.ones(2, 128), torch.ones(128), 1e-6, None)
    edited[name] = op.counters()
for name in ("seed", "lang"):
    try:
        importlib.import_module(f"edited_{name}.rms_norm")
    except ImportError as error:
        edited[name] = str(error)
json.dump({
    "calls": shown, "gradients": gradients, "edited": edited, "guided": guided,
    "refused": refused, "after refusals": after, "compiled": in_graphs,
}, sys.stdout)
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


def shadowed(library: Path, to: Path, epoch: str) -> None:
    """A copy in which Python's import would take something else for each file of the epoch."""
    shutil.copytree(library, to)
    place = to / "rms_norm" / epoch
    (place / "__pycache__").mkdir(exist_ok=True)
    for name in ("kernel", "seed", "lang", "launch"):
        (place / name).mkdir()
        (place / name / "__init__.py").write_text("raise SystemExit('shadowed')")
        code = marshal.dumps(compile("raise SystemExit('byte code')", name, "exec"))
        head = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)  # never checked
        tag = sys.implementation.cache_tag
        (place / "__pycache__" / f"{name}.{tag}.pyc").write_bytes(head + code)


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
    shadowed(folder / "our_kernels", folder / "edited_nothing", epoch)
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
        ("no such form", "the arguments are of no certified call form"),
        ("eps is an int", "the arguments are of no certified call form"),
    ],
)
def test_what_was_not_certified_runs_the_seed_and_says_why(
    calls: dict[str, Any], name: str, reason: str
) -> None:
    seed = {"winner": 0, "seed": 1, "copied": 0, "reasons": {reason: 1}}
    assert calls[name] == {"same": True, **seed}


@pytest.mark.parametrize("name", ["transposed", "every other column", "one row for all", "negated"])
def test_what_does_not_lie_in_rows_is_laid_out_first(calls: dict[str, Any], name: str) -> None:
    winner = {"winner": 1, "seed": 0, "copied": 1, "reasons": {}}
    assert calls[name] == {"same": True, **winner}


def test_the_seed_gets_rows_too(calls: dict[str, Any]) -> None:
    shown = calls["other columns, transposed"]
    assert (shown["same"], shown["seed"], shown["copied"]) == (True, 1, 1)


def test_sizes_that_contradict_each_other_are_refused(shown: dict[str, Any]) -> None:
    call = "rms_norm.forward_infer: "
    assert shown["refused"] == {
        "a short weight": [
            "ValueError",
            call + "weight is of sizes [100], it takes [N], where M 33, N 128",
        ],
        "a short weight of another dtype": [
            "ValueError",
            call + "weight is of sizes [100], it takes [N], where M 33, N 128",
        ],
        "three dimensions": ["ValueError", call + "x is of sizes [3, 11, 128], it takes [M, N]"],
        "a fake tensor": ["TypeError", call + "x is a FakeTensor: give its plain tensor"],
        "in fake mode": ["TypeError", call + "no fake tensors: it launches kernels"],
        "on meta": ["TypeError", call + "x is on meta and has no memory: it launches kernels"],
    }
    assert shown["after refusals"] == {"winner": 0, "seed": 0, "copied": 0, "reasons": {}}


def test_compiled_callers_run_the_winner_outside_of_their_graph(shown: dict[str, Any]) -> None:
    assert shown["compiled"] == {
        "same": True,
        "counts": {"winner": 2, "seed": 0, "copied": 0, "reasons": {}},
        "full": ["Unsupported", True],
    }


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
        "twice": "rms_norm: gradients of gradients are not wired",
        "counts": {"winner": 9, "seed": 0, "copied": 0, "reasons": {}},
        "refusal": "rms_norm: gradients of these arguments are not wired",
    }


def test_the_guides_example_runs(shown: dict[str, Any]) -> None:
    assert shown["guided"] == ["{'winner': 1, 'seed': 0, 'copied': 0, 'reasons': {}}", True]


@pytest.mark.parametrize("name", ["kernel", "launch"])
def test_an_edited_winner_is_never_run(shown: dict[str, Any], name: str) -> None:
    reason = f"{name}.py is not the file that was certified"
    assert shown["edited"][name] == {
        "winner": 0,
        "seed": 1,
        "copied": 0,
        "reasons": {reason: 1},
    }


def test_what_would_shadow_a_certified_file_is_never_run(shown: dict[str, Any]) -> None:
    assert shown["edited"]["nothing"] == {"winner": 1, "seed": 0, "copied": 0, "reasons": {}}


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
