"""Task definitions on record: what a run judged by, so that a verdict can be repeated from the
database alone, whatever became of the task's file."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection, select

from kernelsmith.errors import DatabaseError
from kernelsmith.lineage import records
from kernelsmith.lineage.models import Blob
from kernelsmith.model import Task


def task_of(definition: Mapping[str, Any]) -> Task:
    """The task of ``records.plain(task)``: equal to it, and its seed's source is in it.

    Raises:
        ValidationError: it is no definition.
    """
    return TypeAdapter(Task).validate_python(definition)


def definition(connection: Connection, options: Mapping[str, Any], task: str) -> Task | None:
    """The task as the run began with it; None for a run of a version that kept none.

    Args:
        options: the run's, as recorded.

    Raises:
        DatabaseError: what is on record is no task definition.
    """
    name = options.get("definitions", {}).get(task)
    if name is None:
        return None
    packed = connection.execute(select(Blob.zstd).where(Blob.hash == name)).scalar()
    if packed is None:
        raise DatabaseError(f"the definition of task {task} is missing from the database: {name}")
    data = records.decompress(packed)
    try:
        return task_of(json.loads(data))
    except (ValueError, ValidationError) as error:
        raise DatabaseError(
            f"the definition of task {task} on record is none of this version's: {error}",
            hint="`kernelsmith lineage verify` says whether it was edited",
        ) from error
