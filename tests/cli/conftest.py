"""``kernelsmith`` on fakes, in a folder of its own."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from kernelsmith.cli.main import main  # noqa: E402
from tests.loop.fake_wiring import fake_wiring  # noqa: E402


@pytest.fixture
def kernelsmith(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KERNELSMITH_DB", raising=False)

    def command(*words: str) -> tuple[int, str, str]:
        code = main(words, fake_wiring())
        said = capsys.readouterr()
        return code, said.out, said.err

    return command
