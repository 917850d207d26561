"""What an export asks of the lineage: where in the chain a verdict stands."""

from sqlalchemy import Connection, select

from kernelsmith.errors import InputError
from kernelsmith.lineage.models import ExportRow, Step, VerdictRow
from kernelsmith.lineage.reviews import has_table


def certificates(connection: Connection) -> frozenset[str]:
    """SHA-256 of every certificate that an export wrote."""
    if not has_table(connection, "exports"):
        return frozenset()
    return frozenset(connection.execute(select(ExportRow.certificate_hash)).scalars())


def verdict_head(connection: Connection, record: str) -> str:
    """The chain's digest at the step that recorded a candidate's verdict: it binds the verdict and
    everything before it.

    Raises:
        InputError: it has no verdict.
    """
    query = (
        select(Step.digest)
        .join(VerdictRow, VerdictRow.step == Step.seq)
        .where(VerdictRow.record == record)
    )
    digest = connection.execute(query).scalar()
    if digest is None:
        raise InputError(f"candidate record {record} has no verdict")
    return str(digest)
