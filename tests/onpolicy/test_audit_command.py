"""``kernelsmith audit``: exit codes, documents, files, and a failure that can be repeated."""

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from kernelsmith.cli.main import main
from tests.onpolicy.building import changed, draw, lines, next_up, record

Ran = tuple[int, str, str]
Command = Callable[..., Ran]
TOKENS = 40


@pytest.fixture
def audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.chdir(tmp_path)

    def command(*words: str) -> Ran:
        code = main(["audit", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


def dump(name: str, **other: np.ndarray) -> str:
    """Ten sequences in a file of the folder; ``s4=`` gives one other log-probs."""
    mask = [0] * 5 + [1] * (TOKENS - 5)
    records = [
        record(
            other.get(f"s{s}", draw(TOKENS, s)),
            sequence=f"s{s}",
            mask=mask,
            tokens=list(range(s, s + TOKENS)),
        )
        for s in range(10)
    ]
    lines(Path(name), records)
    return name


def flipped() -> np.ndarray:
    return changed(draw(TOKENS, 4), 22, next_up)


def test_two_identical_dumps_are_on_policy(audit: Command) -> None:
    code, out, err = audit(dump("a.jsonl"), dump("b.jsonl"))
    assert (code, err) == (0, "")
    assert out.startswith("on-policy: 350 of 350 ratios are exactly 1\n")
    code, out, _ = audit("a.jsonl", "b.jsonl", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "kernelsmith.audit/1"
    ratio = {name: document["ratio"][name] for name in ("not_one", "mean", "min", "max")}
    assert ratio == {"not_one": 0, "mean": 1.0, "min": 1.0, "max": 1.0}
    assert document["ratio"]["first_index"] is None
    assert (document["verdict"], document["broken_layer"]) == ("on-policy", None)
    assert document["tokens"] == 350


def test_close_is_printed_as_close_and_not_as_equal(audit: Command) -> None:
    code, out, _ = audit(dump("a.jsonl"), dump("b.jsonl", s4=flipped()))
    assert code == 1
    assert out.startswith("off-policy: the numeric layer is broken\n")
    assert "349 of 350 tokens are exactly 1, 1 are not" in out
    assert "(close, not equal)" in out
    assert "1 ulp of float32" in out
    assert "token 182 (sequence s4" in out
    code, out, _ = audit("a.jsonl", "b.jsonl", "--json")
    document = json.loads(out)
    assert code == 1
    assert document["broken_layer"] == "numeric"
    assert document["ratio"]["first_index"] == 182
    assert document["ratio"]["mean"] != 1.0
    assert [hint["kind"] for hint in document["hints"]]


def test_undecidable_is_exit_5_and_says_what_is_missing(audit: Command) -> None:
    name = dump("a.jsonl")
    Path("cut.jsonl").write_bytes(Path(name).read_bytes()[:-300])
    code, out, err = audit("a.jsonl", "cut.jsonl")
    assert code == 5
    assert out.startswith("undecidable: no difference was seen, and not everything was seen")
    assert "truncated (trainer)" in out
    assert err.startswith("error: undecidable")
    code, out, _ = audit("a.jsonl", "cut.jsonl", "--json")
    assert code == 5
    assert json.loads(out)["verdict"] == "undecidable"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "two dumps are needed"),
        (("a.jsonl",), "two dumps are needed"),
        (("a.jsonl", "nowhere.jsonl"), "is not there"),
        (("a.jsonl", "a.jsonl", "--field", "colour=x"), "maps nothing"),
        (("a.jsonl", "--three"), "--three takes two rollouts"),
        (("replay",), "replay takes a case"),
        (("replay", "a.jsonl"), "no case of an audit"),
        (("--demo", "a.jsonl"), "--demo takes no dumps"),
        (("a.jsonl", "a.jsonl", "--keep", "dumps"), "--keep goes with --demo"),
        (("--three", "a.jsonl", "a.jsonl", "--remedies"), "go with two dumps"),
        (("--demo", "--subset"), "go with two dumps"),
    ],
)
def test_wrong_input_is_one_line_and_a_hint(
    words: tuple[str, ...], what: str, audit: Command
) -> None:
    dump("a.jsonl")
    code, out, err = audit(*words)
    assert (code, out) == (2, "")
    first, second = err.splitlines()
    assert first.startswith("error: ")
    assert what in first
    assert second.startswith("hint: ")


def test_a_failure_is_kept_as_a_small_case_that_replay_repeats(audit: Command) -> None:
    dump("a.jsonl")
    code, out, _ = audit("a.jsonl", dump("b.jsonl", s4=flipped()), "--case", "cases", "--json")
    saved = json.loads(out)["case"]
    assert code == 1
    assert json.loads(Path(saved).read_text())["sequence"] == "s4"
    assert Path(saved).stat().st_size < Path("a.jsonl").stat().st_size // 3
    Path("b.jsonl").unlink()
    code, out, err = audit("replay", saved)
    assert code == 1
    assert out.startswith("off-policy: the numeric layer is broken\n")
    assert "0 of 1" not in out
    assert "case of sequence s4; it was off-policy, the numeric layer" in err
    code, out, _ = audit("replay", saved, "a.jsonl", dump("mended.jsonl"))
    assert code == 0, "the same sequence of new dumps, after a repair"
    assert out.startswith("on-policy: 35 of 35 ratios")
    code, _, _ = audit("replay", saved, "a.jsonl", dump("not.jsonl", s4=flipped(), s1=flipped()))
    assert code == 1


def test_of_numbered_turns_a_case_keeps_those_up_to_the_broken_one(audit: Command) -> None:
    def turns(values: np.ndarray) -> list[dict[str, object]]:
        kept = [draw(TOKENS, 0), values, draw(TOKENS, 2)]
        return [record(one, sequence="s", turn=t) for t, one in enumerate(kept)]

    lines(Path("a.jsonl"), turns(draw(TOKENS, 4)))
    lines(Path("b.jsonl"), turns(flipped()))
    code, out, _ = audit("a.jsonl", "b.jsonl", "--case", "cases", "--json")
    saved = json.loads(out)["case"]
    kept = json.loads(Path(saved).read_text())["dumps"][1]["turns"]
    assert (code, [one["turn"] for one in kept]) == (1, [0, 1])
    code, out, _ = audit("replay", saved, "--json")
    first = json.loads(out)["ratio"]["first"]["place"]
    assert (code, first["turn"], first["token"]) == (1, 1, TOKENS + 22)


def test_three_runs_stop_at_the_first_broken_layer_and_keep_a_case(audit: Command) -> None:
    for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
        dump(name)
    code, out, _ = audit("--three", "a.jsonl", "b.jsonl", "c.jsonl")
    assert code == 0
    assert out.startswith("on-policy: ")
    assert not Path("audit-cases").exists()
    dump("c.jsonl", s4=flipped())
    code, out, _ = audit("--three", "a.jsonl", "b.jsonl", "c.jsonl")
    assert code == 1
    assert out.startswith("off-policy: the numeric layer is broken, A beside C\n")
    assert "run C" not in out.split("A beside C: ")[0]
    (case,) = Path("audit-cases").iterdir()
    code, out, _ = audit("replay", str(case), "--json")
    document = json.loads(out)
    assert (code, document["broken_layer"], document["broken_in"]) == (1, "numeric", "A beside C")
    assert document["rollouts"]["verdict"] == "on-policy"
    assert document["forward"]["ratio"]["not_one"] == 1


def test_three_runs_of_a_provider_without_log_probs_say_so(audit: Command) -> None:
    rows = [
        {"session": "x", "sequence": f"s{s}", "turn": t, "state": f"{s}{t}", "results": ["r"]}
        for s in range(2)
        for t in range(3)
    ]
    lines(Path("a.jsonl"), rows, header=False)
    code, out, _ = audit("--three", "a.jsonl", "a.jsonl")
    assert code == 5
    assert "numeric  not applicable" in out
    assert "the provider gives no log-probs" in out
    rows[4]["results"] = ["other"]
    lines(Path("b.jsonl"), rows, header=False)
    code, out, _ = audit("--three", "a.jsonl", "b.jsonl")
    assert code == 1
    assert out.startswith("off-policy: the state layer is broken, A beside B\n")
    assert "token    undecidable" in out


def test_svg_and_junit_are_well_formed(audit: Command) -> None:
    dump("a.jsonl")
    dump("b.jsonl", s4=flipped())
    code, _, _ = audit("a.jsonl", "b.jsonl", "--svg", "h.svg", "--junit", "j.xml")
    assert code == 1
    svg = ElementTree.parse("h.svg").getroot()
    words = " ".join(text.text or "" for text in svg.iter("{http://www.w3.org/2000/svg}text"))
    assert "349" in words
    assert "exactly 1" in words
    suite = ElementTree.parse("j.xml").getroot().find("testsuite")
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }
    assert suite.find("testcase[@name='numeric']/failure") is not None


@pytest.mark.parametrize("option", ["--svg", "--junit"])
def test_a_file_that_can_have_no_place_is_refused_before_dumps_are_read(
    audit: Command, option: str
) -> None:
    code, out, err = audit("no-such.jsonl", "none.jsonl", option, "missing/h.svg")
    assert (code, out) == (2, "")
    assert "missing is no folder" in err
    Path("taken").mkdir()
    assert "taken is a folder" in audit("no-such.jsonl", "none.jsonl", option, "taken")[2]


def test_a_hostile_name_breaks_neither_the_xml_nor_the_terminal(audit: Command) -> None:
    name = "\x1b[31m<&\u202e\ud800\x00"
    lines(Path("a.jsonl"), [record(draw(9), sequence=name)])
    lines(Path("b.jsonl"), [record(changed(draw(9), 3, next_up), sequence=name)])
    code, out, _ = audit("a.jsonl", "b.jsonl", "--junit", "j.xml", "--svg", "h.svg", "--case", ".")
    assert code == 1
    assert "\x1b" not in out
    ElementTree.parse("j.xml")
    ElementTree.parse("h.svg")
    (case,) = Path().glob("audit-case-*.json")
    assert audit("replay", str(case), "--json")[0] == 1


def test_a_case_keeps_the_names_and_the_infinities_of_its_sequence(audit: Command) -> None:
    name, values = "-Infinity, s1", draw(9)
    lines(Path("a.jsonl"), [record(values, sequence=name)])
    lines(Path("b.jsonl"), [record(changed(values, 3, lambda _: -np.inf), sequence=name)])
    saved = json.loads(audit("a.jsonl", "b.jsonl", "--case", ".", "--json")[1])["case"]
    json.loads(Path(saved).read_text(), parse_constant=pytest.fail)
    code, out, _ = audit("replay", saved, "--json")
    assert (code, json.loads(out)["ratio"]["infinite"]) == (1, 1)
    code, out, _ = audit("replay", saved, "a.jsonl", "a.jsonl")
    assert (code, out.splitlines()[0]) == (0, "on-policy: 9 of 9 ratios are exactly 1")


def test_field_names_are_mapped_on_the_command_line(audit: Command) -> None:
    lines(Path("a.jsonl"), [{"p": [-1.0, -2.0], "t": [1, 2]}], header=False)
    lines(Path("b.jsonl"), [{"q": [-1.0, -2.0], "t": [1, 2]}], header=False)
    words = ("--field", "sampler=p", "--field", "trainer=q", "--field", "tokens=t")
    code, out, _ = audit("a.jsonl", "b.jsonl", *words)
    assert code == 0
    assert "token    equal" in out
