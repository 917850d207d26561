"""One case of a timing session: its pools, warm and cold, and what comes back of them."""

import gc
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kernelsmith.model import CaseTimes, OutputBytes, TimedCase, TimedReplay, TimeJob
from kernelsmith.worker import buffers, buffers_poison, launcher, launcher_bind, session_octets
from kernelsmith.worker import session_pool as pools
from kernelsmith.worker import session_slots as slots_of
from kernelsmith.worker.buffers_poison import Bytes
from kernelsmith.worker.progress import Progress
from kernelsmith.worker.session_octets import Timing
from kernelsmith.worker.session_slots import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What all cases share; ``progress`` always names the side and case at hand. ``build`` makes a
    pool as ``session_pool.build`` does; ``near_bytes`` of caches hold a warm pool's slots."""

    job: TimeJob
    folder: Path
    entries: Mapping[str, launcher_bind.Entry]
    draw: launcher.Draw
    sweep: Bytes
    arena: int
    llc_bytes: int
    placement: random.Random
    verify: random.Random
    out: IO[bytes]
    progress: Progress
    near_bytes: int = slots_of.WARM_SLOTS_BYTES
    build: Callable[..., session_octets.Pool] = pools.build


def run_all(session: Session) -> tuple[tuple[CaseTimes, ...], dict[str, Any]]:
    """Times the cases in random order, the garbage collector off; returns them in the job's."""
    done: dict[str, CaseTimes] = {}
    facts: dict[str, Any] = {}
    cases = list(session.job.cases)
    session.placement.shuffle(cases)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for case in cases:
            done[case.key], facts[case.key] = run(session, case)
    finally:
        if collecting:
            gc.enable()
    return tuple(done[case.key] for case in session.job.cases), facts


def run(session: Session, case: TimedCase) -> tuple[CaseTimes, dict[str, Any]]:
    """Times one case: (times, facts)."""
    shape = slots_of.shape_of(case)
    drawn = launcher.drawn_inputs(case.inputs, session.folder, session.draw)
    # Between the rows of inputs too, a kernel finds what a checked run of its plan has there.
    poison = session.placement.choice(buffers_poison.CHECKED_SEEDS)
    salts = {
        buffer.arg: index for plan in (case.a, case.b) for index, buffer in enumerate(plan.buffers)
    }
    images = {
        spec.name: buffers.input_image(
            spec, drawn[spec.name], shape.inputs[spec.name], poison=poison, salt=salts[spec.name]
        )
        for spec in case.inputs.tensors
        if spec.name in shape.inputs
    }
    warm_picks, cold_picks = session_octets.picks_of(case, session.verify)
    slots = slots_of.warm_slots(shape, session.near_bytes)
    warm_pool = _pool(session, case, shape, images, poison, slots, cold=False)
    mark = _marker(session, case)
    each_ns = session_octets.calibrate(warm_pool, mark)
    at = session_octets.pace(each_ns, case, slots, cold=False, share=1.0)
    warm_pool.settle()
    warm = session_octets.measure(warm_pool, at, session.verify, warm_picks, mark)
    facts = {
        "warm_slots": slots,
        "warm_replays": list(warm.replays),
        "timed_by": warm_pool.timed_by,
    }
    cold = None
    warm_pool.close()
    # On the CPU the memory goes with the last reference: before the next pool takes its own.
    del warm_pool
    if case.cold:
        share = session_octets.cold_share(len(session.job.cases), case.octets, case.window_ms)
        # Cold replays take longer than the warm ones just timed, so this many are enough.
        most = math.ceil(share * case.window_ms * 1e6 / min(each_ns.values()))
        slots = slots_of.cold_slots(shape, session.llc_bytes, most)
        cold_pool = _pool(session, case, shape, images, poison, slots, cold=True)
        if most > 1:
            each_ns = session_octets.calibrate(cold_pool, mark)
        at = session_octets.pace(each_ns, case, slots, cold=True, share=share)
        cold_pool.settle()
        cold = session_octets.measure(cold_pool, at, session.verify, cold_picks, mark)
        cold_pool.close()
        facts |= {"cold_slots": slots, "cold_replays": list(cold.replays)}
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
    return times, facts


def _pool(
    session: Session,
    case: TimedCase,
    shape: slots_of.Shape,
    images: Mapping[str, Bytes],
    poison: int,
    slots: int,
    *,
    cold: bool,
) -> session_octets.Pool:
    rng = random.Random(session.placement.getrandbits(64))
    return session.build(
        case,
        shape,
        session.arena,
        rng,
        images,
        session.entries,
        session.job.object_of,
        slots=slots,
        own_inputs=cold,
        poison=poison,
        sweep=session.sweep if cold else None,
    )


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
