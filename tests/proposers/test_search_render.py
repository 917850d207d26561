"""Rewrites of the seeds and of a stranger's kernel stay within the policy and do what they say."""

import ast
from pathlib import Path

import pytest

from kernelsmith.gate.policy import check
from kernelsmith.proposers.search.genome import Bucket, Knob, from_text, merged, to_text
from kernelsmith.proposers.search.program import Program, read
from kernelsmith.proposers.search.render import render
from kernelsmith.proposers.search.space import Site, sites

ROOT = Path(__file__).parents[2]
ENTRIES = ("forward_train", "forward_infer", "backward")

MATMUL = (Path(__file__).parent / "stranger_matmul.py").read_text()
STRANGER = (Path(__file__).parent / "stranger_scale.py").read_text()


def program(name: str) -> Program:
    source = (ROOT / "seed_kernels" / f"{name}.py").read_text()
    found = read(source, frozenset({"x", "dy"}))
    assert found is not None
    return found


def site(of: Program, kernel: str) -> Site:
    return next(s for s in sites(of) if s.kernel == kernel)


def rendered(of: Program, settings: dict[Knob, str]) -> str:
    source = render(of, settings, ENTRIES)
    assert source is not None
    assert check(source, ENTRIES) == []
    return source


@pytest.mark.parametrize("name", ["rms_norm", "linear"])
def test_every_form_alone_and_all_together_is_within_the_policy(name: str) -> None:
    seed = program(name)
    for one in sites(seed):
        for form, values in one.forms.items():
            for value in values:
                if value != "persistent" or set(one.functions) <= set(ENTRIES):
                    rendered(seed, {Knob(one.name, form): value})
        rendered(seed, {Knob(one.name, f): v[0] for f, v in one.forms.items()})


def test_the_patterns_of_the_seeds_are_recognised() -> None:
    norm, linear = program("rms_norm"), program("linear")
    assert {"columns", "rows", "programs"} <= site(norm, "_forward").forms.keys()
    assert site(norm, "_forward").ordered == {"BLOCK"}
    assert "unroll" in site(norm, "_backward_weight_blocks").forms
    assert {"dot", "load_a", "load_b", "order", "programs"} <= site(linear, "_matmul").forms.keys()
    assert site(linear, "_matmul").rows == "m_size"
    assert site(linear, "_matmul").functions == ("forward_train", "forward_infer")


def test_a_tile_constant_changes_in_the_arguments_and_in_the_grid() -> None:
    linear = program("linear")
    name = site(linear, "_matmul").name
    source = rendered(linear, {Knob(name, "BLOCK_M"): "32"})
    assert source.count("triton.cdiv(m_size, 32) * triton.cdiv(n_size, 128)") == 2
    assert source.count("BLOCK_M=32") == 2
    assert source.count("BLOCK_M=128") == 2  # the two launches of backward keep theirs


def test_buckets_become_branches_in_order_of_their_bounds() -> None:
    linear = program("linear")
    name = site(linear, "_matmul").name
    source = rendered(
        linear,
        {
            Knob(name, "BLOCK_N"): "64",
            Knob(name, "BLOCK_M", Bucket("m_size", 16)): "16",
            Knob(name, "BLOCK_M", Bucket("m_size", 1)): "1",
        },
    )
    tree = ast.parse(source)
    entry = next(
        n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "forward_infer"
    )
    branch = next(n for n in entry.body if isinstance(n, ast.If))
    assert ast.unparse(branch.test) == "m_size <= 1"
    assert "BLOCK_M=1," in ast.unparse(branch.body[0])
    following = branch.orelse[0]
    assert isinstance(following, ast.If)
    assert ast.unparse(following.test) == "m_size <= 16"
    assert "BLOCK_M=16, BLOCK_N=64" in ast.unparse(following.body[0])
    assert "BLOCK_M=128, BLOCK_N=64" in ast.unparse(following.orelse[0])


def test_a_guarded_form_keeps_the_plain_launch_for_other_shapes() -> None:
    norm = program("rms_norm")
    source = rendered(norm, {Knob(site(norm, "_forward").name, "columns"): "single"})
    assert source.count("if n_cols <= 1024:") == 2
    assert source.count("BLOCK=triton.next_power_of_2(n_cols)") == 2
    assert source.count("_forward[(n_rows,)](") == 2
    single = source[source.index("def _forward_columns_single") : source.index("def _backward")]
    assert "for start" not in single
    assert single.index("tl.store(rstd_ptr") > single.rindex("tl.load(x_ptr")


def test_an_original_kernel_that_nothing_uses_is_dropped() -> None:
    norm = program("rms_norm")
    source = rendered(norm, {Knob(site(norm, "_forward").name, "programs"): "4"})
    assert "def _forward(" not in source
    assert "def _forward_programs(" in source


def test_persistent_adds_num_programs_to_the_entries_that_need_it() -> None:
    norm = program("rms_norm")
    source = rendered(norm, {Knob(site(norm, "_forward").name, "programs"): "persistent"})
    tree = ast.parse(source)
    last = {
        n.name: n.args.args[-1].arg
        for n in tree.body
        if isinstance(n, ast.FunctionDef) and n.name in ENTRIES
    }
    assert last["forward_train"] == last["forward_infer"] == "num_programs"
    assert last["backward"] != "num_programs"


def test_rows_of_a_tile_are_masked_where_a_pointer_depends_on_the_row() -> None:
    norm = program("rms_norm")
    source = rendered(norm, {Knob(site(norm, "_forward").name, "rows"): "4"})
    assert "tl.zeros((ROWS, BLOCK), dtype=tl.float32)" in source
    assert "tree_sum(squares)[:, None]" in source
    assert "tl.store(rstd_ptr + row, rstd, mask=row_inside)" in source
    assert "tl.load(weight_ptr + cols, mask=inside, other=0.0)" in source


def test_a_strangers_kernel_offers_its_tile_through_locals() -> None:
    found = read(STRANGER)
    assert found is not None
    (one,) = sites(found)
    assert one.tiles == {"SIZE": "n"}
    source = rendered(found, {Knob(one.name, "SIZE"): "512", Knob(one.name, "num_warps"): "8"})
    assert "scale_kernel[(triton.cdiv(n, 512),)](x, out, n, 2.0, 512, num_warps=8)" in source


def test_a_grid_lambda_follows_the_constants_by_itself() -> None:
    found = read(MATMUL)
    assert found is not None
    (one,) = sites(found)
    assert one.tiles == {"BLOCK_SIZE_M": "M", "BLOCK_SIZE_N": "N"}
    assert one.rows == "M"
    source = rendered(found, {Knob(one.name, "BLOCK_SIZE_M", Bucket("M", 16)): "16"})
    assert source.count("matmul_kernel[grid](") == 2
    assert "if M <= 16:" in source


@pytest.mark.parametrize(
    "settings",
    [
        {Knob("no_such_site", "BLOCK"): "2"},
        {Knob("{site}", "NO_SUCH_CONSTANT"): "2"},
        {Knob("{site}", "columns"): "single"},
        {Knob("{site}", "SIZE", Bucket("no_such_dim", 4)): "2"},
    ],
)
def test_a_rewrite_that_does_not_apply_returns_nothing(settings: dict[Knob, str]) -> None:
    found = read(STRANGER)
    assert found is not None
    name = sites(found)[0].name
    filled = {
        Knob(k.site.replace("{site}", name), k.name, k.bucket): v for k, v in settings.items()
    }
    assert render(found, filled, ENTRIES) is None


def test_a_grid_that_no_tile_explains_blocks_the_constant() -> None:
    source = STRANGER.replace("(triton.cdiv(n, size),)", "(n // 256 + 1,)")
    found = read(source)
    assert found is not None
    assert render(found, {Knob(sites(found)[0].name, "SIZE"): "512"}, ENTRIES) is None


def test_no_settings_give_the_source_back() -> None:
    linear = program("linear")
    assert render(linear, {}, ENTRIES) == linear.source


@pytest.mark.parametrize("source", ["def f(:", "import os\n", "", "x = 1\n"])
def test_sources_without_launches_offer_nothing(source: str) -> None:
    found = read(source)
    assert found is None or sites(found) == ()


def test_genomes_survive_as_text() -> None:
    genome = merged(
        {
            Knob("_k(a,b)[64]", "BLOCK", Bucket("m", 16)): "16",
            Knob("_k(a,b)[64]", "BLOCK"): "32",
            Knob("_k(a,b)[64]", "columns"): "single",
        }
    )
    lines = to_text(genome, {("_k(a,b)[64]", "BLOCK"): "64"})
    assert lines[0] == "_k(a,b)[64] BLOCK 64→32"
    assert "_k(a,b)[64] BLOCK 64→16 for m≤16" in lines
    assert from_text(lines) == genome
    assert from_text(("made it faster",)) is None
