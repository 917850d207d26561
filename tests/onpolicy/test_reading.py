"""Dumps of every stack and format, and each thing that is wrong with one by its name."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import zstandard

from kernelsmith.errors import InputError
from kernelsmith.onpolicy.audit import audit
from kernelsmith.onpolicy.fields import mapping
from kernelsmith.onpolicy.reading import open_dump
from tests.onpolicy.building import HEADER, changed, draw, kinds, lines, next_up, of_files, record

IDS = [[11, 12, 13, 14], [21, 22, 23, 24]]
MASK = [[0, 1, 1, 1], [1, 1, 0, 1]]
VALUES = [draw(4, 1).astype(float).tolist(), draw(4, 2).astype(float).tolist()]


def rows(names: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    return [names(0), names(1)]


STACKS: dict[str, tuple[Callable[[int], dict[str, Any]], Callable[[int], dict[str, Any]]]] = {
    "verl": (
        lambda i: {
            "uid": "same prompt",
            "prompts": [1, 2],
            "responses": IDS[i],
            "input_ids": [1, 2, *IDS[i]],
            "response_mask": MASK[i],
            "rollout_log_probs": VALUES[i],
        },
        lambda i: {
            "uid": "same prompt",
            "responses": IDS[i],
            "response_mask": MASK[i],
            "rollout_log_probs": [0.0] * 4,
            "old_log_probs": VALUES[i],
        },
    ),
    "prime-rl": (
        lambda i: {
            "prompt_ids": [1, 2],
            "completion_ids": IDS[i],
            "completion_mask": MASK[i],
            "completion_logprobs": VALUES[i],
        },
        lambda i: {
            "input_ids": IDS[i],
            "loss_mask": [bool(m) for m in MASK[i]],
            "inference_logprobs": [0.0] * 4,
            "trainer_logprobs": VALUES[i],
        },
    ),
    "TorchTitan": (
        lambda i: {"token_ids": IDS[i], "loss_mask": MASK[i], "logprobs": VALUES[i]},
        lambda i: {"token_ids": IDS[i], "loss_mask": MASK[i], "policy_logprobs": VALUES[i]},
    ),
    "slime": (
        lambda i: {
            "index": i,
            "tokens": [1, 2, *IDS[i]],
            "response_length": 4,
            "loss_mask": MASK[i],
            "rollout_log_probs": VALUES[i],
        },
        lambda i: {
            "sample_indices": i,
            "tokens": [1, 2, *IDS[i]],
            "response_lengths": 4,
            "loss_masks": MASK[i],
            "rollout_log_probs": [0.0] * 4,
            "log_probs": VALUES[i],
        },
    ),
}


@pytest.mark.parametrize("stack", STACKS)
def test_each_stacks_own_names_are_read(stack: str, tmp_path: Path) -> None:
    sampler, trainer = STACKS[stack]
    one = lines(tmp_path / "s.jsonl", rows(sampler), header=False)
    two = lines(tmp_path / "t.jsonl", rows(trainer), header=False)
    found = of_files(one, two)
    assert (found.verdict, found.figures.tokens) == ("on-policy", 6)
    assert found.status("token") == "equal"
    assert found.figures.sequences == 2
    assert not found.faults


def test_names_of_no_stack_are_mapped(tmp_path: Path) -> None:
    one = lines(tmp_path / "s.jsonl", [{"lp": VALUES[0], "t": IDS[0], "m": MASK[0]}], header=False)
    two = lines(
        tmp_path / "t.jsonl", [{"lp2": VALUES[0], "t": IDS[0], "mm": MASK[0]}], header=False
    )
    mapped = mapping(["sampler=lp", "trainer=lp2", "tokens=t", "sampler.mask=m", "trainer.mask=mm"])
    found = audit(open_dump(one, "sampler", mapped), open_dump(two, "trainer", mapped))
    assert (found.verdict, found.figures.tokens) == ("on-policy", 3)
    with pytest.raises(InputError, match="no log-probs of the sampler"):
        open_dump(one, "sampler")
    with pytest.raises(InputError, match="no field 'nowhere'"):
        open_dump(one, "sampler", mapping(["sampler=nowhere"]))
    with pytest.raises(InputError, match="maps nothing"):
        mapping(["colour=lp"])


def test_log_probs_named_as_the_other_sides_are_taken_and_told(tmp_path: Path) -> None:
    one = lines(tmp_path / "s.jsonl", rows(STACKS["verl"][0]), header=False)
    found = of_files(one, one)
    assert found.verdict == "on-policy"
    assert kinds(found) == {"other_side"}


def safetensors(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> Path:
    from safetensors.torch import save_file

    save_file(tensors, path, metadata=metadata)
    return path


def padded(dtype: torch.dtype, *, change: bool = False) -> dict[str, torch.Tensor]:
    values = torch.from_numpy(np.stack([draw(6, 1), draw(6, 2)])).to(dtype)
    if change:
        values[1, 4] = torch.nextafter(values[1, 4].float(), torch.tensor(0.0)).to(dtype)
    return {
        "rollout_log_probs": values,
        "old_log_probs": values.clone(),
        "responses": torch.arange(12).reshape(2, 6),
        "response_mask": torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], dtype=torch.bool),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_safetensors_are_read_row_by_row_in_their_own_dtype(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    epoch = {"epoch": "e1", "device": "cpu"}
    one = safetensors(tmp_path / "s.safetensors", padded(dtype), epoch)
    found = of_files(one, one)
    assert (found.verdict, found.figures.tokens) == ("on-policy", 10)
    assert found.sampler.epoch == "e1"
    coarse = dtype in (torch.float16, torch.bfloat16)
    assert kinds(found) == ({"coarse"} if coarse else set())


def test_one_bit_in_safetensors_is_found_with_its_place(tmp_path: Path) -> None:
    one = safetensors(tmp_path / "s.safetensors", padded(torch.float32), {})
    two = safetensors(tmp_path / "t.safetensors", padded(torch.float32, change=True), {})
    found = of_files(one, two)
    assert found.evidence.first is not None
    place = found.evidence.first.place
    assert (place.index, place.sequence, place.token) == (10, "1", 4)
    assert found.evidence.first.dtype == "float32"


def test_a_cut_safetensors_file_is_named_and_what_is_there_is_looked_at(tmp_path: Path) -> None:
    whole = safetensors(tmp_path / "s.safetensors", padded(torch.float32), {})
    (tmp_path / "t.safetensors").write_bytes(whole.read_bytes()[:-10])
    found = of_files(whole, tmp_path / "t.safetensors")
    assert found.verdict == "undecidable"
    assert {"truncated", "missing_sequence"} <= kinds(found)
    (tmp_path / "u.safetensors").write_bytes(whole.read_bytes()[:40])
    with pytest.raises(InputError, match="not a safetensors file"):
        open_dump(tmp_path / "u.safetensors", "sampler")


def test_parquet_keeps_its_floats_and_dies_by_name(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "d.parquet"

    def written(values: np.ndarray) -> Path:
        table = arrow.table(
            {
                "request_id": ["a", "b"],
                "responses": [IDS[0], IDS[1]],
                "response_mask": MASK,
                "rollout_log_probs": arrow.array([*values], arrow.list_(arrow.float32())),
            }
        )
        parquet.write_table(table, path)
        return path

    values = np.stack([draw(4, 1), draw(4, 2)])
    jsonl = lines(tmp_path / "t.jsonl", rows(STACKS["verl"][1]), header=False)
    same = of_files(written(values), jsonl)
    assert (same.verdict, same.figures.tokens) == ("undecidable", 0), "ids a, b beside same prompt"
    other = tmp_path / "other.parquet"
    other.write_bytes(path.read_bytes())
    values[1, 3] = next_up(values[1, 3])
    found = of_files(written(values), other)
    assert found.verdict == "off-policy"
    assert found.evidence.first is not None
    assert found.evidence.first.place.index == 7
    flipped = path.read_bytes().replace(b"ARROW:schema", b"ARROW:\xffchema")
    (tmp_path / "odd.parquet").write_bytes(flipped)
    assert of_files(tmp_path / "odd.parquet", path).verdict == "on-policy"
    (tmp_path / "cut.parquet").write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="not a whole parquet file"):
        open_dump(tmp_path / "cut.parquet", "sampler")


def test_a_line_that_was_cut_is_truncated_and_the_rest_is_compared(tmp_path: Path) -> None:
    whole = lines(
        tmp_path / "s.jsonl", [record(draw(5), sequence="a"), record(draw(5), sequence="b")]
    )
    text = whole.read_bytes()
    for cut in (1, 30, len(text) // 3):
        (tmp_path / "t.jsonl").write_bytes(text[:-cut])
        found = of_files(whole, tmp_path / "t.jsonl")
        if cut == 1:  # only the line's end is gone
            assert found.verdict == "on-policy"
            continue
        assert found.verdict == "undecidable"
        assert kinds(found) == {"truncated", "missing_sequence"}
        assert found.figures.tokens == 5
        assert found.unseen == 5


def test_what_cannot_be_read_in_the_middle_is_malformed(tmp_path: Path) -> None:
    good = [json.dumps(row) for row in (HEADER, record(draw(5), sequence="a"))]
    bad = ['{"sequence": "b", "logpr', "[1, 2]", '{"sequence": "c", "logprobs": "text"}', "\0\0"]
    (tmp_path / "s.jsonl").write_text("\n".join([*good, *bad, json.dumps(record(draw(5)))]) + "\n")
    found = of_files(tmp_path / "s.jsonl", tmp_path / "s.jsonl")
    assert found.verdict == "undecidable"
    malformed = [fault for fault in found.faults if fault.kind == "malformed"]
    assert [(fault.side, fault.count, fault.place) for fault in malformed] == [
        ("sampler", 4, "line 3"),
        ("trainer", 4, "line 3"),
    ]
    assert found.figures.tokens == 10


def one_turn(**change: Any) -> list[dict[str, Any]]:
    row = {**record(draw(6), sequence="q", mask=[0, 0, 1, 1, 1, 1]), **change}
    return [{name: value for name, value in row.items() if value is not ...}]


FAULTY: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "length": (one_turn(tokens=[1, 2, 3]), "length", "undecidable"),
    "a shorter sequence": (
        one_turn(**{**record(draw(6)[:4]), "sequence": "q", "mask": [0, 0, 1, 1]}),
        "length",
        "off-policy",
    ),
    "missing field": (one_turn(logprobs=...), "missing_field", "undecidable"),
    "nan": (one_turn(logprobs=[-1.0, -1.0, None, -1.0, -1.0, -1.0]), "nan", "off-policy"),
    "other ids": (one_turn(tokens=[0, 1, 2, 9, 4, 5]), "other_ids", "off-policy"),
    "other mask": (one_turn(mask=[0, 0, 0, 1, 1, 1]), "other_mask", "off-policy"),
    "other sequence": (one_turn(sequence="elsewhere"), "missing_sequence", "undecidable"),
    "counts": (one_turn(masked_tokens=3), "counts", "undecidable"),
    "other weights": (one_turn(weights="step 9"), "other_weights", "undecidable"),
    "mixed epochs": (one_turn(epoch="e2"), "mixed_epochs", "undecidable"),
    "a fraction": (one_turn(tokens=[0, 1, 2, 3.5, 4, 5]), "malformed", "undecidable"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_each_fault_is_named_on_a_sequence_among_others(name: str, tmp_path: Path) -> None:
    bad, kind, verdict = FAULTY[name]
    first = record(draw(6, 3), sequence="first", epoch="e1", weights="step 7")
    good = [first, {**one_turn()[0], "epoch": "e1", "weights": "step 7"}]
    bad = [first, {"epoch": "e1", "weights": "step 7", **bad[0]}]
    found = of_files(lines(tmp_path / "s.jsonl", good), lines(tmp_path / "t.jsonl", bad))
    assert kind in kinds(found), found.faults
    assert found.verdict == verdict
    assert found.figures.tokens >= 6, "the sequence that is whole was compared"


def test_a_turn_that_stands_twice_is_named(tmp_path: Path) -> None:
    row = record(draw(4), turn=0)
    once = lines(tmp_path / "s.jsonl", [row])
    twice = lines(tmp_path / "t.jsonl", [row, row])
    found = of_files(once, twice)
    assert found.verdict == "undecidable"
    assert kinds(found) == {"duplicate"}


def test_compressed_dumps_are_read(tmp_path: Path) -> None:
    plain = lines(tmp_path / "s.jsonl", [record(draw(5))])
    (tmp_path / "s.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "s.zst").write_bytes(zstandard.compress(plain.read_bytes()))
    for name in ("s.gz", "s.zst"):
        assert of_files(plain, tmp_path / name).verdict == "on-policy"
    (tmp_path / "cut.gz").write_bytes((tmp_path / "s.gz").read_bytes()[:-12])
    assert "truncated" in kinds(of_files(plain, tmp_path / "cut.gz"))


@pytest.mark.parametrize("packed", [gzip.compress, zstandard.compress])
def test_compressed_data_that_was_damaged_is_named(
    packed: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    rows = [record(draw(4_000, s), sequence=f"s{s}") for s in range(9)]
    plain = lines(tmp_path / "s.jsonl", rows)
    data = bytearray(packed(plain.read_bytes()))
    half = len(data) // 2
    data[half : half + 200] = bytes(200)
    (tmp_path / "damaged").write_bytes(data)
    found = of_files(plain, tmp_path / "damaged")
    assert found.verdict != "on-policy"
    assert "truncated" in kinds(found)


def test_a_pickle_is_refused_and_other_things_are_named(tmp_path: Path) -> None:
    torch.save({"a": 1}, tmp_path / "d.pt")
    (tmp_path / "empty.jsonl").write_text("")
    lines(tmp_path / "new.jsonl", [{"schema": "kernelsmith.logprobs/9"}], header=False)
    for name, what in (
        ("d.pt", "pickle"),
        ("empty.jsonl", "empty"),
        ("new.jsonl", "this version reads"),
        ("nowhere.jsonl", "not there"),
        (".", "folder"),
    ):
        with pytest.raises(InputError, match=what):
            open_dump(tmp_path / name, "sampler")


def test_a_dump_with_nothing_to_compare_is_undecidable(tmp_path: Path) -> None:
    none = lines(tmp_path / "s.jsonl", [record(draw(3), mask=[0, 0, 0])])
    found = of_files(none, none)
    assert (found.verdict, kinds(found)) == ("undecidable", {"empty"})
    bare = lines(tmp_path / "t.jsonl", [])
    assert of_files(bare, bare).verdict == "undecidable"


def test_the_last_value_of_a_long_dump_is_compared_like_the_first(tmp_path: Path) -> None:
    values = draw(3_000)
    one = lines(tmp_path / "s.jsonl", [record(values)])
    for at in (0, 2_999):
        two = lines(tmp_path / "t.jsonl", [record(changed(values, at, next_up))])
        found = of_files(one, two)
        assert found.evidence.first is not None
        assert found.evidence.first.place.index == at
