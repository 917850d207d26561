"""``review``: what waits, one candidate's page, and decisions from scripts and on a terminal."""

import json
import os
import pty
import re
import select
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kernelsmith import config
from kernelsmith.lineage.store import open_store
from kernelsmith.processes import this_process
from tests.cli.asking import Kernelsmith, one_error_line, run_of
from tests.loop import fakes

PROGRAM = [sys.executable, str(Path(__file__).parents[1] / "loop" / "fake_wiring.py")]
TASK = fakes.make_task()
SEED = fakes.seed_of(TASK)


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "gitconfig").write_text("[user]\n\tname = Grace Hopper\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))


def listed(kernelsmith: Kernelsmith, *words: str) -> list[dict[str, Any]]:
    code, out, _ = kernelsmith("review", "--json", *words)
    assert code == 0
    return list(json.loads(out)["candidates"])


def winner_of(kernelsmith: Kernelsmith) -> str:
    return str(run_of(kernelsmith)["tasks"][0]["incumbent"])


def test_it_lists_what_stands_first_and_marks_what_was_superseded(kernelsmith: Kernelsmith) -> None:
    winner = winner_of(kernelsmith)
    code, out, err = kernelsmith("review")
    assert (code, err) == (0, "")
    lines = [line for line in out.splitlines() if line.startswith("  ") and " toy " in line]
    assert len(lines) == 3
    assert lines[0].split()[:5] == [winner, "toy", "1.200x", "1.190–1.210", "search"]
    assert lines[0].endswith("stands")
    assert all(line.endswith(f"superseded by {winner}") for line in lines[1:])
    assert f"kernelsmith review --approve {winner} --note TEXT" in out
    first, *others = listed(kernelsmith)
    assert (first["candidate"], first["place"], first["approvable"]) == (winner, "stands", True)
    assert {each["why_not"] for each in others} == {"it was not timed against the seed"}


def test_a_decision_from_a_script_takes_it_off_the_list_and_undo_puts_it_back(
    kernelsmith: Kernelsmith,
) -> None:
    winner = winner_of(kernelsmith)
    code, out, _ = kernelsmith("review", "--approve", winner[:8], "--note", "reads well")
    assert (code, f"{winner}  approved by Grace Hopper, " in out) == (0, True)
    assert out.endswith("UTC: reads well\n")
    assert winner not in [each["candidate"] for each in listed(kernelsmith)]
    decided = next(each for each in listed(kernelsmith, "--all") if each["candidate"] == winner)
    assert decided["decision"]["decision"] == "approve"
    code, out, _ = kernelsmith("review", "--reject", winner, "--reviewer", "Ada", "--json")
    said = json.loads(out)
    assert (said["decision"], said["reviewer"], said["stands"]["reviewer"]) == (
        "reject",
        "Ada",
        "Ada",
    )
    _, out, _ = kernelsmith("review", "--undo", winner)
    assert "taken back; now approved by Grace Hopper" in out
    _, out, _ = kernelsmith("review", "--undo", winner)
    assert "now it waits again" in out
    assert kernelsmith("lineage", "verify")[0] == 0


def test_the_same_decision_twice_is_one_decision(kernelsmith: Kernelsmith) -> None:
    winner = winner_of(kernelsmith)
    for _ in range(2):
        assert kernelsmith("review", "--approve", winner)[0] == 0
    _, out, _ = kernelsmith("review", "--undo", winner)
    assert "now it waits again" in out


def test_the_page_shows_the_change_the_checks_the_gain_and_who_made_it(
    kernelsmith: Kernelsmith,
) -> None:
    winner = winner_of(kernelsmith)
    code, out, err = kernelsmith("review", winner)
    assert (code, err) == (0, "")
    for part in (
        f"candidate  {winner} of toy",
        "author     search, ",
        "the seed",
        "--- a/seed_kernels/toy.py",
        "-# the seed of toy",
        "accepted (cpu)",
        "? trace          passed, but what it compared is not on record",
        "– order          not checked",
        "unchecked  order",
        "how much faster than the seed: 1.200x (1.190 to 1.210, 20 sessions)",
        "1.200x  infer  m16",
        "place      stands",
        f"kernelsmith review --approve {winner} --note TEXT",
    ):
        assert part in out
    _, out, _ = kernelsmith("review", winner, "--json")
    page = json.loads(out)
    assert (page["schema"], page["approvable"]) == ("kernelsmith.review_candidate/1", True)
    assert page["diff"].startswith("diff --git a/seed_kernels/toy.py b/seed_kernels/toy.py\n")
    assert page["ancestry"][-1] == {"candidate": SEED.id, "what": "the seed"}
    assert [each["check"] for each in page["believed"]] == ["policy", "trace", "order", "confirm"]


def test_what_was_not_accepted_or_not_timed_is_refused_and_nothing_is_recorded(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    run_of(kernelsmith)
    superseded = listed(kernelsmith)[1]["candidate"]
    _, out, _ = kernelsmith("show", "latest", "--json")
    newest = json.loads(out)["newest"]
    rejected = next(each["id"] for each in newest if each["status"] == "BITS_DIFFER")
    for name, says in (
        (superseded, "it was not timed against the seed"),
        (rejected, "its verdict is BITS_DIFFER"),
        (SEED.id, "it has no verdict"),
    ):
        code, out, err = kernelsmith("review", "--approve", name)
        assert (code, out) == (2, "")
        assert f"candidate {name} cannot be approved: {says}" in one_error_line(err)
        _, out, _ = kernelsmith("review", name)
        assert f"it cannot be approved: {says}" in out
        assert "--approve" not in out
    plain = sqlite3.connect(tmp_path / "runs.db")
    assert plain.execute("SELECT count(*) FROM reviews").fetchone() == (0,)
    plain.close()


def test_rejecting_an_ancestor_shows_in_the_list_the_page_and_show(
    kernelsmith: Kernelsmith,
) -> None:
    winner = winner_of(kernelsmith)
    _, out, _ = kernelsmith("show", winner, "--json")
    ancestor = json.loads(out)["parents"][0]["candidate"]
    assert kernelsmith("review", "--approve", winner)[0] == 0
    assert kernelsmith("review", "--reject", ancestor, "--note", "unsafe")[0] == 0
    says = f"its ancestor {ancestor} was rejected after it was timed against the seed"
    found = next(each for each in listed(kernelsmith, "--all") if each["candidate"] == winner)
    assert (found["place"], found["why_not"]) == ("unsupported", says)
    _, out, _ = kernelsmith("review", winner)
    assert f"place      unsupported: {says}" in out
    assert f"from {ancestor}  " in out
    assert "rejected by Grace Hopper" in out
    _, out, _ = kernelsmith("show", winner)
    assert f"unsupported: {says}" in out
    assert "review     approved by Grace Hopper" in out
    assert kernelsmith("review", "--undo", ancestor)[0] == 0
    found = next(each for each in listed(kernelsmith, "--all") if each["candidate"] == winner)
    assert found["place"] == "stands"


def record(path: Path, options: dict[str, Any], source: str, note: str, author: str) -> str:
    """A run of one accepted, timed candidate; its id."""
    store = open_store(path)
    given = {"options": options, "process": this_process()}
    run_id = store.append("", "run", fakes.run_payload([TASK], **given))
    candidate = fakes.make_candidate(source, parents=(SEED.id,))
    candidate = type(candidate)(
        id=candidate.id,
        task="toy",
        source=source,
        parents=(SEED.id,),
        author=author,
        note=note,
    )
    store.append(run_id, "candidate", {"candidate": candidate, "normal_hash": "0"})
    facts = {"seconds": 1.0, "elapsed_s": 1.0, "gain_vs_seed": 1.1}
    store.append(run_id, "verdict", {"verdict": fakes.make_verdict(candidate), **facts})
    timed = {"holds": True, "gain": fakes.make_gain(1.2, SEED.id, 20), "evidence": {}}
    at = {"task": "toy", "candidate": candidate.id, "elapsed_s": 2.0}
    store.append(run_id, "retiming", {**timed, **at})
    store.close()
    return candidate.id


def test_what_an_author_wrote_is_shown_and_never_obeyed(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    evil = "\x1b[2J\x1b]0;title\x07 \u202e[bold]"
    source = f"# the seed of toy\n# {evil}\n"
    name = record(tmp_path / "runs.db", {}, source, f"{evil}\nplace      stands", "agent")
    code, out, _ = kernelsmith("review", name)
    assert code == 0
    assert not re.search("[\x1b\x07\u202e]", out)
    assert "+# \\x1b[2J\\x1b]0;title\\x07 \\u202e[bold]" in out
    assert [line for line in out.splitlines() if line.startswith("place ")] == ["place      stands"]
    _, out, _ = kernelsmith("review", "--reject", name, "--note", f"no {evil}")
    assert "\x1b" not in out


def test_a_rehearsals_winner_may_be_approved_and_says_what_proposed_it(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    agent = {"agent": {"model": "m", "rehearsal": True}}
    name = record(tmp_path / "runs.db", agent, "# faster\n", "", "agent")
    assert listed(kernelsmith)[0]["rehearsal"] is True
    for words in (("review",), ("review", name)):
        assert "agent (scripted replies, not a model)" in kernelsmith(*words)[1]
    assert kernelsmith("review", "--approve", name)[0] == 0


def test_a_note_is_kept_short_and_a_reviewer_is_one_line(kernelsmith: Kernelsmith) -> None:
    name = winner_of(kernelsmith)
    for words, says in (
        (("--note", "x" * 4001), "the note has 4,001 characters"),
        (("--note", "bad \udcff"), "the note is not UTF-8"),
        (("--reviewer", "Ada\nBob"), "no reviewer is called 'Ada\\nBob'"),
        (("--reviewer", "A\x1b[31m"), "no reviewer is called"),
        (("--reviewer", "a" * 101), "no reviewer is called"),
    ):
        code, out, err = kernelsmith("review", "--reject", name, *words)
        assert (code, out) == (2, "")
        assert says in one_error_line(err)
    assert listed(kernelsmith)[0]["decision"] is None
    assert kernelsmith("review", "--reject", name, "--note", f" {'y' * 3000}\nmore ")[0] == 0
    decided = next(each for each in listed(kernelsmith, "--all") if each["candidate"] == name)
    assert decided["decision"]["note"] == f"{'y' * 3000}\nmore"
    _, out, _ = kernelsmith("review", "--all")
    assert max(map(len, out.splitlines())) < 250
    assert "yyy …" in out


def test_nothing_is_approved_of_a_lineage_that_was_edited(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    name = winner_of(kernelsmith)
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("UPDATE retimings SET holds = 1, elapsed_s = 0")
    connection.close()
    code, out, err = kernelsmith("review", "--approve", name)
    assert (code, out) == (5, "")
    assert "the lineage was edited after it was recorded" in one_error_line(err)
    assert kernelsmith("review", "--reject", name)[0] == 0


def test_an_empty_id_names_nothing(kernelsmith: Kernelsmith) -> None:
    """What a script makes of a variable that is not set."""
    run_of(kernelsmith)
    for words in (
        ("review", "--approve", ""), ("review", "--reject", " "), ("review", ""), ("show", ""),
        ("stop", ""), ("resume", ""), ("diff", ""), ("gate", "--again", ""),
    ):  # fmt: skip
        code, out, err = kernelsmith(*words)
        assert (code, out) == (2, "")
        assert "names none" in one_error_line(err)


def test_a_rehearsals_winner_that_is_judged_again_stays_labelled(
    kernelsmith: Kernelsmith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KS_STATUS", "ACCEPTED")
    agent = {"agent": {"model": "m", "rehearsal": True}}
    name = record(tmp_path / "runs.db", agent, "# faster\n", "", "agent")
    assert kernelsmith("gate", "--again", name)[0] == 0
    assert [each["rehearsal"] for each in listed(kernelsmith)] == [True, True]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--approve", "aa", "--reject", "bb"), "one decision at a time"),
        (("--note", "because"), "--note is for a decision"),
        (("zz",), "no candidate 'zz'"),
        (("--approve", "zz"), "no candidate 'zz'"),
        (("--approve", "latest", "--reviewer", " "), "--reviewer is ' '"),
    ],
)
def test_what_cannot_be_done_is_one_line_with_a_hint(
    kernelsmith: Kernelsmith, words: tuple[str, ...], says: str
) -> None:
    run_of(kernelsmith)
    code, out, err = kernelsmith("review", *words)
    assert (code, out) == (2, "")
    assert says in one_error_line(err)


def test_who_decides_is_gits_user_then_the_login_then_must_be_named(
    kernelsmith: Kernelsmith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = dict(os.environ)
    assert config.user_name(here) == "Grace Hopper"
    nobody = {**here, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    assert config.user_name({**nobody, "USER": "grace"}) == "grace"
    assert config.user_name({**here, "PATH": "", "USER": "grace"}) == "grace"
    winner = winner_of(kernelsmith)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    monkeypatch.delenv("USER", raising=False)
    code, _, err = kernelsmith("review", "--approve", winner)
    assert (code, "who decides is not known" in one_error_line(err)) == (2, True)


def on_terminal(folder: Path, words: list[str], answers: list[tuple[str, str]]) -> tuple[int, str]:
    """Runs a command on a pseudo-terminal; types each answer when its question stands there."""
    parent, child = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    process = subprocess.Popen(
        [*PROGRAM, *words], cwd=folder, stdin=child, stdout=child, stderr=child, env=env
    )
    os.close(child)
    said, seen = "", 0
    try:
        for question, answer in answers:
            while question not in said[seen:]:
                assert select.select([parent], [], [], 60)[0], f"no {question!r} in {said}"
                said += os.read(parent, 65536).decode(errors="replace")
            seen = said.index(question, seen) + len(question)
            if answer != CTRL_C:
                os.write(parent, answer.encode())
            until_s = time.monotonic() + 60
            while answer == CTRL_C and not select.select([parent], [], [], 0.2)[0]:
                assert time.monotonic() < until_s, f"Ctrl-C is not heard after {said}"
                process.send_signal(signal.SIGINT)  # one just before the read is not heard by it
        while select.select([parent], [], [], 60)[0]:
            try:
                more = os.read(parent, 65536)
            except OSError:  # the other side is closed: Linux says EIO
                break
            if not more:
                break
            said += more.decode(errors="replace")
    finally:
        os.close(parent)
    return process.wait(60), said


CTRL_C = "\x03"
ASK = "[a]pprove, [r]eject, [s]kip, [q]uit? "


def test_on_a_terminal_it_shows_each_winner_in_colour_and_asks(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    assert kernelsmith("run", "toy", "other", "--max-candidates", "12", "--seed", "4")[0] == 0
    names = [each["candidate"] for each in listed(kernelsmith) if each["approvable"]]
    assert len(names) == 2
    answers = [(ASK, "maybe\n"), (ASK, "a\n"), ("note (why; Enter for none): ", "fine\n")]
    code, said = on_terminal(tmp_path, ["review"], [*answers, (ASK, "s\n")])
    assert code == 0
    assert "1 of 2" in said
    assert "\x1b[32m+# toy" in said or "\x1b[32m+# other" in said
    assert f"{names[0]}  approved by Grace Hopper" in said
    found = {each["candidate"]: each["decision"] for each in listed(kernelsmith, "--all")}
    assert found[names[0]]["note"] == "fine"
    assert found[names[1]] is None


def test_what_cannot_be_approved_is_asked_without_it_and_the_end_of_input_quits(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    run_of(kernelsmith)
    superseded = listed(kernelsmith)[1]["candidate"]
    ask = "[r]eject, [s]kip, [q]uit? "
    code, said = on_terminal(tmp_path, ["review", superseded], [(ask, "a\n"), (ask, "\x04")])
    assert code == 0
    assert "[a]pprove" not in said
    assert all(each["decision"] is None for each in listed(kernelsmith, "--all"))


def test_ctrl_c_at_the_question_leaves_what_was_decided(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    winner = winner_of(kernelsmith)
    code, said = on_terminal(tmp_path, ["review", winner], [(ASK, CTRL_C)])
    assert (code, "error: interrupted" in said) == (130, True)
    assert kernelsmith("lineage", "verify")[0] == 0
