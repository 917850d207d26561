"""``kernelsmith`` in a folder of its own, with a small kernel that is none of ours."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from kernelsmith.cli.main import main  # noqa: E402
from tests.own_kernel.kernels import SCALE  # noqa: E402


@pytest.fixture
def kernelsmith(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KERNELSMITH_DB", raising=False)
    (tmp_path / "scale.py").write_text(SCALE)

    def command(*words: str) -> tuple[int, str, str]:
        code = main(words)
        said = capsys.readouterr()
        return code, said.out, said.err

    return command
