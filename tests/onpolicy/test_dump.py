"""Probes: what they write is what the audit reads, whoever writes beside them, whatever is cut."""

import fcntl
import json
import math
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kernelsmith.errors import InputError, StorageError
from kernelsmith.onpolicy.dump import payload_bytes, record
from kernelsmith.onpolicy.model import SCHEMA, Turn
from kernelsmith.onpolicy.reading import open_dump
from kernelsmith.onpolicy.tensors import logprobs_of, mask_of

CALL = b'{"name":"run","arguments":{"n": 1.0,  "x":"\\u00e9\xff"}}'


def read(path: Path) -> list[Turn]:
    return list(open_dump(path, "sampler").turns())


def kinds(path: Path) -> list[tuple[str, int]]:
    dump = open_dump(path, "sampler")
    list(dump.turns())
    return [(fault.kind, fault.count) for fault in dump.faults()]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_the_bits_of_every_dtype_come_back(tmp_path: Path, dtype: Any) -> None:
    values = torch.tensor([-0.0, -1e-7, -1.2345678, -30.0, -math.inf], dtype=getattr(torch, dtype))
    path = tmp_path / "dump.jsonl"
    record(path, side="sampler", dtype=dtype).turn("a", values.requires_grad_(), index=0)
    (turn,) = read(path)
    assert turn.logprobs is not None
    assert turn.logprobs.dtype == dtype
    assert turn.logprobs.words.tolist() == logprobs_of(values).words.tolist()


def test_a_line_is_json_that_any_reader_takes(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    record(path, side="sampler", weights="step 3").turn(
        "Infinity", [-math.inf, math.nan, -0.5], index=0, tokens=[5, 6, 7], mask=[0, 1, 1]
    )
    lines = path.read_text().splitlines()
    header, line = (json.loads(one, parse_constant=pytest.fail) for one in lines)
    assert header["schema"] == SCHEMA
    assert (line["sequence"], line["logprobs"]) == ("Infinity", [-math.inf, None, -0.5])
    assert (line["masked_tokens"], line["total_tokens"]) == (1, 3)


def test_the_bytes_of_tool_calls_are_kept_as_they_came(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    probe = record(path, side="sampler")
    probe.turn("a", index=0, payloads=[CALL, b""], results=[b"ok"], total_tokens=40)
    probe.turn("a", index=1)
    assert list(payload_bytes(path)) == [("a", 0, (CALL, b""))]
    turn = read(path)[0]
    assert turn.payloads is not None
    assert len(turn.payloads) == 2
    assert turn.total_tokens == 40
    edited = path.read_text().replace('"payload_bytes":["ey', '"payload_bytes":["eX')
    path.write_text(edited)
    with pytest.raises(InputError, match="not those of their digests"):
        list(payload_bytes(path))


def test_a_line_that_was_cut_is_named_and_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    record(path, side="sampler").turn("a", [-1.0], index=0)
    whole = path.read_bytes()
    record(path, side="sampler").turn("b", [-2.0], index=0)
    for cut in range(len(whole) + 1, path.stat().st_size - 1):
        torn = tmp_path / f"{cut}.jsonl"
        torn.write_bytes(path.read_bytes()[:cut])
        assert kinds(torn) == [("truncated", 1)]
        record(torn, side="sampler").turn("c", [-3.0], index=0)
        assert [turn.sequence for turn in read(torn)] == ["a", "c"]
        assert kinds(torn) == [("malformed", 1)]


def test_a_header_that_was_cut_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    record(path, side="sampler", dtype="bfloat16")
    path.write_bytes(path.read_bytes()[:30])
    record(path, side="sampler", dtype="bfloat16").turn("a", [-0.5], index=0)
    assert open_dump(path, "sampler").header.dtype == "bfloat16"
    assert [turn.sequence for turn in read(path)] == ["a"]


def test_a_new_epoch_stands_with_its_own_turns(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    one = record(path, side="sampler", epoch="e1", weights="0")
    two = record(path, side="sampler", epoch="e2", weights="0")
    for number, probe in enumerate((one, two, one)):
        probe.turn(str(number), [-1.0], index=0)
    assert [turn.epoch for turn in read(path)] == ["e1", "e2", "e1"]
    assert [turn.weights for turn in read(path)] == ["0", "0", "0"]


APPENDS = """
import sys
from kernelsmith.onpolicy.dump import record
probe = record(sys.argv[1], side="sampler")
for number in range(100):
    probe.turn(f"{sys.argv[2]}{number}", [-float(number)] * 300, index=0)
"""


def test_processes_that_append_to_one_dump_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    words = [sys.executable, "-c", APPENDS, str(path)]
    workers = [subprocess.Popen([*words, name]) for name in "ab"]
    assert [worker.wait() for worker in workers] == [0, 0]
    names = {turn.sequence for turn in read(path)}
    assert len(names) == 200
    assert kinds(path) == []
    assert path.read_bytes().count(b"schema") == 1


def test_a_writer_waits_for_one_that_holds_the_file(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    probe = record(path, side="sampler")
    with path.open("rb") as held, ThreadPoolExecutor(1) as pool:
        fcntl.flock(held, fcntl.LOCK_EX)
        before = path.read_bytes()
        writing = pool.submit(probe.turn, "a", [-1.0], index=0)
        assert wait([writing], timeout=0.1).not_done
        assert path.read_bytes() == before
        fcntl.flock(held, fcntl.LOCK_UN)
        writing.result()
    assert [turn.sequence for turn in read(path)] == ["a"]


def test_where_the_disk_takes_no_more_the_dump_ends_with_a_whole_turn(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    pid = os.fork()
    if pid == 0:  # a limit of this process alone; SIGXFSZ is ignored by Python
        status = 1
        try:
            probe = record(path, side="sampler")
            resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
            for number in range(100):
                probe.turn(str(number), [-1.0] * 100, index=0)
        except StorageError as error:
            status = 0 if "turn could not be written" in error.message else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert len(read(path)) > 3
    assert kinds(path) == []
    assert path.read_bytes().endswith(b"\n")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: record(p, side="trainer"), "side sampler, not trainer"),
        (lambda p: record(p, side="sampler", dtype="bfloat16"), "dtype float32, not bfloat16"),
        (lambda p: record(p, side="judge"), "no dump of side"),
        (lambda p: record(p.parent / "no" / "x", side="sampler"), "cannot be written"),
        (lambda p: _turn(p, torch.zeros(2, dtype=torch.bfloat16)), "are bfloat16"),
        (lambda p: _turn(p, [-1.0, -2.0], tokens=[1]), r"of \[1, 2\] tokens"),
        (lambda p: _turn(p, ["x"]), "no log-probs"),
        (lambda p: _turn(p, [-1.0], tokens=[0.5]), "token ids are float64"),
        (lambda p: _turn(p, [-1.0], mask=[0.5]), "something else than 0 and 1"),
        (lambda p: _turn(p, payloads=["{}"]), "is str, not bytes"),
        (lambda p: record(p, side="sampler").turn("a"), "turns are numbered"),
    ],
)
def test_what_would_spoil_a_dump_is_refused_and_nothing_written(
    tmp_path: Path, call: Any, words: str
) -> None:
    path = tmp_path / "dump.jsonl"
    record(path, side="sampler").turn("a", [-1.0], index=0)
    before = path.read_bytes()
    with pytest.raises(InputError, match=words) as caught:
        call(path)
    assert caught.value.hint
    assert path.read_bytes() == before


def _turn(path: Path, *values: Any, **more: Any) -> None:
    record(path, side="sampler").turn("a", *values, index=1, **more)


@pytest.mark.parametrize("there", [b"hello", b"hello\n", b'{"schema":"kernelsmith.other/1"}\n'])
def test_a_file_that_is_no_dump_is_left_alone(tmp_path: Path, there: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(there)
    with pytest.raises(InputError, match="no dump of log-probs"):
        record(path, side="sampler")
    assert path.read_bytes() == there


def test_masks_are_read_as_trainers_have_them() -> None:
    for values in ([1, 0], [True, False], [1.0, 0.0], np.array([1, 0], np.int8)):
        assert mask_of(values).tolist() == [True, False]
    assert mask_of(torch.tensor([[1.0], [0.0]])).tolist() == [True, False]
