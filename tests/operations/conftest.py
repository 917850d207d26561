"""Runs on fakes, in processes of their own where what is tested is a process."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from tests.cli.conftest import kernelsmith  # noqa: E402, F401
from tests.operations.processes import PROGRAM  # noqa: E402


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts ``kernelsmith`` on fakes in ``tmp_path``; what still runs is ended after the test."""
    begun: list[subprocess.Popen[str]] = []

    def started(*words: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*PROGRAM, *words],
            cwd=tmp_path,
            env={**os.environ, "KS_SLEEP_S": "0.02", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        return process

    yield started
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def ended(start: Callable[..., subprocess.Popen[str]]) -> Callable[..., tuple[int, str, str]]:
    """The same to its end: (exit code, stdout, stderr)."""

    def run(*words: str, **environment: str) -> tuple[int, str, str]:
        process = start(*words, **environment)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    return run
