"""One flipped bit among millions of tokens, found by `kernelsmith audit` in constant memory.

    python benchmarks/audit.py [--tiny]

For each format two sizes, each a process of its own that is asked for its peak memory: two dumps
that are equal but for the lowest bit of one log-prob, and two that are equal. Dumps are written
one sequence at a time into a temporary folder (about 1.5 GB at most).
Writes ``benchmarks/results/audit.json``.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

RESULT = Path(__file__).resolve().parent / "results" / "audit.json"
SEQUENCE_TOKENS = 4096
MASKED = 256
JSONL_TOKENS = (2_500_000, 10_000_000)
SAFETENSORS_TOKENS = (10_000_000, 40_000_000)
WHERE = 0.777
"""The flipped bit's place, as a share of the dump."""

Write = Callable[[Path, int, int], None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tiny", action="store_true", help="sizes for a trial; writes nothing")
    options = parser.parse_args()
    rows = []
    for name, write, sizes in (
        ("jsonl", write_jsonl, JSONL_TOKENS),
        ("safetensors", write_safetensors, SAFETENSORS_TOKENS),
    ):
        for tokens in sizes:
            size = tokens // 100 if options.tiny else tokens
            with tempfile.TemporaryDirectory() as folder:
                rows += measured(name, write, size, Path(folder))
            print(json.dumps(rows[-2:]), file=sys.stderr)
    document = {
        "schema": "kernelsmith.benchmark.audit/1",
        "written_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "load_1m": os.getloadavg()[0],
        },
        "sequence_tokens": SEQUENCE_TOKENS,
        "rows": rows,
        "growth": growth(rows),
    }
    text = json.dumps(document, indent=1)
    if not options.tiny:
        RESULT.write_text(text + "\n")
    print(text)
    return 0 if all(row["right"] for row in rows) else 1


def growth(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Of each format: how much more memory the larger dump took, beside how much larger it is."""
    found = {}
    for name in dict.fromkeys(row["format"] for row in rows):
        mine = [row for row in rows if row["format"] == name and row["flipped_index"] is not None]
        found[name] = {
            "tokens": mine[-1]["tokens"] / mine[0]["tokens"],
            "peak_rss": mine[-1]["peak_rss_mib"] / mine[0]["peak_rss_mib"],
        }
    return found


def measured(name: str, write: Write, tokens: int, folder: Path) -> list[dict[str, Any]]:
    """The audit of one size: with a flipped bit, and without."""
    sequences = tokens // SEQUENCE_TOKENS
    at = int(WHERE * sequences) * SEQUENCE_TOKENS + MASKED + 1234
    write(folder, sequences, at)
    rows = []
    for flipped in (at, None):
        if flipped is None:
            shutil.copyfile(folder / "sampler", folder / "trainer")
        began_s = time.monotonic()
        code, document, rss_mib = audited(folder)
        index = document["ratio"]["first_index"]
        rows.append(
            {
                "format": name,
                "tokens": sequences * SEQUENCE_TOKENS,
                "file_mib": (folder / "sampler").stat().st_size / 2**20,
                "flipped_index": flipped,
                "exit_code": code,
                "verdict": document["verdict"],
                "compared": document["tokens"],
                "not_one": document["ratio"]["not_one"],
                "found_index": index,
                "mean_less_one": document["ratio"]["mean_less_one"],
                "seconds": time.monotonic() - began_s,
                "peak_rss_mib": rss_mib,
                "right": index == flipped
                and code == (0 if flipped is None else 1)
                and document["ratio"]["not_one"] == (0 if flipped is None else 1)
                and document["tokens"] == sequences * (SEQUENCE_TOKENS - MASKED),
            }
        )
    return rows


def audited(folder: Path) -> tuple[int, dict[str, Any], float]:
    """Runs the command; exit code, document, and the most memory that it held at once."""
    words = [sys.executable, "-m", "kernelsmith", "audit", "sampler", "trainer", "--json"]
    with (folder / "out.json").open("wb") as out:
        process = subprocess.Popen(words, cwd=folder, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    document = json.loads((folder / "out.json").read_text())
    return process.returncode, document, usage.ru_maxrss / 1024


def sequences_of(count: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(number, ids, log-probs) of each sequence."""
    for number in range(count):
        rng = np.random.default_rng(number)
        ids = rng.integers(0, 150_000, SEQUENCE_TOKENS, dtype=np.int32)
        yield number, ids, -rng.exponential(1.0, SEQUENCE_TOKENS).astype(np.float32)


def flipped_in(number: int, values: np.ndarray, at: int) -> np.ndarray:
    """The same log-probs, with the lowest bit flipped if the place is among them."""
    if at // SEQUENCE_TOKENS == number:
        values = values.copy()
        values.view(np.uint32)[at % SEQUENCE_TOKENS] ^= 1
    return values


MASK = np.arange(SEQUENCE_TOKENS) >= MASKED


def write_jsonl(folder: Path, count: int, at: int) -> None:
    """Two native dumps, a line a sequence."""
    mask = MASK.astype(int).tolist()
    header = {"schema": "kernelsmith.logprobs/1", "dtype": "float32"}
    with (
        (folder / "sampler").open("w", encoding="utf-8") as sampler,
        (folder / "trainer").open("w", encoding="utf-8") as trainer,
    ):
        for file in (sampler, trainer):
            file.write(json.dumps(header) + "\n")
        for number, ids, values in sequences_of(count):
            other = flipped_in(number, values, at)
            told = {"sequence": f"s{number}", "tokens": ids.tolist(), "mask": mask}
            line = _line(told, values)
            sampler.write(line)
            trainer.write(line if other is values else _line(told, other))


def _line(told: dict[str, Any], values: np.ndarray) -> str:
    row = told | {"logprobs": values.astype(float).tolist()}
    return json.dumps(row, separators=(",", ":")) + "\n"


def write_safetensors(folder: Path, count: int, at: int) -> None:
    """Two files of four tensors [sequences, tokens], with verl's names."""
    shape, size = [count, SEQUENCE_TOKENS], count * SEQUENCE_TOKENS
    names = {"responses": ("I32", 4), "response_mask": ("BOOL", 1)}
    names |= {"rollout_log_probs": ("F32", 4), "old_log_probs": ("F32", 4)}
    table, start = {}, 0
    for name, (dtype, width) in names.items():
        end = start + size * width
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
        start = end
    head = json.dumps(table).encode()
    with (folder / "sampler").open("wb") as sampler, (folder / "trainer").open("wb") as trainer:
        for file in (sampler, trainer):
            file.write(struct.pack("<Q", len(head)) + head)
        for number, ids, values in sequences_of(count):
            for file, old in ((sampler, values), (trainer, flipped_in(number, values, at))):
                rows = (ids.tobytes(), MASK.tobytes(), values.tobytes(), old.tobytes())
                for told, row in zip(table.values(), rows, strict=True):
                    begin = 8 + len(head) + told["data_offsets"][0]
                    _put(file, begin + number * len(row), row)


def _put(file: BinaryIO, place: int, row: bytes) -> None:
    file.seek(place)
    file.write(row)


if __name__ == "__main__":
    raise SystemExit(main())
