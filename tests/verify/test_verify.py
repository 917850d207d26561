"""``verify``: both facts of each op and case, and every drift by its name."""

import hashlib
import importlib.util
import json
import marshal
import os
import py_compile
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelsmith.library import files, layout
from tests.gate.fake_workers import source_of
from tests.verify.conftest import WINNER, Kit, add_epoch


def verified(kit: Kit, *words: str) -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
    """The exit code, the toy op's findings, its drifts."""
    code, out, err = kit("verify", str(kit.folder), "--json", *words)
    assert out, err
    shown = json.loads(out)
    assert shown["schema"] == "kernelsmith.verify/1"
    assert shown["verified"] is (code == 0)
    (op,) = shown["kernels"]
    return code, op, op["drifts"]


def facts(op: dict[str, Any]) -> tuple[bool | None, bool | None]:
    return op["equals_seed_here"], op["matches_certificate"]


def kinds(drifts: list[dict[str, Any]]) -> set[str]:
    return {each["kind"] for each in drifts}


def test_a_library_as_it_was_exported_is_verified(kit: Kit) -> None:
    code, op, drifts = verified(kit, "--strict")
    assert (code, facts(op), drifts) == (0, (True, True), [])
    assert [case["equals_seed_here"] for case in op["cases"]] == [True] * len(op["cases"])
    assert {case["path"] for case in op["cases"]} == {"train", "infer"}
    code, out, _ = kit("verify", str(kit.folder))
    assert code == 0
    assert "verified: 1 of 1 winners equal their seeds here" in out.splitlines()
    assert out.splitlines()[-1].startswith("seeds and certificates are the folder's own word")


def test_a_flipped_constant_names_op_case_and_file(kit: Kit) -> None:
    kit.edit(layout.KERNEL, lambda text: text.replace("{", '{"adds": 1.0, '))
    code, op, drifts = verified(kit)
    assert (code, facts(op)) == (1, (False, False))
    assert kinds(drifts) == {"bits", "digest", "file_changed"}
    bits = [each for each in drifts if each["kind"] == "bits"]
    assert {(each["case"], each["path"], each["output"]) for each in bits} == {
        ("train-40", "train", "y"),
        ("train-7", "train", "y"),
        ("infer-40", "infer", "y"),
        ("infer-1", "infer", "y"),
    }
    assert all(each["expected"] != each["actual"] for each in bits)
    changed = next(each for each in drifts if each["kind"] == "file_changed")
    assert changed["file"] == f"toy/{kit.epoch}/kernel.py"
    code, out, _ = kit("verify", str(kit.folder))
    assert code == 1
    assert "toy " in out
    assert "case train-40, output y: 240 of 240 elements differ" in out


def test_cases_that_are_right_are_not_blamed(kit: Kit) -> None:
    kit.edit(layout.KERNEL, lambda text: text.replace("{", '{"wrong_at_rows": 40, '))
    _, op, drifts = verified(kit)
    wrong = [case["case"] for case in op["cases"] if not case["equals_seed_here"]]
    assert wrong == ["infer-40"]
    assert {each["case"] for each in drifts if each["kind"] == "bits"} == set(wrong)


def test_other_text_with_equal_bits_passes_but_not_strictly(kit: Kit) -> None:
    kit.edit(layout.KERNEL, lambda text: text.replace("{", '{"remark": 1, '))
    code, op, drifts = verified(kit)
    assert (code, facts(op), kinds(drifts)) == (0, (True, False), {"file_changed"})
    assert verified(kit, "--strict")[0] == 1


@pytest.mark.parametrize("file", [layout.SEED, layout.LANG])
def test_equal_to_an_edited_seed_shows_nothing(kit: Kit, file: str) -> None:
    remark = {layout.SEED: lambda text: text.replace("{", "{ "), layout.LANG: str.rstrip}
    kit.edit(file, remark[file])
    code, op, drifts = verified(kit)
    assert (code, facts(op), kinds(drifts)) == (5, (None, False), {"file_changed"})


def test_a_missing_seed_is_named(kit: Kit) -> None:
    (kit.place / layout.SEED).unlink()
    code, op, drifts = verified(kit)
    assert (code, facts(op), kinds(drifts)) == (5, (None, False), {"seed_missing"})


@pytest.mark.parametrize("file", [layout.KERNEL, layout.LANG, layout.LAUNCH])
def test_a_missing_file_is_named(kit: Kit, file: str) -> None:
    (kit.place / file).unlink()
    code, op, drifts = verified(kit)
    assert kinds(drifts) == {"file_missing"}
    assert op["matches_certificate"] is False
    assert code == (0 if file == layout.LAUNCH else 5)
    assert verified(kit, "--strict")[0] == 1


@pytest.mark.parametrize("text", ["def forward_train(:\n", "import os\n"])
def test_what_the_gate_cannot_judge_is_no_winner(kit: Kit, text: str) -> None:
    kit.edit(layout.KERNEL, lambda before: text + before)
    code, op, drifts = verified(kit)
    assert (code, facts(op)[0]) == (1, False)
    assert kinds(drifts) == {"file_changed", "kernel_fails"}


def test_a_seed_that_fails_is_no_fault_of_the_winner(kit: Kit) -> None:
    kit.edit(layout.SEED, lambda text: text.replace("{", '{"no_compile": true'))
    code, op, drifts = verified(kit)
    assert (code, facts(op)[0]) == (5, None)
    assert kinds(drifts) == {"file_changed", "seed_fails"}


def test_a_kernel_that_no_longer_compiles_is_named(kit: Kit) -> None:
    kit.edit(layout.KERNEL, lambda text: text.replace("{", '{"no_compile": true, '))
    code, op, drifts = verified(kit)
    assert (code, facts(op)[0]) == (1, False)
    failing = next(each for each in drifts if each["kind"] == "kernel_fails")
    assert failing["actual"] == "COMPILE"


def test_another_triton_is_another_epoch_and_no_fault(kit: Kit) -> None:
    kit.epoch = add_epoch(kit.folder, triton="3.6.0")
    code, op, drifts = verified(kit)
    assert (code, facts(op), kinds(drifts)) == (0, (True, True), {"triton_differs"})
    assert op["epoch"]["here"] != op["epoch"]["certified"]
    assert drifts[0]["expected"] == "3.6.0"
    _, out, _ = kit("verify", str(kit.folder))
    assert f"another epoch: Triton {drifts[0]['actual']}, certified on 3.6.0" in out


def test_another_machine_is_named_by_its_facts(kit: Kit) -> None:
    kit.epoch = add_epoch(kit.folder, facts={"device": "cpu", "compiler": "another", "key": "fake"})
    code, op, drifts = verified(kit)
    assert (code, facts(op), kinds(drifts)) == (0, (True, True), {"device_differs"})
    assert drifts[0]["message"] == "another epoch: compiler none, certified on another"


def test_a_cpu_certificate_says_nothing_of_a_gpu(kit: Kit) -> None:
    code, op, drifts = verified(kit, "--device", "cuda")
    assert (code, facts(op), kinds(drifts)) == (3, (None, None), {"device_differs"})
    assert (drifts[0]["expected"], drifts[0]["actual"]) == ("cpu", "cuda")
    assert kit.sandbox.log == []


def test_an_unreadable_certificate_shows_nothing(kit: Kit) -> None:
    kit.edit(layout.CERTIFICATE, lambda text: text[:-40])
    code, op, drifts = verified(kit)
    assert (code, facts(op), kinds(drifts)) == (5, (None, None), {"certificate_unreadable"})


@pytest.mark.parametrize("what", ["candidate", "epoch"])
def test_a_certificate_that_contradicts_itself_is_named(kit: Kit, what: str) -> None:
    path = kit.place / layout.CERTIFICATE
    held = json.loads(path.read_text())
    held[what] = "0" * 16
    path.write_text(json.dumps(held))
    code, op, drifts = verified(kit)
    assert (code, facts(op)) == (5, (None, False))
    assert "certificate_altered" in kinds(drifts)


def test_digests_that_are_not_those_of_here_fail_strictly_alone(kit: Kit) -> None:
    path = kit.place / layout.CERTIFICATE
    held = json.loads(path.read_text())
    held["digests"]["infer-1"]["y"] = "0" * 64
    del held["digests"]["infer-40"]
    held["digests"]["of nothing"] = {}
    path.write_text(json.dumps(held))
    code, op, drifts = verified(kit)
    assert (code, facts(op), kinds(drifts)) == (0, (True, False), {"digest"})
    assert {each["case"] for each in drifts} == {"infer-1", "infer-40", ""}
    assert verified(kit, "--strict")[0] == 1


@pytest.mark.parametrize("file", ["_runtime.py", "__init__.py", "toy/__init__.py", "EPOCH"])
def test_an_edited_dispatch_shows_nothing_of_what_an_import_runs(kit: Kit, file: str) -> None:
    file = file.replace("EPOCH", f"toy/{kit.epoch}/__init__.py")
    (kit.folder / file).write_text((kit.folder / file).read_text() + "\n")
    code, out, _ = kit("verify", str(kit.folder), "--json")
    shown = json.loads(out)
    assert (code, shown["verified"]) == (5, False)
    assert [(each["kind"], each["file"]) for each in shown["drifts"]] == [
        ("dispatch_differs", file)
    ]
    assert shown["kernels"][0]["equals_seed_here"] is True
    assert kit("verify", str(kit.folder), "--strict")[0] == 1
    code, out, _ = kit("verify", str(kit.folder))
    words = "not verified: 1 of 1 winners equal their seeds here, and an import may run something"
    assert any(line.startswith(words) for line in out.splitlines())


@pytest.mark.parametrize(
    "shadow",
    [
        "__pycache__/_runtime.TAG.pyc",
        "__pycache__/__init__.TAG.opt-1.pyc",
        "toy/__pycache__/__init__.TAG.pyc",
        "toy/EPOCH/__pycache__/kernel.TAG.pyc",
        "toy/EPOCH/__pycache__/kernel.cpython-399.pyc",
        "_runtime/__init__.py",
        "__init__.TAG-x86_64-linux-gnu.so",
        "toy.so",
        "toy/EPOCH/lang.abi3.so",
        "toy/EPOCH/seed.pyc",
    ],
)
def test_what_python_would_import_instead_is_named(kit: Kit, shadow: str) -> None:
    shadow = shadow.replace("TAG", sys.implementation.cache_tag).replace("EPOCH", kit.epoch)
    path = kit.folder / shadow
    path.parent.mkdir(exist_ok=True)
    code = marshal.dumps(compile("print('not what was compared')", "", "exec"))
    path.write_bytes(importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + code)
    code, out, _ = kit("verify", str(kit.folder), "--json")
    assert code == 5
    named = shadow.removesuffix("/__init__.py")
    assert [(each["kind"], each["file"]) for each in json.loads(out)["drifts"]] == [
        ("shadowed", named)
    ]


def test_byte_code_that_python_made_of_the_sources_is_no_shadow(kit: Kit) -> None:
    for path in sorted(kit.folder.rglob("*.py")):
        for level in (0, 1, 2):
            py_compile.compile(str(path), doraise=True, optimize=level)
    assert len(list(kit.folder.rglob("*.pyc"))) > 30
    assert kit("verify", str(kit.folder), "--strict")[0] == 0


def test_byte_code_is_compared_whatever_its_time_stamp_says(kit: Kit) -> None:
    runtime = kit.folder / "_runtime.py"
    text, found = runtime.read_text(), runtime.stat()
    runtime.write_text(text.replace("MOST_DECIDED = 4096", "MOST_DECIDED = 4095"))
    os.utime(runtime, ns=(found.st_atime_ns, found.st_mtime_ns))
    py_compile.compile(str(runtime), doraise=True)
    runtime.write_text(text)
    os.utime(runtime, ns=(found.st_atime_ns, found.st_mtime_ns))
    code, out, _ = kit("verify", str(kit.folder), "--json")
    assert (code, [each["kind"] for each in json.loads(out)["drifts"]]) == (5, ["shadowed"])


@pytest.mark.parametrize("file", [layout.KERNEL, layout.SEED, layout.LANG, layout.LAUNCH])
def test_a_certificate_without_the_hash_of_a_file_is_altered(kit: Kit, file: str) -> None:
    path = kit.place / layout.CERTIFICATE
    held = json.loads(path.read_text())
    del held["files"][file]
    path.write_text(json.dumps(held))
    code, op, drifts = verified(kit)
    assert (code, facts(op)) == (5, (None, False))
    assert "certificate_altered" in kinds(drifts)


def test_a_launch_file_that_allows_what_was_not_certified_is_named(kit: Kit) -> None:
    """Its hash edited in the certificate as well: the plan classes and the task tell."""
    kit.edit(layout.LAUNCH, lambda text: text.replace("'train'", "'any'", 1))
    path = kit.place / layout.CERTIFICATE
    held = json.loads(path.read_text())
    changed = (kit.place / layout.LAUNCH).read_bytes()
    held["files"][layout.LAUNCH] = hashlib.sha256(changed).hexdigest()
    path.write_text(json.dumps(held))
    code, op, drifts = verified(kit)
    assert (code, facts(op)) == (5, (None, False))
    assert [each["message"].partition(":")[0] for each in drifts] == ["the certificate was altered"]


@pytest.mark.parametrize("file", [*layout.FILES, layout.CERTIFICATE])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(kit: Kit, file: str) -> None:
    (kit.place / file).unlink()
    os.mkfifo(kit.place / file)
    assert kit("verify", str(kit.folder))[0] in (0, 5)


@pytest.mark.parametrize("text", ["x = " + "-" * 100_000 + "1\n", "x = " + "(" * 5_000 + "\n"])
def test_a_text_that_python_cannot_parse_is_no_winner(kit: Kit, text: str) -> None:
    kit.edit(layout.KERNEL, lambda before: text)
    code, op, drifts = verified(kit)
    assert (code, facts(op)[0], kinds(drifts)) == (1, False, {"file_changed", "kernel_fails"})


def test_every_epoch_can_be_verified(kit: Kit) -> None:
    older, newer = kit.epoch, add_epoch(kit.folder, triton="3.9.0")

    def seen(*words: str) -> tuple[int, list[tuple[str, bool]]]:
        code, out, _ = kit("verify", str(kit.folder), "--json", *words)
        kernels = json.loads(out)["kernels"]
        return code, [(f"e{each['epoch']['certified']}", each["current"]) for each in kernels]

    assert seen() == (0, [(newer, True)])
    assert seen("--epoch", "all") == (0, [(older, False), (newer, True)])
    assert seen("--epoch", older[1:9]) == (0, [(older, False)])
    (kit.place / layout.SEED).unlink()
    assert seen()[0] == 0
    assert seen("--epoch", "all")[0] == 5
    _, out, _ = kit("verify", str(kit.folder))
    assert "not verified: 1 other epoch (--epoch all)" in out
    assert kit("verify", str(kit.folder), "--epoch", "none")[0] == 2


def test_a_copy_under_another_name_is_the_same_library(kit: Kit) -> None:
    kit.folder = kit.folder.rename(kit.folder.with_name("moved"))
    assert kit("verify", str(kit.folder), "--strict")[0] == 0


def test_other_vetted_functions_than_the_workers_have_show_nothing(
    kit: Kit, tmp_path: Path
) -> None:
    """As if kernelsmith had been upgraded: the library's own functions are whole, but others."""
    other = tmp_path / "lang.py"
    other.write_text((kit.place / layout.LANG).read_text() + "\nDEPTH = 3\n")
    assert files.lang_drift(kit.folder, "toy", kit.epoch) is None
    found = files.lang_drift(kit.folder, "toy", kit.epoch, own=other)
    assert found is not None
    assert found.kind == "lang_differs"
    other.write_text("# other words\n" + (kit.place / layout.LANG).read_text())
    assert files.lang_drift(kit.folder, "toy", kit.epoch, own=other) is None


def test_what_is_no_library_is_refused(kit: Kit, tmp_path: Path) -> None:
    code, _, err = kit("verify", str(tmp_path))
    assert (code, "is no library" in err) == (2, True)
    (kit.folder / layout.INDEX).write_text("[")
    code, _, err = kit("verify", str(kit.folder))
    assert (code, "is damaged" in err) == (2, True)


def test_an_empty_library_shows_nothing(kit: Kit) -> None:
    (kit.folder / layout.INDEX).write_text(layout.index_text(layout.Library()))
    code, out, _ = kit("verify", str(kit.folder), "--json")
    assert (code, json.loads(out)["kernels"]) == (5, [])


def test_a_library_is_never_trusted_nor_imported(kit: Kit) -> None:
    before = sorted(kit.folder.rglob("*"))
    verified(kit)
    assert kit.walls == [("auto", False)]
    assert sorted(kit.folder.rglob("*")) == before  # no byte code either


def test_fresh_inputs_are_fresh_and_public_ones_public(kit: Kit) -> None:
    def drawn() -> list[int]:
        kit.sandbox.log.clear()
        verified(kit)
        runs = [job for role, job in kit.sandbox.log if role == "launcher" and hasattr(job, "runs")]
        return [run.inputs.seed for job in runs for run in job.runs]

    first, second = drawn(), drawn()
    half = len(first) // 2
    assert first[half:] == second[half:]
    assert not set(first[:half]) & set(second[:half])


def test_winner_and_source_are_what_the_test_believes() -> None:
    assert source_of(speed=2) == WINNER
