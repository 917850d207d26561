"""What ``doctor`` looks at: Python, packages, device, sandbox, proposer, database, tasks."""

import secrets
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelsmith import assembly, config, proving
from kernelsmith.errors import (
    DatabaseError,
    InputError,
    KernelsmithError,
    MissingError,
    StorageError,
    TaskError,
)
from kernelsmith.wiring import Wiring, proposer_names, versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at. ``detail`` says what will be used or what is wrong."""

    name: str
    ok: bool
    detail: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """Everything that was looked at. ``gate``: the self-proof, summed over tasks."""

    ok: bool
    device: dict[str, Any] | None
    sandbox: dict[str, Any] | None
    proposer: str
    tasks: tuple[str, ...]
    checks: tuple[Check, ...]
    gate: dict[str, Any] | None


def examine(
    wiring: Wiring,
    *,
    device: str,
    sandbox: str,
    proposer: str,
    task_folders: tuple[Path, ...],
    db: Path,
    gate: bool,
    agent: Mapping[str, Any] | None = None,
) -> Checkup:
    """Looks at everything a run needs; writes nothing, calls no model. ``agent``: the file's table.

    Raises:
        InputError: an option names what does not exist.
        EvidenceError: ``gate`` was asked for and the gate failed its proof.
    """
    with ExitStack() as stack:
        facts: dict[str, Any] = {}

        def see_device() -> str:
            facts["device"] = wiring.device(wiring.device_name(device)).describe()
            return _line(facts["device"])

        def see_sandbox() -> str:
            box = wiring.sandbox(sandbox, True)
            stack.callback(box.close)
            facts["sandbox"] = box.describe()
            facts["box"] = box
            walls = [
                each for each in wiring.walls() if each["name"] != facts["sandbox"].get("name")
            ]
            others = "".join(
                f"; {each['name']}: {'could stand' if each['available'] else each['detail']}"
                for each in walls
            )
            return _line(facts["sandbox"]) + others

        names, tasks_check = _see_tasks(wiring, task_folders)
        checks = [
            _look("python", _see_python),
            _look("packages", _see_packages),
            _look("device", see_device),
            _look("sandbox", see_sandbox),
            _look("proposer", lambda: _see_proposer(proposer, agent)),
            _look("database", lambda: _see_database(db)),
            _look("room", lambda: _see_room(db)),
            tasks_check,
        ]
        ok = all(check.ok for check in checks)
        proof = None
        if gate and ok:
            proof = _prove(wiring, names, device, task_folders, facts["box"], stack)
    return Checkup(
        ok=ok,
        device=facts.get("device"),
        sandbox=facts.get("sandbox"),
        proposer=proposer,
        tasks=names,
        checks=tuple(checks),
        gate=proof,
    )


def fields(report: Checkup) -> dict[str, Any]:
    """The JSON contract of ``doctor``."""
    found = {
        "ok": report.ok,
        "device": report.device,
        "sandbox": report.sandbox,
        "proposer": report.proposer,
        "checks": list(report.checks),
    }
    return found if report.gate is None else {**found, "gate": report.gate}


def _look(name: str, see: Callable[[], str]) -> Check:
    try:
        return Check(name=name, ok=True, detail=see())
    except (DatabaseError, TaskError) as error:
        return Check(name=name, ok=False, detail=error.message, hint=error.hint or "")
    except InputError:
        raise  # an option's value is wrong; this machine may be well
    except KernelsmithError as error:
        return Check(name=name, ok=False, detail=error.message, hint=error.hint or "")


def _see_proposer(proposer: str, table: Mapping[str, Any] | None) -> str:
    """What would be used; where the agent is not named, whether it could be."""
    names = proposer_names(proposer)
    try:
        settings = config.agent_settings(table or {})
        endpoint = config.endpoint()
    except MissingError as error:
        if "agent" in names:
            raise
        return f"{proposer} (agent: {error.message})"
    limit = "no dollar limit" if settings.budget_usd is None else f"${settings.budget_usd} a run"
    ready = f"{settings.model} at {endpoint.base_url}, {limit}; no call was made"
    return f"{proposer}: {ready}" if "agent" in names else f"{proposer} (agent: {ready})"


def _see_python() -> str:
    return f"{sys.version.split()[0]} on {sys.platform}"


def _see_packages() -> str:
    from kernelsmith.devices.cpu.versions import require_triton

    found = versions()
    missing = [name for name, version in found.items() if version == "missing"]
    if missing:
        raise MissingError(f"not installed: {', '.join(missing)}", hint="`make setup`")
    require_triton()
    return ", ".join(f"{name} {version}" for name, version in found.items())


def _see_room(db: Path) -> str:
    """What there is for the record, for jobs and in memory; what a run would wait for."""
    rooms = assembly.rooms(db)
    if short := rooms.shortage():
        raise StorageError(short, hint="free some; a run waits until there is enough")
    return rooms.line()


def _see_database(db: Path) -> str:
    from kernelsmith.lineage import queries
    from kernelsmith.lineage.database import can_create, can_write, open_for_reading

    if db.exists():
        can_write(db)
    else:
        can_create(db)
        return f"{db} (the first run makes it)"
    try:
        database = open_for_reading(db)
    except DatabaseError as error:
        if "holds no runs" in error.message:
            return f"{db} (empty)"
        raise
    try:
        with database.reading() as connection:
            count = len(queries.run_ids(connection))
    finally:
        database.close()
    return f"{db} ({count} run{'' if count == 1 else 's'})"


def _see_tasks(wiring: Wiring, folders: tuple[Path, ...]) -> tuple[tuple[str, ...], Check]:
    try:
        found = wiring.list_tasks(folders)
    except KernelsmithError as error:
        return (), Check(name="tasks", ok=False, detail=error.message, hint=error.hint or "")
    good = tuple(each.name for each in found if not each.problem)
    bad = [f"{each.name}: {each.problem}" for each in found if each.problem]
    if bad or not good:
        return good, Check(name="tasks", ok=False, detail="; ".join(bad) or "there are none")
    return good, Check(name="tasks", ok=True, detail=", ".join(good))


def _prove(
    wiring: Wiring,
    names: tuple[str, ...],
    device: str,
    folders: tuple[Path, ...],
    sandbox: Any,
    stack: ExitStack,
) -> dict[str, Any]:
    device_name = wiring.device_name(device)
    began_s = time.monotonic()
    judges = {}
    for name in names:
        task = wiring.load_task(name, device_name, folders)
        judges[name] = wiring.judge(
            task, wiring.device(device_name), sandbox, secrets.randbits(128)
        )
        stack.callback(judges[name].close)
    proofs = proving.prove_all(wiring.prove, judges, whole=True)
    return proving.summary(proofs, time.monotonic() - began_s)


def _line(facts: dict[str, Any]) -> str:
    """The plain values of a description, on one line."""
    plain = [f"{k} {v}" for k, v in facts.items() if isinstance(v, str | int | float)]
    return ", ".join(plain)
