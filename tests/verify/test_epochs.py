"""``library list`` and ``library rollback``."""

import json
from pathlib import Path

import pytest

from kernelsmith.library import layout, placing
from tests.verify.conftest import Kit, add_epoch


@pytest.fixture
def two(kit: Kit) -> tuple[Kit, str, str]:
    """The toy op in an older and a newer epoch; the newer is used."""
    newer = add_epoch(kit.folder, triton="3.9.0")
    return kit, kit.epoch, newer


def current(folder: Path) -> str:
    return layout.read(folder).ops["toy"].current


def test_epochs_are_listed_oldest_first_with_what_they_were_certified_on(
    two: tuple[Kit, str, str],
) -> None:
    kit, older, newer = two
    code, out, _ = kit("library", "list", str(kit.folder), "--json")
    (op,) = json.loads(out)["ops"]
    shown = [(f"e{each['epoch']}", each["current"]) for each in op["epochs"]]
    assert (code, shown) == (0, [(older, False), (newer, True)])
    assert op["epochs"][1]["versions"]["triton"] == "3.9.0"
    code, out, _ = kit("library", "list", str(kit.folder))
    assert code == 0
    line = next(line for line in out.splitlines() if newer in line)
    assert "current" in line
    assert "cpu, Triton 3.9.0" in line
    assert "1.200x" in line


def test_an_unreadable_certificate_is_listed_with_what_is_wrong(
    two: tuple[Kit, str, str],
) -> None:
    kit, older, _ = two
    layout.certificate_path(kit.folder, "toy", older).unlink()
    code, out, _ = kit("library", "list", str(kit.folder))
    assert code == 0
    assert older in out
    assert "cannot read the certificate" in out


def test_rollback_uses_the_older_epoch_and_comes_back(two: tuple[Kit, str, str]) -> None:
    kit, older, newer = two
    code, out, _ = kit("library", "rollback", older, str(kit.folder))
    assert (code, out) == (0, f"toy: uses {older}, used {newer}\n")
    assert current(kit.folder) == older
    assert layout.read(kit.folder).ops["toy"].epochs == (older, newer)
    assert kit("verify", str(kit.folder), "--strict")[0] == 0
    assert kit("library", "rollback", newer[1:9], str(kit.folder))[0] == 0
    assert current(kit.folder) == newer
    code, out, _ = kit("library", "rollback", newer, str(kit.folder))
    assert (code, out) == (0, f"{newer} is what is used already\n")


@pytest.mark.parametrize("epoch", ["0000", "", "e", "kernel.py"])
def test_an_unknown_or_ambiguous_epoch_changes_nothing(
    two: tuple[Kit, str, str], epoch: str
) -> None:
    kit, _, _ = two
    before = (kit.folder / layout.INDEX).read_bytes()
    code, _, err = kit("library", "rollback", epoch, str(kit.folder))
    assert code == 2
    assert "hint: `kernelsmith library list" in err
    assert (kit.folder / layout.INDEX).read_bytes() == before


def test_an_epoch_that_was_touched_is_not_switched_to(two: tuple[Kit, str, str]) -> None:
    kit, older, newer = two
    (kit.folder / "toy" / older / layout.SEED).unlink()
    code, _, err = kit("library", "rollback", older, str(kit.folder))
    assert (code, "seed.py is missing" in err) == (2, True)
    assert current(kit.folder) == newer


def test_an_index_that_cannot_be_written_stays_whole(
    two: tuple[Kit, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kit, older, newer = two
    names = sorted(kit.folder.iterdir())

    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    code, _, err = kit("library", "rollback", older, str(kit.folder))
    assert (code, "No space left" in err) == (4, True)
    assert current(kit.folder) == newer
    assert sorted(kit.folder.iterdir()) == names


def test_a_rollback_waits_for_no_export(two: tuple[Kit, str, str]) -> None:
    kit, older, newer = two
    with placing.alone(kit.folder.parent):
        code, _, err = kit("library", "rollback", older, str(kit.folder))
    assert (code, "another export or rollback is writing" in err) == (2, True)
    assert current(kit.folder) == newer


def test_what_is_no_library_has_no_epochs(kit: Kit, tmp_path: Path) -> None:
    assert kit("library", "list", str(tmp_path))[0] == 2
    assert kit("library", "rollback", "e0", str(tmp_path))[0] == 2
