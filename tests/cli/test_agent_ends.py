"""``--proposer search,agent``: where the agent cannot go on, the free search does, and says so."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from kernelsmith import catalog
from kernelsmith.cli.main import main
from kernelsmith.loopback import serving
from kernelsmith.ports import Proposer
from kernelsmith.proposers.mixed import Mixed
from kernelsmith.wiring import ProposerParts, real
from tests.loop import fakes
from tests.loop.fake_wiring import fake_wiring

Command = Callable[..., tuple[int, str, str]]
RUN = ("run", "rms_norm", "--device", "cpu", "--model", "m", "--budget-usd", "none")


@dataclass
class Refusing:
    """A model server that refuses every key."""

    asked: int = 0

    async def answer(self, request: Request) -> JSONResponse:
        self.asked += 1
        error = {"type": "authentication_error", "message": "invalid x-api-key"}
        return JSONResponse({"type": "error", "error": error}, status_code=401)


@contextmanager
def proposer(parts: ProposerParts) -> Iterator[Proposer]:
    """The real agent; beside it, where it is named, a search with three things to try."""
    with real().proposer(replace(parts, name="agent")) as agent:
        search = fakes.FakeProposer(limit=3)
        yield agent if parts.name == "agent" else Mixed(search, agent, parts.tasks)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Refusing]:
    refusing = Refusing()
    route = Route("/{path:path}", refusing.answer, methods=["GET", "POST"])
    with serving(Starlette(routes=[route])) as base:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", base)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "wrong")
        yield refusing


@pytest.fixture
def command(
    server: Refusing,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    monkeypatch.chdir(tmp_path)
    wiring = replace(
        fake_wiring(),
        load_task=lambda name, device, folders: catalog.load_task(name, device),
        proposer=proposer,
    )

    def run(*words: str) -> tuple[int, str, str]:
        code = main(words, wiring)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_refused_key_ends_the_agent_and_not_the_search(command: Command) -> None:
    code, out, err = command(*RUN, "--proposer", "search,agent", "--json")
    (run,) = json.loads(out)["runs"]
    assert (code, run["state"], run["reason"]) == (0, "finished", "exhausted"), err
    assert run["tasks"][0]["judged"] == 3
    assert "the server refuses the key" in run["agent"]["ended_early"]
    (said,) = [line for line in err.splitlines() if "the agent ended" in line]
    assert "refuses the key" in said
    assert said.endswith("; the search goes on")
    for words in (("runs",), ("show", "latest")):
        assert "ended early: the server refuses the key" in command(*words)[1]


def test_it_is_tried_again_when_the_run_goes_on(command: Command, server: Refusing) -> None:
    command(*RUN, "--proposer", "search,agent")
    asked = server.asked
    code, out, _ = command("resume", "latest", "--time-limit", "1h", "--json")
    (run,) = json.loads(out)["runs"]
    assert (code, run["state"]) == (0, "finished")
    assert server.asked > asked
    assert "refuses the key" in run["agent"]["ended_early"]


def test_alone_it_ends_the_run(command: Command) -> None:
    code, _, err = command(*RUN, "--proposer", "agent")
    assert code == 3
    assert "the server refuses the key" in err
