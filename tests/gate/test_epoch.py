"""The epoch changes with each thing that can change bits, and with nothing else."""

from dataclasses import replace

import pytest

from kernelsmith import catalog
from kernelsmith.gate import epoch as room
from kernelsmith.gate.epoch import epoch

DEVICE = {"device": "cpu", "lowering": "a", "level": "x86-64-v4"}


def test_seed_device_and_triton_make_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    task = catalog.load_task("rms_norm", "cpu")
    first = epoch(task, DEVICE)
    assert epoch(replace(task, summary="other words", cases=task.cases[:1]), DEVICE) == first
    others = {
        epoch(replace(task, seed_source=task.seed_source + "\n"), DEVICE),
        epoch(task, {**DEVICE, "lowering": "b"}),
    }
    monkeypatch.setattr(room.metadata, "version", lambda name: "3.9.0 of another day")
    others.add(epoch(task, DEVICE))
    assert first not in others
    assert len(others) == 3
