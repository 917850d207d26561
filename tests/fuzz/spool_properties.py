"""Files and lines of a worker: read whole and right, or refused by name; the next job is well."""

import json
import os
import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from hypothesis import strategies as st

from kernelsmith.errors import KernelsmithError, SandboxError
from kernelsmith.model import CompileJob, CompileResult
from kernelsmith.sandbox import pipes
from kernelsmith.sandbox.client import SpoolWorker
from kernelsmith.sandbox.spool import MAX_ANSWER_BYTES, read_file
from tests.fuzz.mutation import bytes_of, mutated
from tests.fuzz.properties import Property

CONTENT = bytes(range(64))
NUMBERS = st.one_of(
    st.integers(-2, 66), st.sampled_from((1 << 31, 1 << 63, 1 << 64, 10**30, MAX_ANSWER_BYTES))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    kind: str
    offset: int
    nbytes: int | None


KINDS = (
    "plain",
    "plain",
    "plain",
    "missing",
    "folder",
    "pipe",
    "link",
    "dangling",
    "loop",
    "twice",
    "sparse",
    "cut",
    "device",
)


def lay(folder: Path, kind: str) -> None:
    """What a worker may leave in the place of ``out.bin``."""
    path = folder / "out.bin"
    match kind:
        case "plain":
            path.write_bytes(CONTENT)
        case "cut":
            path.write_bytes(CONTENT[:40])
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "link":
            (folder / "other").write_bytes(CONTENT)
            path.symlink_to(folder / "other")
        case "device":
            path.symlink_to("/dev/zero")
        case "dangling":
            path.symlink_to(folder / "nowhere")
        case "loop":
            path.symlink_to(path)
        case "twice":
            path.write_bytes(CONTENT)
            os.link(path, folder / "second")
        case "sparse":
            path.touch()
            os.truncate(path, 1 << 40)


def read_right_or_refused(reading: Reading) -> None:
    with tempfile.TemporaryDirectory() as name:
        lay(Path(name), reading.kind)
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            data = read_file(
                descriptor, "out.bin", offset=reading.offset, nbytes=reading.nbytes, max_bytes=4096
            )
        except (SandboxError, FileNotFoundError):
            return
        finally:
            os.close(descriptor)
    whole = {"plain": CONTENT, "cut": CONTENT[:40], "sparse": bytes(8192)}[reading.kind]
    end = len(whole) if reading.nbytes is None else reading.offset + reading.nbytes
    if reading.kind != "sparse":
        assert 0 <= reading.offset <= end <= len(whole)
        assert data == whole[reading.offset : end]
    else:
        assert data == bytes(len(data))


# --------------------------------------------------------------------------------------- templates

JOB = CompileJob(ttirs={}, device="cpu", timeout_s=5.0)
RIGHT = CompileResult(objects={})
LINE = {"job": "0", "exit": 0, "signal": None, "timed_out": False, "seconds": 0.5}
WELL = """
echo '{"ready": true}'
while read -r n; do
  cp "$1/right.json" "$2/$n/result.json"
  printf '{"job": "%s", "exit": 0, "signal": null, "timed_out": false, "seconds": 0.5}\\n' "$n"
done
"""
ILL = """
if mv "$1/ill" "$1/was" 2>/dev/null; then
  cat "$1/ready.bin"
  read -r n || exit 1
  if [ -e "$1/kill" ]; then kill -9 $$; fi
  mv "$1"/laid/* "$2/$n/" 2>/dev/null
  cat "$1/line.bin"
  exit 0
fi
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ill:
    """How a template ends its first job: what of its line, its answer and itself is wrong."""

    how: str
    draw: int


def template(folder: Path, ill: Ill) -> bool:
    """Lays what the template says; returns whether all of it is right."""
    rng = random.Random(ill.draw)
    right = json.dumps(asdict(RIGHT)).encode()
    ready, line, answer = b'{"ready": true}\n', json.dumps(LINE).encode() + b"\n", right
    laid = folder / "laid"
    laid.mkdir()
    match ill.how:
        case "line":
            changed, _ = mutated(LINE, rng)
            line = json.dumps(changed).encode() + b"\n"
        case "line's bytes":
            line = bytes_of(LINE, rng) + rng.choice((b"\n", b"\n", b"", line))
        case "cut":
            line = line[: rng.randrange(len(line))]
        case "long":
            line = b"x" * (1 << 18)
        case "twice":
            line += line
        case "another's":
            line = line.replace(b'"0"', rng.choice((b'"1"', b'"7"', b"0", b'"0\\u0000"', b'"00"')))
        case "ready":
            ready = bytes_of({"ready": True}, rng) + b"\n"
        case "killed":
            (folder / "kill").touch()
        case "answer":
            answer = json.dumps(mutated(json.loads(right), rng)[0]).encode()
        case "answer's bytes":
            answer = bytes_of(json.loads(right), rng)
    kind = rng.choice(KINDS) if ill.how == "file" else "plain"
    lay(laid, kind)
    if kind == "plain":
        (laid / "out.bin").write_bytes(answer)
    if os.path.lexists(laid / "out.bin"):
        (laid / "out.bin").rename(laid / "result.json")
    (folder / "right.json").write_bytes(right)
    (folder / "ready.bin").write_bytes(ready)
    (folder / "line.bin").write_bytes(line)
    (folder / "ill").touch()
    return ill.how == "nothing"


def next_job_is_well(ill: Ill) -> None:
    """An ill template gives its job an error with a name, or the right answer; the next is well."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(1) as starter:
        own, spool = Path(name) / "own", Path(name) / "spool" / "launcher"
        own.mkdir()
        spool.mkdir(parents=True)
        sound = template(own, ill)
        (own / "run.sh").write_text(ILL + WELL)
        arguments = ("/bin/sh", str(own / "run.sh"), str(own), str(spool))
        command = pipes.Command(
            arguments=arguments,
            environment={"PATH": "/usr/bin:/bin"},
            working_folder=own,
            log=own / "log",
        )
        start = partial(pipes.start, command, starter)
        worker = SpoolWorker(role="launcher", folder=spool, start=start)
        try:
            _first(worker, sound)
            for _ in range(2):
                try:
                    reply = worker.submit(JOB)
                except SandboxError:
                    continue  # a first job that seemed well left a template that ends
                assert reply.result == RIGHT
                reply.close()
            reply = worker.submit(JOB)
            assert reply.result == RIGHT
            reply.close()
        finally:
            worker.close()


def _first(worker: SpoolWorker, sound: bool) -> None:
    raised: KernelsmithError | None = None
    try:
        reply = worker.submit(JOB)
    except KernelsmithError as error:
        raised = error
    if raised is not None:
        assert not sound
        assert "\n" not in raised.message
        return
    assert isinstance(reply.result, CompileResult)
    assert reply.result == RIGHT or reply.result.failure is not None
    reply.close()


HOWS = (
    "nothing",
    "line",
    "line",
    "line's bytes",
    "cut",
    "long",
    "twice",
    "another's",
    "ready",
    "killed",
    "answer",
    "answer",
    "answer's bytes",
    "file",
)
PROPERTIES = (
    Property(
        name="spool.files",
        examples=150,
        drawn=st.builds(
            Reading, kind=st.sampled_from(KINDS), offset=NUMBERS, nbytes=st.none() | NUMBERS
        ),
        holds=read_right_or_refused,
    ),
    Property(
        name="spool.templates",
        examples=60,
        drawn=st.builds(Ill, how=st.sampled_from(HOWS), draw=st.integers(0, 2**32)),
        holds=next_job_is_well,
    ),
)
