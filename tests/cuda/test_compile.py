"""What a text compiles to for a GPU, read from PTX and binary. Nothing is run."""

import functools
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kernelsmith.devices.cuda import compile as compiler
from kernelsmith.devices.cuda import cubin, device, epoch, lint, occupancy, options, tools
from kernelsmith.devices.cuda.compile import CudaCode, compile_text
from kernelsmith.devices.cuda.emit import emit_ttir
from kernelsmith.errors import CompileError, InputError
from tests.cuda import kernels

ARCH = 90


@functools.cache
def emitted(name: str, kind: str = "fp32", block: int = 128, tree: bool = False) -> str:
    """TTIR of a kernel for sm_90: aligned pointers, four warps."""
    fn: Any = getattr(kernels, name)
    names = [parameter.name for parameter in fn.params]
    signature = {one: f"*{kind}" if one.endswith("_ptr") else "i32" for one in names}
    constants: dict[Any, Any] = {"BLOCK": block}
    if "TREE" in names:
        constants["TREE"] = tree
    signature |= dict.fromkeys(constants, "constexpr")
    values = {(names.index(one),): value for one, value in constants.items()}
    aligned = {(number,): [["tt.divisibility", 16]] for number in range(2)}
    return emit_ttir(fn, signature, values, aligned, {"num_warps": 4}, ARCH)


@functools.cache
def code_of(name: str, maxnreg: int = 0, **named: Any) -> CudaCode:
    return compile_text(emitted(name, **named), ARCH, {"maxnreg": maxnreg} if maxnreg else None)


@functools.cache
def counted(code: CudaCode) -> lint.Lint:
    return lint.lint(code.ptx, tools.sass(code.cubin))


def test_tree_sum_costs_143_adds_and_one_barrier_against_23_adds() -> None:
    tree, plain = (
        lint.lint(code_of("summed", kind="bf16", block=1024, tree=tree).ptx)
        for tree in (True, False)
    )
    assert (tree.adds, tree.barriers) == (143, 1)
    assert plain.adds == 23


def test_options_stand_in_the_text_and_decide_the_code() -> None:
    text = emitted("plain")
    assert text.startswith("// kernelsmith launch options: num_ctas=1 num_stages=3 num_warps=4\n")
    given, body = options.split_options(text)
    assert options.with_options(body, given) == text
    eight = options.with_options(body, given | {"num_warps": 8})
    assert compile_text(eight, ARCH).num_warps == 8
    assert options.split_options(body) == (options.DEFAULTS, body)


def test_a_block_that_no_multiprocessor_takes_is_refused_where_it_is_compiled() -> None:
    given, body = options.split_options(emitted("staged", kind="fp16", block=128))
    text = options.with_options(body, given | {"num_stages": 8})
    with pytest.raises(
        CompileError, match=r"does not fit on sm_90: .*bytes of shared memory"
    ) as info:
        device.CudaDevice(arch=ARCH).compile_ttir(text)
    assert "num_stages" in str(info.value.hint)


@pytest.mark.parametrize(
    "line", ["num_warps=3", "num_warps=64", "ir_override=1", "num_warps", "num_warps=4;", "x=1 y"]
)
def test_options_that_nobody_writes_are_refused(line: str) -> None:
    with pytest.raises(CompileError):
        options.split_options(f"{options.PREFIX} {line}\nmodule {{}}")


def test_an_object_is_named_by_text_options_and_architecture() -> None:
    text = emitted("plain")
    ids = {
        epoch.object_id(text, ARCH),
        epoch.object_id(text, 100),
        epoch.object_id(text.replace("num_warps=4", "num_warps=8"), ARCH),
        # On a GPU alignment decides the code, unlike on the CPU.
        epoch.object_id(text.replace(" {tt.divisibility = 16 : i32}", "", 1), ARCH),
    }
    assert len(ids) == 4
    moved = text.replace(":26:", ":726:").replace("%x", "%other")
    assert moved != text
    assert epoch.object_id(moved, ARCH) == epoch.object_id(text, ARCH)


def test_equal_texts_compile_to_equal_code_and_lines_do_not_count() -> None:
    text = emitted("plain")
    infos = [device.object_info(compile_text(one, ARCH)) for one in (text, text)]
    moved = device.object_info(compile_text(text.replace(":26:", ":726:"), ARCH))
    assert infos[0] == infos[1]
    assert moved.code_hash == infos[0].code_hash
    other = device.object_info(code_of("fused"))
    assert other.code_hash != infos[0].code_hash


def test_parameters_of_the_binary_are_those_of_the_text_and_two_pointers() -> None:
    code = code_of("plain")
    assert code.params == ("ptr", "ptr", "i32")
    assert cubin.resources(code.cubin, code.symbol).param_bytes == (8, 8, 4, 8, 8)


@pytest.mark.parametrize("arch", device.ARCHS)
def test_resources_are_what_cuobjdump_says(arch: int, tmp_path: Path) -> None:
    for name, kind, block, given in (
        ("plain", "fp32", 128, {"num_warps": 1}),
        ("plain", "fp32", 4096, {"maxnreg": 24}),
        ("product", "fp16", 16, {"num_warps": 1}),
    ):
        code = compile_text(emitted(name, kind=kind, block=block), arch, given)
        found = cubin.resources(code.cubin, code.symbol)
        path = tmp_path / "kernel.cubin"
        path.write_bytes(code.cubin)
        said = subprocess.run(
            [str(tools.tool("cuobjdump")), "--dump-resource-usage", str(path)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        told = {key: int(value) for key, value in re.findall(r"(REG|STACK|SHARED):(\d+)", said)}
        assert told == {
            "REG": found.registers,
            "STACK": found.stack_bytes,
            "SHARED": found.shared_bytes,
        }


def test_spills_show_in_the_stack_and_in_the_machine_code() -> None:
    free, tight = (code_of("plain", block=4096, maxnreg=limit) for limit in (0, 24))
    used = [cubin.resources(code.cubin, code.symbol) for code in (free, tight)]
    assert used[0].stack_bytes == 0
    assert used[1].stack_bytes > 0
    assert used[1].registers <= 24 < used[0].registers
    assert counted(free).sass_local == 0
    assert counted(tight).sass_local > 0
    assert counted(code_of("product", kind="fp16", block=16)).sass_mma > 0


def test_what_parts_bits_is_counted_and_named_against_the_seed() -> None:
    plain, fused = counted(code_of("plain")), counted(code_of("fused"))
    assert (plain.fma, plain.sass_ffma, plain.approx, plain.ftz) == (0, 0, 0, 0)
    assert fused.fma > 0
    assert fused.sass_ffma > 0
    loose = counted(code_of("approximate"))
    assert loose.approx > 0
    assert loose.ftz > 0
    assert counted(code_of("atomic")).float_atomics > 0
    assert counted(code_of("atomic", kind="fp16")).float_atomics > 0
    told = lint.beyond(loose.facts(), [plain.facts(), fused.facts()])
    assert set(told) == {"approx", "ftz"}
    assert lint.beyond(loose.facts(), [loose.facts()]) == {}


def test_packed_operations_count_twice_and_comments_do_not() -> None:
    text = "\tadd.rn.f32x2 %rd1, %rd2, %rd3;\n\t@%p1 add.rn.f32 %r1, %r2, %r3;\n// add.rn.f32 x;\n"
    assert lint.lint(text).adds == 3
    text = "\tred.global.add.f32 [%rd1], %r1;\n\tatom.global.add.u32 %r1, [%rd1], 1;\n"
    assert lint.lint(text).float_atomics == 1


def test_what_is_not_on_the_list_or_cut_short_is_refused() -> None:
    text = emitted("plain")
    for op in ("tt.elementwise_inline_asm", "tt.extern_elementwise"):
        foreign = text.replace("tt.return", "tt.return", 1)
        asm = {
            "tt.elementwise_inline_asm": '%q = tt.elementwise_inline_asm "mov.u32 $0, 1;" '
            '{constraints = "=r,r", packed_element = 1 : i32, pure = true} %n_0 : i32 -> i32',
            "tt.extern_elementwise": '%q = tt.extern_elementwise %n_0 {libname = "", '
            'libpath = "", pure = true, symbol = "__nv_abs"} : (i32) -> i32',
        }[op]
        name = re.search(r"(%\w+): i32", foreign)
        assert name is not None
        foreign = foreign.replace("tt.return", f"{asm.replace('%n_0', name[1])}\n    tt.return", 1)
        with pytest.raises(CompileError, match=op):
            compile_text(foreign, ARCH)
    with pytest.raises(CompileError, match="0 kernels"):
        compile_text("module {\n}\n", ARCH)
    with pytest.raises(CompileError, match="no cubin"):
        cubin.resources(b"\x7fELF" + bytes(200), "plain")
    with pytest.raises(CompileError, match="cannot be read"):
        cubin.resources(code_of("plain").cubin[:3000], "plain")
    with pytest.raises(CompileError, match="no kernel other"):
        cubin.resources(code_of("plain").cubin, "other")


def test_a_setting_that_makes_other_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in compiler.FOREIGN_SETTINGS:
        monkeypatch.setenv(name, "1")
        with pytest.raises(InputError, match=name):
            compile_text(emitted("plain"), ARCH)
        monkeypatch.delenv(name)


def test_more_clusters_than_the_generation_has_is_the_candidates_fault() -> None:
    with pytest.raises(CompileError, match="num_ctas"):
        compile_text(emitted("plain"), 80, {"num_ctas": 2})


def test_occupancy_says_what_allows_no_more() -> None:
    ask = functools.partial(occupancy.occupancy, 90)
    assert ask(num_warps=4, registers=32, shared_bytes=0).limited_by == "warps"
    assert ask(num_warps=1, registers=16, shared_bytes=0).limited_by == "blocks"
    assert ask(num_warps=8, registers=255, shared_bytes=0) == occupancy.Occupancy(
        blocks=1, warps=8, share=0.125, limited_by="registers"
    )
    assert ask(num_warps=4, registers=32, shared_bytes=98304).blocks == 2
    assert ask(num_warps=4, registers=32, shared_bytes=300_000).blocks == 0
    with pytest.raises(InputError, match="sm_75"):
        occupancy.occupancy(75, num_warps=4, registers=32, shared_bytes=0)
