"""``export``: approved winners out of the lineage, into a library.

One winner at a time is examined (its bits again, its plan classes) and becomes the files of one
epoch of one op; then all is put in place at once, and the lineage records it.
"""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsmith.errors import InputError, TaskError
from kernelsmith.gate.epoch import epoch
from kernelsmith.library import certificate as certificates
from kernelsmith.library import contents, digests, launch, layout, placing, selection, sources
from kernelsmith.library.certificate import Certificate
from kernelsmith.library.examining import Examined, examine
from kernelsmith.library.selection import Chosen, Selection
from kernelsmith.lineage.records import plain
from kernelsmith.lineage.verify import require_intact
from kernelsmith.model import Gain, Task
from kernelsmith.ports import Device, Sandbox

if TYPE_CHECKING:
    from kernelsmith.lineage.store import LineageStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Builders:
    """What an export builds its parts with. ``task`` takes a run's row and a task's name, for runs
    that kept no definition of it; ``sandbox`` whether all that will run comes from shipped seeds
    by hand of the search."""

    task: Callable[[Mapping[str, Any], str], Task]
    device: Callable[[str], Device]
    sandbox: Callable[[bool], Sandbox]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """An op as it was written. ``certificate_hash``: SHA-256 of the certificate's bytes."""

    op: str
    candidate: str
    record: str
    run: str
    epoch: str
    device: str
    gain: Gain
    unchecked: tuple[str, ...]
    autograd: dict[str, Any] | str
    certificate_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What an export did. ``left``: (op, candidate, why) of approved winners of other epochs,
    ``superseded``: (candidate, the one approved after it)."""

    folder: Path
    package: str
    ops: tuple[Exported, ...]
    left: tuple[tuple[str, str, str], ...]
    superseded: tuple[tuple[str, str], ...]


def export(
    store: "LineageStore",
    folder: Path,
    run_id: str | None,
    builders: Builders,
    notice: Callable[[str], None],
) -> Export:
    """Writes the approved winners of one run, or of all, into the library at ``folder``.

    Nothing of the folder changes unless everything can be written. Ops and epochs that are there
    already stay; an op's current epoch becomes the one that is written.

    Raises:
        InputError: nothing is approved, something approved may not be exported, the folder is
            something else, or all winners are of another epoch.
        StorageError: the folder cannot be written.
        EvidenceError: a winner no longer has its seed's bits, or the lineage was edited.
    """
    folder = folder.resolve()
    placing.require_place(folder)
    if layout.is_library(folder):
        layout.read(folder)  # a damaged one is refused before the work
    with store.database.reading() as connection:
        require_intact(connection)
        found: Selection = selection.select(connection, run_id)
    ops: dict[str, dict[str, bytes]] = {}
    exported: list[Exported] = []
    left: list[tuple[str, str, str]] = []
    for chosen in found.chosen:
        layout.require_op_name(chosen.op)
        device = builders.device(chosen.run["device"])
        task = chosen.task or builders.task(chosen.run, chosen.op)
        why = _why_left(chosen, task, device)
        if why:
            left.append((chosen.op, chosen.found.candidate.id, why))
            continue
        notice(f"{chosen.op}: {chosen.found.candidate.id} runs on every case again …")
        with closing(builders.sandbox(chosen.trusted and task.shipped)) as sandbox:
            examined = examine(task, device, sandbox, chosen.found.candidate)
        files, made = epoch_files(chosen, task, device, examined)
        ops[chosen.op] = files
        exported.append(_exported(chosen, made, files))
    if not ops:
        raise InputError(
            "nothing to export: " + "; ".join(f"{op} {name}: {why}" for op, name, why in left),
            hint="judge it again in this epoch: `kernelsmith gate --again CANDIDATE`",
        )
    epochs = {each.op: layout.epoch_name(each.epoch) for each in exported}
    placing.place(folder, lambda before: contents.library_files(folder, before, ops, epochs))
    for each in exported:
        kept = {"folder": str(folder), "certificate_hash": each.certificate_hash}
        store.append(each.run, "export", {"record": each.record, **kept})
    return Export(
        folder=folder,
        package=layout.package_name(folder),
        ops=tuple(exported),
        left=tuple(left),
        superseded=found.superseded,
    )


def epoch_files(
    chosen: Chosen, task: Task, device: Device, examined: Examined
) -> tuple[dict[str, bytes], Certificate]:
    """The files of one epoch of one op by name, and the certificate among them."""
    candidate, facts = chosen.found.candidate, device.describe()
    classes = tuple(
        digests.class_facts(each, task.device) for _, each in sorted(examined.classes.items())
    )
    files = {
        layout.KERNEL: sources.packaged(candidate.source).encode(),
        layout.SEED: sources.packaged(task.seed_source).encode(),
        layout.LANG: contents.lang(),
        layout.LAUNCH: launch.text(task, classes, facts, metadata.version("triton")).encode(),
    }
    verdict = chosen.found.verdict
    if verdict is None:
        raise InputError(f"candidate {candidate.id} has no verdict")
    made = Certificate(
        op=task.name,
        task=certificates.task_fields(task),
        device=task.device,
        device_facts=plain(facts),
        epoch=verdict.epoch,
        versions=chosen.run["versions"],
        candidate=candidate.id,
        record=chosen.found.record,
        head=chosen.head,
        run=chosen.found.run_id,
        parents=candidate.parents,
        author=candidate.author,
        gain=plain(chosen.gain),
        checks=tuple(check.name for check in verdict.checks if check.status == "pass"),
        unchecked=verdict.unchecked,
        review=certificates.ReviewFacts(
            reviewer=chosen.review.reviewer, note=chosen.review.note, at=chosen.review.at
        ),
        digest_seed=certificates.DIGEST_SEED,
        digests={case: dict(found) for case, found in examined.digests.items()},
        files={name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        plan_classes=classes,
        autograd=examined.autograd,
    )
    files[layout.CERTIFICATE] = certificates.text(made).encode()
    return files, made


def _why_left(chosen: Chosen, task: Task, device: Device) -> str:
    """Why a winner cannot be written here and now; "" where it can.

    Raises:
        TaskError: the task's seed is another than the run's.
    """
    if hashlib.sha256(task.seed_source.encode()).hexdigest()[:16] != chosen.seed.id:
        raise TaskError(
            f"the seed of {task.name} has changed since {chosen.found.candidate.id} was judged "
            f"(it was {chosen.seed.id})",
            hint="restore the seed, or judge the kernel against the new one",
        )
    here = epoch(task, device.describe())
    if here == chosen.epoch:
        return ""
    was, now = chosen.run["versions"].get("triton"), metadata.version("triton")
    compiler = f" (Triton {was} then, {now} now)" if was != now else ""
    return f"it was judged in epoch {chosen.epoch}, this is epoch {here}{compiler}"


def _exported(chosen: Chosen, made: Certificate, files: Mapping[str, bytes]) -> Exported:
    return Exported(
        op=chosen.op,
        candidate=made.candidate,
        record=made.record,
        run=made.run,
        epoch=made.epoch,
        device=made.device,
        gain=chosen.gain,
        unchecked=made.unchecked,
        autograd=made.autograd,
        certificate_hash=hashlib.sha256(files[layout.CERTIFICATE]).hexdigest(),
    )
