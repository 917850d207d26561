"""Every name of ``triton.language`` is in the table, and what the table says of it is so."""

import importlib.util
import inspect
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
import triton
import triton.language as tl

from kernelsmith.devices.cpu.compile import compile_ttir
from kernelsmith.devices.cpu.compiler import CpuOptions
from kernelsmith.devices.cpu.emit import emit_ttir
from kernelsmith.devices.cpu.language import LanguageName, language
from kernelsmith.errors import CompileError

# tl.view and tl.cat(can_reorder=True) are on their way out of Triton.
pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated.*")
HERE = tuple(map(int, triton.__version__.split("+")[0].split(".")))
EXAMPLES = [
    row
    for row in language()
    if row.example and tuple(map(int, row.since.split("."))) <= HERE and hasattr(tl, row.name)
]
HEAD = """import triton
import triton.language as tl


@triton.jit
def first(u, v):
    if u > v:
        return u
    return v

"""
KERNEL = """
@triton.jit
def k{at}(p, q, out, n):
    i = tl.arange(0, 64)
    x = tl.load(p + i)
    y = tl.load(p + 64 + i)
    a = tl.load(p + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :])
    h = a.to(tl.bfloat16)
    m = i < n
    u = i.to(tl.uint32)
    {example}
    {store}
"""
STORE = "tl.store(out + tl.arange(0, r.numel), tl.reshape(r.to(tl.float32), (r.numel,)))"


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    text = HEAD
    for at, row in enumerate(EXAMPLES):
        store = STORE if "r = " in row.example else ""
        text += KERNEL.format(at=at, example=row.example.replace("; ", "\n    "), store=store)
    path = tmp_path_factory.mktemp("language") / "language_examples.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("language_examples", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["language_examples"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["language_examples"]


def test_the_table_has_every_public_name_in_order() -> None:
    names = [row.name for row in language()]
    assert names == sorted(names)
    public = {name for name in dir(tl) if not name.startswith("_")}
    # A module of Triton's own shows as a name as soon as anything has imported it.
    here = {name for name in public if not inspect.ismodule(getattr(tl, name)) or name in names}
    assert here <= set(names)
    missing = {row.name for row in language() if tuple(map(int, row.since.split("."))) <= HERE}
    assert missing - here <= {"advance", "make_block_ptr"}
    assert {row.becomes for row in language()} == {"lowered", "free", "refused"}


@pytest.mark.parametrize("row", EXAMPLES, ids=[row.name for row in EXAMPLES])
def test_what_the_table_says_of_a_name_is_so(row: LanguageName, kernels: ModuleType) -> None:
    fn = getattr(kernels, f"k{EXAMPLES.index(row)}")
    signature = {"p": "*fp32", "q": "*i32", "out": "*fp32", "n": "i32"}
    text = emit_ttir(fn, signature, {}, {}, CpuOptions())
    if row.becomes == "refused":
        with pytest.raises(CompileError, match=r"not lowered.*|refused") as caught:
            compile_ttir(text)
        assert caught.value.hint
        assert "language_examples.py:" in caught.value.line
    else:
        assert compile_ttir(text).code
