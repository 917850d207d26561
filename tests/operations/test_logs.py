"""The structured log: every record is a line of JSON, complete, rotatable and without secrets."""

import json
import logging
import re
import threading
from datetime import datetime
from pathlib import Path

import pytest

from kernelsmith.cli.main import main
from kernelsmith.config import operations
from kernelsmith.errors import InputError
from kernelsmith.operations import logs
from tests.cli.asking import one_error_line
from tests.operations.processes import SHORT, lines

KEY = "sk-ant-0123456789abcdef"
HOOK = "https://hooks.example.com/services/T0/B0/verysecretpath"
LOG = logging.getLogger("kernelsmith.tests")


def read(path: Path) -> list[dict]:
    return lines(path.read_text())


def test_a_run_is_in_its_log_as_it_is_in_its_record(kernelsmith, tmp_path: Path) -> None:
    code, out, _ = kernelsmith("run", "toy", *SHORT, "--log", "run.jsonl", "--json")
    run = json.loads(out)["runs"][0]
    found = read(tmp_path / "run.jsonl")
    assert code == 0
    for each in found:
        assert {"time", "level", "event", "message", "logger", "process", "thread"} <= set(each)
        assert datetime.fromisoformat(each["time"]).utcoffset().total_seconds() == 0
    begun = next(i for i, each in enumerate(found) if each["event"] == "run")
    assert {each.get("run") for each in found[begun:]} == {run["id"]}
    verdicts = [each for each in found if each["event"] == "verdict"]
    assert len(verdicts) == run["tasks"][0]["judged"] == 6
    rejected = next(each for each in verdicts if each["status"] == "BITS_DIFFER")
    assert (rejected["task"], rejected["check"]) == ("toy", "parity.train")
    assert re.fullmatch("[0-9a-f]{16}", rejected["candidate"])
    assert rejected["seconds"] >= 0
    assert "expected 0x3f80" in rejected["message"]
    assert found[-1]["event"] == "finished"
    said = [each["message"] for each in found if each["event"] == "notice"]
    assert any("the gate proved itself" in each for each in said)


def test_a_log_goes_on_behind_what_is_there_and_has_the_level_that_was_asked_for(
    kernelsmith, tmp_path: Path
) -> None:
    words = ("run", "toy", *SHORT, "--log", "run.jsonl")
    assert kernelsmith(*words)[0] == 0
    before = read(tmp_path / "run.jsonl")
    assert kernelsmith(*words, "--log-level", "warning")[0] == 0
    assert read(tmp_path / "run.jsonl") == before
    code, _, err = kernelsmith(*words, "--log-level", "loud")
    assert (code, "no log level 'loud'" in one_error_line(err)) == (2, True)


def test_what_ends_a_run_is_one_line_on_the_terminal_and_whole_in_the_log(
    kernelsmith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KS_PROOF", "fail")
    code, _, err = kernelsmith("run", "toy", "--log", "run.jsonl")
    one_error_line(err)
    last = read(tmp_path / "run.jsonl")[-1]
    assert (code, last["level"], last["error"]) == (5, "error", "EvidenceError")
    assert last["hint"] == "do not trust this gate"
    assert "in prove" in last["traceback"]


def test_no_secret_is_in_the_log_wherever_it_comes_from(tmp_path: Path) -> None:
    environment = {"ANTHROPIC_API_KEY": "notshapedlikeakey", "KERNELSMITH_SUMMARY_WEBHOOK": HOOK}
    settings = operations({}, environment, log=tmp_path / "x.jsonl")
    assert HOOK not in repr(settings)
    assert "notshapedlikeakey" not in repr(settings)
    with logs.opened(tmp_path / "x.jsonl", "info", settings.secrets):
        LOG.warning("posting to %s with %s and notshapedlikeakey", HOOK, KEY)
        LOG.warning("nested", extra={"facts": {"where": ["/services/T0/B0/verysecretpath"]}})
        LOG.warning("a path", extra={"facts": {"where": Path("/services/T0/B0/verysecretpath")}})
        try:
            raise ValueError(f"no answer from {HOOK}")
        except ValueError as error:
            LOG.error("failed", exc_info=error)
    text = (tmp_path / "x.jsonl").read_text()
    for secret in (KEY, "notshapedlikeakey", "verysecretpath"):
        assert secret not in text
    assert len(read(tmp_path / "x.jsonl")) == 4


def test_a_line_stays_a_line_whatever_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What no encoding has, pytest's own record of it could not pass on between processes.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with logs.opened(tmp_path / "x.jsonl", "info", ()):
        LOG.info("two\nlines \x1b[31m \udcff \u2028", extra={"facts": {"odd": object()}})
    (found,) = read(tmp_path / "x.jsonl")
    assert found["message"] == "two\nlines \x1b[31m \udcff \u2028"


def test_a_rotated_log_is_opened_anew_and_one_that_cannot_be_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    with logs.opened(folder / "x.jsonl", "info", ()):
        LOG.info("one")
        (folder / "x.jsonl").rename(folder / "x.jsonl.1")
        LOG.info("two")
        for each in folder.iterdir():
            each.rename(tmp_path / each.name)
        folder.rmdir()
        LOG.info("three")
        LOG.info("four")
    assert [each["message"] for each in read(tmp_path / "x.jsonl.1")] == ["one"]
    assert [each["message"] for each in read(tmp_path / "x.jsonl")] == ["two"]
    assert capsys.readouterr().err.count("cannot be written, the run goes on") == 1
    with pytest.raises(InputError, match="cannot write the log"), logs.opened(tmp_path, "info", ()):
        pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_ends_a_thread_is_in_the_log(tmp_path: Path) -> None:
    def fails() -> None:
        raise RuntimeError("of this thread")

    with logs.opened(tmp_path / "x.jsonl", "info", ()):
        thread = threading.Thread(target=fails, name="doomed")
        thread.start()
        thread.join()
    (found,) = read(tmp_path / "x.jsonl")
    assert (found["event"], found["thread"]) == ("thread_ended", "doomed")
    assert "in fails" in found["traceback"]


def test_without_a_log_nothing_is_printed_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    capsys.readouterr()
    LOG.warning("nobody listens")
    assert capsys.readouterr() == ("", "")
