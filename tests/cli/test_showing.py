"""``show``, ``diff`` and ``gate`` on fakes: contracts and exit codes."""

import json
from pathlib import Path

import pytest

from tests.cli.asking import Kernelsmith, one_error_line, run_of


def test_show_candidate_keeps_its_contract(kernelsmith: Kernelsmith) -> None:
    winner = run_of(kernelsmith)["tasks"][0]["incumbent"]
    code, out, err = kernelsmith("show", winner, "--json")
    shown = json.loads(out)
    assert (code, err) == (0, "")
    assert (shown["schema"], shown["verdict"], shown["status"]) == (
        "kernelsmith.verdict/1",
        "accepted",
        "ACCEPTED",
    )
    names = {"schema", "verdict", "status", "task", "candidate", "epoch", "device", "checks"}
    assert {*names, "gain", "unchecked"} <= set(shown)
    assert {"name", "status", "seconds", "evidence"} <= set(shown["checks"][0])
    assert set(shown["gain"]["cases"][0]) == {"case", "path", "gain"}
    assert shown["unchecked"] == ["order"]
    assert shown["against_seed"]["holds"] is True


def test_show_says_each_check_with_its_evidence_to_people(kernelsmith: Kernelsmith) -> None:
    winner = run_of(kernelsmith)["tasks"][0]["incumbent"]
    _, out, _ = kernelsmith("show", winner[:6])
    for part in ("accepted (cpu)", "confirm", "e_value: 25.6", "unchecked  order", "m16"):
        assert part in out


def test_show_run_lists_it_with_its_newest_candidates(kernelsmith: Kernelsmith) -> None:
    run = run_of(kernelsmith)
    code, out, _ = kernelsmith("show", "latest", "--json")
    shown = json.loads(out)
    assert (code, shown["id"], len(shown["newest"])) == (0, run["id"], 9)
    assert "secret" not in out


def test_show_says_what_is_not_there(kernelsmith: Kernelsmith) -> None:
    run_of(kernelsmith)
    code, _, err = kernelsmith("show", "zz")
    assert (code, "no candidate 'zz'" in one_error_line(err)) == (2, True)


@pytest.mark.parametrize("against", ["parent", "seed"])
def test_diff_is_a_patch_of_the_seeds_file(kernelsmith: Kernelsmith, against: str) -> None:
    winner = run_of(kernelsmith)["tasks"][0]["incumbent"]
    code, out, err = kernelsmith("diff", winner, "--against", against)
    assert (code, err) == (0, "")
    first, old, new, *_ = out.splitlines()
    assert first == "diff --git a/seed_kernels/toy.py b/seed_kernels/toy.py"
    assert (old, new) == ("--- a/seed_kernels/toy.py", "+++ b/seed_kernels/toy.py")
    _, told, _ = kernelsmith("diff", winner, "--against", against, "--json")
    assert json.loads(told)["diff"] == out


@pytest.mark.parametrize(("status", "code"), [("ACCEPTED", 0), ("BITS_DIFFER", 1)])
def test_gate_exits_by_its_verdict(
    kernelsmith: Kernelsmith,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: str,
    code: int,
) -> None:
    monkeypatch.setenv("KS_STATUS", status)
    (tmp_path / "mine.py").write_text("# mine\n")
    found, out, _ = kernelsmith("gate", "mine.py", "--task", "toy", "--json")
    shown = json.loads(out)
    assert (found, shown["status"]) == (code, status)
    assert shown["verdict"] == ("accepted" if code == 0 else "rejected")
    assert kernelsmith("gate", "mine.py", "--task", "toy")[0] == code
    assert not (tmp_path / "runs.db").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "cannot read"), (b"x = '\xff'\n", "is not UTF-8: byte 5"), (b"#" * 300_000, "at most")],
)
def test_gate_refuses_a_file_it_cannot_take_in_one_line(
    kernelsmith: Kernelsmith, tmp_path: Path, content: bytes | None, says: str
) -> None:
    if content is not None:
        (tmp_path / "mine.py").write_bytes(content)
    code, out, err = kernelsmith("gate", "mine.py", "--task", "toy")
    assert (code, out) == (2, "")
    assert says in one_error_line(err)
