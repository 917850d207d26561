"""One timing session: ``python -m kernelsmith.worker.session FOLDER``.

Always a newly exec'ed process, the unit of inference of the latency rule. It holds compiled code
and buffers, and imports neither torch, triton, scipy nor a compiler. Kernels are loaded in random
order behind random padding; ``TimeJob.placement`` decides both, so a session can be repeated in
all but its physical pages.
"""

import gc
import json
import pickle
import random
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from kernelsmith.errors import KernelsmithError
from kernelsmith.model import (
    CaseTimes,
    OutputBytes,
    TimedCase,
    TimedReplay,
    TimeJob,
    TimeResult,
    WorkerFailure,
)
from kernelsmith.worker import buffers, clock, launcher, launcher_bind, session_octets
from kernelsmith.worker import session_pool as pools
from kernelsmith.worker.buffers_poison import Bytes
from kernelsmith.worker.progress import Progress
from kernelsmith.worker.session_octets import Timing
from kernelsmith.worker.session_pool import Side

PAD_LINES = 64
BASE_LINES = 1024
INPUT_POISON = 2
CHECKED_SLOTS = 4
SWEEP_BY_LLC = 1.5
# The answer is an error of the machine, not a result; see EX_SOFTWARE of sysexits.
EXIT_ERROR = 70

# Where ("a:KEY", "b:KEY" or "KEY") and the names of the inputs.
Changed = tuple[str, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What all cases share; ``progress`` always names the side and case at hand."""

    job: TimeJob
    folder: Path
    entries: Mapping[str, launcher_bind.Entry]
    draw: launcher.Draw
    region: buffers.Region
    sweep: Bytes
    arena: int
    llc_bytes: int
    placement: random.Random
    verify: random.Random
    out: IO[bytes]
    progress: Progress


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
    placement = random.Random(job.placement)
    before = clock.use()
    facts = clock.pin(placement.randrange)
    llc_bytes = clock.llc_bytes()
    entries = _load(job, folder, device, placement)
    arena_bytes = max((info.arena_bytes for info in job.objects.values()), default=0)
    arena, arena_address = launcher_bind.arena(arena_bytes)
    collecting = gc.isenabled()
    gc.disable()
    try:
        with (folder / "out.bin").open("wb") as out, Progress(folder) as progress:
            session = Session(
                job=job,
                folder=folder,
                entries=entries,
                draw=draw,
                region=_region(job, llc_bytes),
                sweep=_sweep(job, llc_bytes),
                arena=arena_address,
                llc_bytes=llc_bytes,
                placement=placement,
                verify=random.Random(job.verify),
                out=out,
                progress=progress,
            )
            cases, pool_facts, failure = _all_cases(session)
    finally:
        if collecting:
            gc.enable()
    del arena
    facts |= {"llc_bytes": llc_bytes, "pools": pool_facts, **clock.used_since(before)}
    seconds = time.perf_counter() - begun
    return TimeResult(cases=cases, seconds=seconds, failure=failure, facts=facts)


def _all_cases(
    session: Session,
) -> tuple[tuple[CaseTimes, ...], dict[str, Any], WorkerFailure | None]:
    """Times the cases in random order; returns them in the job's order."""
    done: dict[str, CaseTimes] = {}
    facts: dict[str, Any] = {}
    cases = list(session.job.cases)
    session.placement.shuffle(cases)
    for case in cases:
        times, facts[case.key], changed = _one_case(session, case)
        if changed:
            where, names = changed
            message = f"a timed replay changed input {', '.join(names)}"
            return (), facts, WorkerFailure(status="MEMORY", message=message, where=where)
        done[case.key] = times
    return tuple(done[case.key] for case in session.job.cases), facts, None


def _one_case(
    session: Session, case: TimedCase
) -> tuple[CaseTimes, dict[str, Any], Changed | None]:
    """Times one case: (times, facts, whose replay changed which inputs)."""
    shape = pools.shape_of(case)
    drawn = launcher.drawn_inputs(case.inputs, session.folder, session.draw)
    images = {
        spec.name: buffers.input_image(
            spec, drawn[spec.name], shape.inputs[spec.name], poison=INPUT_POISON, salt=0
        )
        for spec in case.inputs.tensors
        if spec.name in shape.inputs
    }
    warm_picks, cold_picks = session_octets.picks_of(case, session.verify)
    warm_pool = _pool(session, case, shape, images, cold=False)
    mark = _marker(session, case)
    each_ns = session_octets.calibrate(warm_pool, mark)
    slots = len(warm_pool.slots)
    at = session_octets.pace(each_ns, case, slots, cold=False, share=1.0)
    warm = session_octets.measure(warm_pool, at, session.verify, warm_picks, mark)
    facts = {"warm_slots": slots, "warm_replays": list(warm.replays)}
    changed = _changed(warm_pool, case, images)
    cold = None
    if case.cold:
        cold_pool = _pool(session, case, shape, images, cold=True)
        slots = len(cold_pool.slots)
        share = session_octets.cold_share(len(session.job.cases), case.octets, case.window_ms)
        each_ns = session_octets.calibrate(cold_pool, mark)
        at = session_octets.pace(each_ns, case, slots, cold=True, share=share)
        cold = session_octets.measure(cold_pool, at, session.verify, cold_picks, mark)
        facts |= {"cold_slots": slots, "cold_replays": list(cold.replays)}
        changed = changed or _changed(cold_pool, case, images)
    windows = warm.windows_ns + (cold.windows_ns if cold else ())
    times = CaseTimes(
        key=case.key,
        warm=warm.scores,
        cold=cold.scores if cold else (),
        windows_ns=windows,
        replays_per_window=warm.replays,
        below_floor=min(min(octet) for octet in windows) < case.floor_us * 1e3,
        replays=_write_picked(session.out, warm, cold),
    )
    return times, facts, changed


def _pool(
    session: Session,
    case: TimedCase,
    shape: pools.Shape,
    images: Mapping[str, Bytes],
    *,
    cold: bool,
) -> pools.Pool:
    slots = pools.cold_slots(shape, session.llc_bytes) if cold else pools.warm_slots(shape)
    rng = random.Random(session.placement.getrandbits(64))
    base = rng.randrange(BASE_LINES) * buffers.ALIGN_BYTES
    return pools.build(
        case,
        shape,
        pools.Place(region=session.region, base=base, rng=rng, arena=session.arena),
        images,
        session.entries,
        session.job.object_of,
        slots=slots,
        own_inputs=cold,
        sweep=session.sweep if cold else None,
    )


def _changed(pool: pools.Pool, case: TimedCase, images: Mapping[str, Bytes]) -> Changed | None:
    names = pool.changed_inputs(images, CHECKED_SLOTS)
    return (_culprit(pool, case, images), names) if names else None


def _culprit(pool: pools.Pool, case: TimedCase, images: Mapping[str, Bytes]) -> str:
    """ "a:KEY" or "b:KEY" for the side that changes inputs again when asked, else the key alone."""
    for side in pools.sides():
        pool.lay_inputs(images)
        pool.replay(side, len(pool.slots))
        if pool.changed_inputs(images, len(pool.slots)):
            return f"{side}:{case.key}"
    return case.key


def _marker(session: Session, case: TimedCase) -> Callable[[Side], None]:
    def mark(side: Side) -> None:
        session.progress.mark(f"{side}:{case.key}")

    return mark


def _write_picked(out: IO[bytes], *timings: Timing | None) -> tuple[TimedReplay, ...]:
    replays = []
    for timing in timings:
        for side, outputs in timing.picked if timing else ():
            places = []
            for data in outputs:
                places.append(OutputBytes(offset_bytes=out.tell(), nbytes=len(data)))
                out.write(data)
            replays.append(TimedReplay(side=side, outputs=tuple(places)))
    return tuple(replays)


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


def _region(job: TimeJob, llc_bytes: int) -> buffers.Region:
    """One mapping that every pool of the session fits into: its pages are faulted in once."""
    needed = 0
    for case in job.cases:
        shape = pools.shape_of(case)
        needed = max(needed, pools.room_bytes(shape, pools.warm_slots(shape), own_inputs=False))
        if case.cold:
            slots = pools.cold_slots(shape, llc_bytes)
            needed = max(needed, pools.room_bytes(shape, slots, own_inputs=True))
    return buffers.map_region(needed + BASE_LINES * buffers.ALIGN_BYTES, huge=True)


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
