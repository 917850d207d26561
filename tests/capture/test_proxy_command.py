"""`kernelsmith proxy`, as someone runs it before another client."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from kernelsmith.capture import build
from kernelsmith.cli.proxying import proxy
from kernelsmith.errors import InputError
from kernelsmith.lineage.journal import open_journal
from kernelsmith.lineage.store import open_store
from tests.capture.parts import MemoryJournal, RawUpstream, whole
from tests.lineage import talks

COMMAND = "import typer; from kernelsmith.cli.proxying import proxy; typer.run(proxy)"


def start(db: Path, *words: str, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "--db", str(db), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=db.parent,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), **environment},
    )


def test_it_says_where_to_point_a_client_and_ends_on_ctrl_c(tmp_path: Path) -> None:
    db = tmp_path / "calls.db"
    with RawUpstream() as upstream:
        upstream.answers(whole(b'{"data":[]}'))
        process = start(db, ANTHROPIC_BASE_URL=upstream.url)
        assert process.stdout is not None
        said = "".join(process.stdout.readline() for _ in range(3))
        base = re.search(r"ANTHROPIC_BASE_URL=(http://127\.0\.0\.1:\d+)/k/RUN/SESSION", said)
        assert base is not None, said
        assert upstream.url in said
        answer = httpx2.get(f"{base[1]}/k/mine/first/v1/models?limit=2")
        store = open_store(db)
        run = talks.begin_run(store)
        store.close()
        turn = {"x-kernelsmith-turn": "0"}
        refused = httpx2.get(f"{base[1]}/k/{run}/{talks.SESSION}/v1/models", headers=turn)
        httpx2.get(f"{base[1]}/k/{run[:-1]}/{talks.SESSION}/v1/models", headers=turn)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert answer.content == b'{"data":[]}'
    assert (process.returncode, out, err) == (0, "ended\n", "")
    journal = open_journal(db)
    session = journal.sessions("mine")[0]
    (other,) = journal.sessions(run[:-1])
    assert journal.sessions(run) == []
    journal.close()
    assert (refused.status_code, refused.text.count("\n")) == (403, 1)
    assert (other.id, other.calls[0].sent.turn) == (talks.SESSION, None)
    assert (session.id, session.calls[0].sent.path) == ("first", "/v1/models?limit=2")
    assert session.calls[0].sent.turn is None


def test_a_wrong_address_makes_no_database(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="address"):
        proxy(upstream="ftp://x", db=tmp_path / "calls.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "ftp://x",
        "http://",
        "http://a:b@h",
        "http://h:x",
        "http://h?q",
        "http://h ö",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="address") as caught:
        build(MemoryJournal(), url)
    assert "a:b" not in caught.value.message
    assert caught.value.hint
