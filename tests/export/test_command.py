"""``kernelsmith export``: exit codes, one line a refusal, one JSON document."""

import json
from pathlib import Path

import pytest

from kernelsmith.cli import shipping
from kernelsmith.cli.main import main
from kernelsmith.lineage.database import open_for_reading
from tests.export.conftest import Shipped
from tests.export.lineages import Lineage


def test_without_a_database_none_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tmp_path / "none.db"
    assert main(["export", "--to", str(tmp_path / "out"), "--db", str(db)]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_is_one_line_with_a_hint(
    lineage: Lineage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    candidate, _ = lineage.accepted("# a\n")
    lineage.timed(candidate)
    words = ["export", "latest", "--to", str(tmp_path / "out"), "--db", str(lineage.path)]
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        f"error: nothing to export: not approved yet: rms_norm {candidate.id}",
        f"hint: `kernelsmith review --approve {candidate.id}`",
    ]
    assert not (tmp_path / "out").exists()


def test_a_run_that_is_not_there(
    lineage: Lineage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", "ffff", "--to", str(tmp_path / "out"), "--db", str(lineage.path)]
    assert main(words) == 2
    assert "no run 'ffff' in this database" in capsys.readouterr().err


def test_the_document_says_what_was_exported(
    shipped: Shipped, capsys: pytest.CaptureFixture[str]
) -> None:
    shipping.tell(shipped.done, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "kernelsmith.export/1"
    assert found["package"] == "our_kernels"
    (op,) = found["ops"]
    assert (op["op"], op["candidate"], op["device"]) == ("rms_norm", shipped.winner, "cpu")
    assert op["unchecked"] == ["order"]
    assert op["gain"]["geomean"] == 1.5
    assert op["autograd"] is True
    assert op["no_autograd_because"] is None


def test_people_are_told_the_gain_the_device_and_what_was_not_checked(
    shipped: Shipped, capsys: pytest.CaptureFixture[str]
) -> None:
    shipping.tell(shipped.done, as_json=False)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == f"exported to {shipped.folder}"
    assert lines[1] == f"rms_norm     {shipped.winner}  1.500x (1.400 to 1.600, 20 sessions)"
    assert lines[2] == f"certified on cpu, epoch {shipped.done.ops[0].epoch}"
    assert "unchecked: order" in lines
    assert "from our_kernels import rms_norm" in lines


def test_the_lineage_records_each_op_that_left(shipped: Shipped) -> None:
    database = open_for_reading(shipped.lineage.path)
    with database.reading() as connection:
        query = "SELECT record, run_id, task, folder, certificate_hash FROM exports ORDER BY step"
        first = connection.exec_driver_sql(query).first()
    database.close()
    assert first is not None
    assert tuple(first) == (
        shipped.record,
        shipped.lineage.run_id,
        "rms_norm",
        str(shipped.folder),
        shipped.done.ops[0].certificate_hash,
    )
