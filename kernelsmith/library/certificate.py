"""What an exported kernel was shown to be, bound to a numerics epoch: ``certificate.json``.

All of it comes from the lineage but ``digests`` and ``plan_classes``, which the export computes
with the gate's own workers on inputs that anybody can draw again (``digest_seed``).
"""

import dataclasses
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from kernelsmith.errors import InputError
from kernelsmith.library import layout
from kernelsmith.model import Task

SCHEMA: Literal["kernelsmith.certificate/1"] = "kernelsmith.certificate/1"
DIGEST_SEED = 20_260_701
"""Draws the inputs of the digests. Public: these prove nothing about hidden inputs, they name the
bits that an epoch gives."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CaseGainFacts(_Strict):
    """A timed case: time of the seed / time of the winner."""

    case: str
    path: str
    gain: float


class GainFacts(_Strict):
    """The final gain over the seed; ``low``/``high`` as in ``model.Gain``."""

    geomean: float
    low: float
    high: float
    sessions: int
    against: str
    cases: tuple[CaseGainFacts, ...]


class ReviewFacts(_Strict):
    """Who approved, why, and when (UTC)."""

    reviewer: str
    note: str
    at: str


class PlanClassFacts(_Strict):
    """A plan class that was traced, compiled and judged. ``ttir_sha256``: of its text without
    source locations and names (:func:`.digests.class_facts`)."""

    id: str
    kernel: str
    options: dict[str, Any]
    specialisation: str
    ttir_sha256: str


class Certificate(_Strict):
    """``certificate.json``. ``task``: the whole definition but the seed's text, which is
    ``seed.py``. ``record`` and ``head`` name the candidate's record and the step of its verdict in
    the lineage's chain. ``digests``: case id -> output name -> SHA-256 of the winner's bytes on
    ``digest_seed``. ``autograd``: how gradients are wired, or why they are not."""

    schema_name: Literal["kernelsmith.certificate/1"] = Field(default=SCHEMA, alias="schema")
    op: str
    task: dict[str, Any]
    device: str
    device_facts: dict[str, Any]
    epoch: str
    versions: dict[str, str]
    candidate: str
    record: str
    head: str
    run: str
    parents: tuple[str, ...]
    author: str
    gain: GainFacts
    checks: tuple[str, ...]
    unchecked: tuple[str, ...]
    review: ReviewFacts
    digest_seed: int
    digests: dict[str, dict[str, str]]
    files: dict[str, str]
    plan_classes: tuple[PlanClassFacts, ...]
    autograd: dict[str, Any] | str


def text(certificate: Certificate) -> str:
    """The file's text: equal certificates, equal bytes."""
    return layout.document(certificate.model_dump(mode="json", by_alias=True))


def read(path: Path) -> Certificate:
    """A certificate from its file.

    Raises:
        InputError: it is missing or damaged.
    """
    content = layout.content(path)
    if content is None:
        raise InputError(
            f"cannot read the certificate {path}: no such file",
            hint="restore it from version control, or export again",
        )
    try:
        return Certificate.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InputError(
            f"the certificate {path} is damaged: {where}: {first['msg'].lower()}",
            hint="restore it from version control, or export again",
        ) from error


def task_fields(task: Task) -> dict[str, Any]:
    """A task's definition as plain JSON, without the seed's text."""
    fields = TypeAdapter(Task).dump_python(task, mode="json")
    fields.pop("seed_source")
    return dict(fields)


def task_of(certificate: Certificate, seed_source: str) -> Task:
    """The task as the gate takes it.

    Args:
        certificate: whose task.
        seed_source: the seed's text as the gate judges it (``sources.judged`` of ``seed.py``).

    Raises:
        InputError: the certificate's definition is none of a task.
    """
    wanted = {field.name for field in dataclasses.fields(Task)} - {"seed_source"}
    if set(certificate.task) != wanted:
        raise InputError(f"certificate of {certificate.op}: the task's definition is not whole")
    try:
        fields = {**certificate.task, "seed_source": seed_source}
        return TypeAdapter(Task).validate_python(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"certificate of {certificate.op}: task.{where}: {first['msg'].lower()}"
        ) from error
