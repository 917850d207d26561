"""One timing session: ``python -m kernelsmith.worker.session FOLDER``.

Always a newly exec'ed process, the unit of inference of the latency rule. It holds compiled code
and buffers, and imports neither torch, triton, scipy nor a compiler. Kernels are loaded in random
order behind random padding; ``TimeJob.placement`` decides both, so a session can be repeated in
all but its physical pages.
"""

import json
import pickle
import random
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernelsmith.errors import KernelsmithError
from kernelsmith.model import TimeJob, TimeResult
from kernelsmith.worker import buffers, clock, launcher, launcher_bind, session_case
from kernelsmith.worker.buffers_poison import Bytes
from kernelsmith.worker.progress import Progress

PAD_LINES = 64
SWEEP_BY_LLC = 1.5
# The answer is an error of the machine, not a result; see EX_SOFTWARE of sysexits.
EXIT_ERROR = 70


def run(
    job: TimeJob, folder: Path, *, device: Any = None, draw: launcher.Draw | None = None
) -> TimeResult:
    """Times all cases of a job in this process.

    Args:
        device, draw: stand-ins; by default the job's device and the recipes.

    Raises:
        InputError: the job does not fit together.
    """
    begun = time.perf_counter()
    device, draw = launcher.default_device(job.device, device), launcher.default_draw(draw)
    if device.name == "cuda":
        from kernelsmith.worker import session_gpu

        return session_gpu.run(job, folder, device, draw)
    placement = random.Random(job.placement)
    before = clock.use()
    facts = clock.pin(placement.randrange)
    llc_bytes = clock.llc_bytes()
    entries = _load(job, folder, device, placement)
    arena_bytes = max((info.arena_bytes for info in job.objects.values()), default=0)
    arena, arena_address = launcher_bind.arena(arena_bytes)
    with (folder / "out.bin").open("wb") as out, Progress(folder) as progress:
        session = session_case.Session(
            job=job,
            folder=folder,
            entries=entries,
            draw=draw,
            sweep=_sweep(job, llc_bytes),
            arena=arena_address,
            llc_bytes=llc_bytes,
            placement=placement,
            verify=random.Random(job.verify),
            out=out,
            progress=progress,
        )
        cases, pool_facts = session_case.run_all(session)
    del arena
    facts |= {"llc_bytes": llc_bytes, "pools": pool_facts, **clock.used_since(before)}
    seconds = time.perf_counter() - begun
    return TimeResult(cases=cases, seconds=seconds, facts=facts)


def _load(
    job: TimeJob, folder: Path, device: Any, placement: random.Random
) -> dict[str, launcher_bind.Entry]:
    """Loads all objects in random order, each behind a random number of cache lines."""
    ids = sorted(job.objects)
    placement.shuffle(ids)
    return {
        object_id: launcher_bind.load_entry(
            device,
            job.objects[object_id],
            (folder / f"{object_id}.obj").read_bytes(),
            base_pad_bytes=placement.randrange(PAD_LINES) * buffers.ALIGN_BYTES,
        )
        for object_id in ids
    }


def _sweep(job: TimeJob, llc_bytes: int) -> Bytes:
    """Memory to read through when a cold pool is renewed; see session_pool."""
    cold = any(case.cold for case in job.cases)
    nbytes = int(SWEEP_BY_LLC * llc_bytes) if cold else 0
    swept = buffers.map_region(nbytes, huge=True).bytes
    # A page that was never written is the system's one zero page: reading it evicts nothing.
    swept.fill(1)
    return swept


def main(folder: Path) -> int:
    """Reads ``job.pkl``, runs it, writes ``result.json``: the result, or ``{"error": ...}`` for
    what is no candidate's doing.

    Returns:
        The exit status.
    """
    code, answer = 0, {}
    try:
        job = pickle.loads((folder / "job.pkl").read_bytes())
        answer = asdict(run(job, folder))
    except Exception as error:
        code, answer = EXIT_ERROR, {"error": _described(error)}
    (folder / "result.json").write_text(json.dumps(answer))
    return code


def _described(error: Exception) -> dict[str, Any]:
    known = isinstance(error, KernelsmithError)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return {
        "kind": type(error).__name__,
        "message": str(error) if known else f"{error}{place}",
        "hint": error.hint if isinstance(error, KernelsmithError) else None,
    }


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
