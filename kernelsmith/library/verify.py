"""Recomputes two facts of each op of a library, for every case of its certificate.

``equals_seed_here``: the winner, as it lies in the folder, has the bytes of its seed, now, here,
on fresh inputs. ``matches_certificate``: its bytes on the certificate's public inputs are those
that were certified, and so are its files. Winner and seed run in the gate's own workers, behind
the wall, in processes of their own; nothing of the library is imported.
"""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from kernelsmith.devices.cpu.versions import require_triton
from kernelsmith.errors import EvidenceError, InputError, KernelsmithError, MissingError
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.epoch import epoch
from kernelsmith.gate.subject import Subject, limits_on
from kernelsmith.library import certificate as certificates
from kernelsmith.library import comparing, files, layout, sources
from kernelsmith.library.certificate import Certificate
from kernelsmith.library.findings import CaseFacts, Drift, Kind, OpFindings
from kernelsmith.model import Task, new_candidate
from kernelsmith.ports import Device, Sandbox

FILE_KINDS = (
    "file_changed",
    "file_missing",
    "seed_missing",
    "certificate_of_another",
    "certificate_altered",
    "not_recorded",
)


def verify_op(
    folder: Path,
    op: str,
    name: str,
    device: Device,
    sandbox: Sandbox,
    secret: int,
    recorded: Collection[str] | None = None,
) -> OpFindings:
    """Verifies one op in one epoch.

    Args:
        folder: the library.
        name: the epoch's folder name.
        device: what it is asked for on.
        sandbox: starts the workers.
        secret: draws the fresh inputs; from ``secrets``, below 2**256.
        recorded: SHA-256 of every certificate that a lineage knows, if one was given.

    Raises:
        MissingError: Triton is not here, or not one of those that are tested.
        InfrastructureError, EvidenceError: the machine failed, or its answers cannot be trusted.
    """
    require_triton()
    known = OpFindings(op=op, epoch=name)
    try:
        certificate = certificates.read(layout.certificate_path(folder, op, name))
    except InputError as error:
        return _add(known, _unreadable(folder, op, name, error))
    known = replace(known, candidate=certificate.candidate, device=certificate.device)
    known = _add(known, *files.file_drifts(folder, op, name, certificate))
    if recorded is not None and (stranger := files.record_drift(folder, op, name, recorded)):
        known = _add(known, stranger)
    lacking = _lacking(certificate, device)
    if lacking is not None:
        return replace(_add(known, lacking), lacking=True)
    lang = files.lang_drift(folder, op, name)
    known = _add(known, *([lang] if lang else []))
    texts = {}
    kinds: dict[str, Kind] = {layout.SEED: "seed_fails", layout.KERNEL: "kernel_fails"}
    for file, kind in kinds.items():
        text = _text(layout.epoch_folder(folder, op, name) / file)
        if text is None:
            return replace(known, matches_certificate=False)
        try:
            texts[file] = sources.judged(text)
        except (*files.NO_PYTHON, InputError) as error:
            what = str(error) or type(error).__name__
            message = f"{op}/{name}/{file} is not what the gate can judge: {what}"
            equals = None if file == layout.SEED else False
            found = _add(known, _drift(kind, message))
            return replace(found, equals_seed_here=equals, matches_certificate=False)
    try:
        task = certificates.task_of(certificate, texts[layout.SEED])
        own = files.own_facts_drift(folder, op, name, certificate, task, texts)
    except (InputError, EvidenceError) as error:
        return _add(known, _unreadable(folder, op, name, error))
    known = _add(known, *([own] if own else []))
    return _compare(known, certificate, task, texts[layout.KERNEL], device, sandbox, secret)


def _compare(
    known: OpFindings,
    certificate: Certificate,
    task: Task,
    source: str,
    device: Device,
    sandbox: Sandbox,
    secret: int,
) -> OpFindings:
    """Runs winner and seed, and concludes."""
    facts = device.describe()
    here = epoch(task, facts)
    known = replace(_add(known, *files.epoch_drifts(certificate, facts)), epoch_here=here)
    author = "person"  # whoever wrote it: the text in the folder is what is judged
    winner = Subject(candidate=new_candidate(source, task.name, author=author), role="launcher")
    with Bench(task, device, sandbox, limits_on(device.name)) as bench:
        seen = comparing.with_seed(bench, winner, secret)
        matched = comparing.Compared(holds=None, cases={}, drifts=())
        if seen.cases:
            matched = comparing.with_digests(
                bench, winner, certificate.digests, certificate.digest_seed
            )
    known = _add(known, *seen.drifts, *matched.drifts)
    lang = any(each.kind == "lang_differs" for each in known.drifts)
    changed = {Path(each.file).name for each in known.drifts if each.kind in FILE_KINDS}
    equals = seen.holds
    # Equal to something, but nothing shows that it is the seed that was certified.
    if equals and (changed & {layout.SEED, layout.LANG, layout.CERTIFICATE} or lang):
        equals = None
    matches = False if changed else matched.holds
    return replace(
        known,
        equals_seed_here=equals,
        matches_certificate=matches,
        cases=tuple(
            CaseFacts(
                case=case.id,
                path=comparing.path_of(task, case),
                equals_seed_here=seen.cases.get(case.id),
                matches_certificate=matched.cases.get(case.id),
            )
            for case in task.cases
        ),
    )


def _lacking(certificate: Certificate, device: Device) -> Drift | None:
    """Why nothing can be said here: a verdict is about the device it was reached on."""
    message = ""
    if certificate.device != device.name:
        message = (
            f"certified on {certificate.device}, asked for on {device.name}: a verdict on one "
            "device says nothing of another"
        )
    else:
        try:
            device.describe()
        except MissingError as error:
            message = error.message
    if not message:
        return None
    return Drift(
        kind="device_differs",
        expected=certificate.device,
        actual=device.name if certificate.device != device.name else files.MISSING,
        message=message,
    )


def _unreadable(folder: Path, op: str, name: str, error: KernelsmithError) -> Drift:
    path = layout.certificate_path(folder, op, name)
    return Drift(
        kind="certificate_unreadable",
        expected="a certificate",
        actual="none that can be read" if path.exists() else files.MISSING,
        message=error.message,
        file=path.relative_to(folder).as_posix(),
    )


def _text(path: Path) -> str | None:
    """None: it is missing, or no text; its hash says so too."""
    try:
        data = layout.content(path)
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _drift(kind: Kind, message: str) -> Drift:
    return Drift(kind=kind, expected="runs", actual="fails", message=message)


def _add(found: OpFindings, *drifts: Drift) -> OpFindings:
    return replace(found, drifts=(*found.drifts, *drifts))
