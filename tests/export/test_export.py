"""What an export writes: an index, whole epochs, certificates; and the same bytes every time."""

import hashlib
import json
from contextlib import closing
from importlib import metadata
from pathlib import Path

from kernelsmith.library import certificate as certificates
from kernelsmith.library import contents, layout, placing, sources
from kernelsmith.library.export import export
from kernelsmith.lineage.store import open_store
from kernelsmith.model import candidate_id
from kernelsmith.rehearsal import variants
from tests.export.conftest import Shipped
from tests.export.lineages import builders, quiet
from tests.lineage.asking import counted, intact


def held(folder: Path) -> dict[str, bytes]:
    """Every file of a library but what Python keeps beside it."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    kept = [path for path in paths if "__pycache__" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(kept)}


def epoch_of(shipped: Shipped) -> Path:
    name = layout.read(shipped.folder).ops["rms_norm"].current
    return layout.epoch_folder(shipped.folder, "rms_norm", name)


def test_two_exports_of_one_lineage_are_the_same_bytes(shipped: Shipped, tmp_path: Path) -> None:
    again = tmp_path / "our_kernels"
    with closing(open_store(shipped.lineage.path)) as store:
        before = counted(shipped.lineage.path, "exports")
        export(store, again, shipped.lineage.run_id, builders(shipped.sandbox), quiet)
        intact(store)
    assert held(again) == held(shipped.folder)
    assert counted(shipped.lineage.path, "exports") == before + 1


def test_the_folder_holds_the_winner_its_seed_and_their_functions(shipped: Shipped) -> None:
    epoch = epoch_of(shipped)
    kernel = (epoch / layout.KERNEL).read_text(encoding="utf-8")
    assert "from .lang import tree_sum" in kernel
    assert "kernelsmith" not in kernel.split('"""')[2]
    assert sources.judged(kernel) == variants.winner("rms_norm")
    assert candidate_id(sources.judged(kernel)) == shipped.winner
    seed = sources.judged((epoch / layout.SEED).read_text(encoding="utf-8"))
    assert seed == shipped.lineage.task.seed_source
    assert epoch.name == f"e{shipped.done.ops[0].epoch}"


def test_the_certificate_says_what_the_lineage_says(shipped: Shipped) -> None:
    found = certificates.read(epoch_of(shipped) / layout.CERTIFICATE)
    seed = sources.judged((epoch_of(shipped) / layout.SEED).read_text(encoding="utf-8"))
    assert certificates.task_of(found, seed) == shipped.lineage.task
    assert (found.candidate, found.record) == (shipped.winner, shipped.record)
    assert (found.review.reviewer, found.review.note) == ("Ada", "reads well")
    assert found.unchecked == ("order",)
    assert found.gain.geomean == 1.5
    assert set(found.digests) == {case.id for case in shipped.lineage.task.cases}
    names = {spec.name for spec in shipped.lineage.task.call("residual_train").outputs}
    assert set(found.digests["residual_train.bf16.M7-N128.ties"]) == names
    for name, digest in found.files.items():
        assert hashlib.sha256((epoch_of(shipped) / name).read_bytes()).hexdigest() == digest
    digest = hashlib.sha256((epoch_of(shipped) / layout.CERTIFICATE).read_bytes()).hexdigest()
    assert shipped.done.ops[0].certificate_hash == digest
    kernels = {each.kernel for each in found.plan_classes}
    assert kernels == {
        "_forward_tile",
        "_backward_input",
        "_backward_weight_blocks",
        "_backward_weight_sum",
    }


def test_gradients_are_wired_as_the_seed_moves(shipped: Shipped) -> None:
    found = certificates.read(epoch_of(shipped) / layout.CERTIFICATE)
    assert isinstance(found.autograd, dict)
    plain, residual, alone = found.autograd["variants"]
    assert plain["takes"]["x"] == ["saved", "x"]
    assert plain["gives"] == {"x": "dx", "weight": "dw"}
    # What backward calls x is what was normalised: with a residual, that is the output h.
    assert residual["takes"]["x"] == ["saved", "h"]
    assert residual["takes"]["dh"] == ["gradient", "h"]
    assert residual["gives"] == {"x": "dx", "residual": "dx", "weight": "dw"}
    # Where no gradient reaches h, the plain form's backward does it, and keeps h as well.
    assert (alone["takes"]["x"], alone["takes"]["dh"]) == (["saved", "h"], ["none", ""])
    assert alone["gives"] == residual["gives"]


def test_an_export_into_a_library_keeps_what_else_is_there(
    shipped: Shipped, tmp_path: Path
) -> None:
    folder = tmp_path / "our_kernels"
    for name, data in held(shipped.folder).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    older = "e" + "0" * 16
    (folder / "rms_norm" / older).mkdir()
    (folder / "README.md").write_text("ours")
    entry = layout.OpEntry(current=older, epochs=(older,))
    other = layout.OpEntry(current=older, epochs=(older,))
    index = layout.Library(ops={"rms_norm": entry, "other": other})
    (folder / layout.INDEX).write_text(layout.index_text(index))
    (folder / "rms_norm" / epoch_of(shipped).name / layout.KERNEL).write_text("# edited\n")
    own = {path.name: path.read_bytes() for path in epoch_of(shipped).iterdir() if path.is_file()}
    epochs = {"rms_norm": epoch_of(shipped).name}
    placing.place(
        folder, lambda index: contents.library_files(folder, index, {"rms_norm": own}, epochs)
    )
    found = layout.read(folder)
    assert found.ops["rms_norm"].epochs == (older, epoch_of(shipped).name)
    assert found.ops["rms_norm"].current == epoch_of(shipped).name
    assert found.ops["other"] == other
    assert (folder / "README.md").read_text() == "ours"
    assert (folder / "rms_norm" / older).is_dir()
    kernel = folder / "rms_norm" / epoch_of(shipped).name / layout.KERNEL
    assert kernel.read_bytes() == (epoch_of(shipped) / layout.KERNEL).read_bytes()
    assert not list(folder.glob(".kernelsmith-export-*"))


def test_launches_are_written_down_with_every_option(shipped: Shipped) -> None:
    names: dict[str, object] = {}
    exec((epoch_of(shipped) / layout.LAUNCH).read_text(encoding="utf-8"), names)
    certified = names["CERTIFIED"]
    assert isinstance(certified, dict)
    assert certified["device"] == "cpu"
    assert certified["triton"] == metadata.version("triton")
    options = {json.dumps(each["options"], sort_keys=True) for each in certified["classes"]}
    assert options == {
        '{"enable_fp_fusion": false, "num_ctas": 1, "num_stages": 3, "num_warps": 4}'
    }
