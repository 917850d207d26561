"""Octets: how one case is timed within a session.

An octet is one ABBA quad and one BAAB quad. Drifts that are linear in time cancel within a quad;
what a side inherits from the one before it cancels between the two. Octets describe a session;
they never enter inference, the session's median does.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelsmith.model import TimedCase
from kernelsmith.worker.session_slots import Side, Slot, sides

QUADS: tuple[tuple[Side, ...], ...] = (("a", "b", "b", "a"), ("b", "a", "a", "b"))
CALIBRATION_ROUNDS = 6
CALIBRATION_NS = 500_000
# An untimed pass takes no longer than this, but at least one replay.
LEAD_NS = 1_000_000
# Both sides get one count of replays when their times differ by no more than this.
SAME_COUNT_WITHIN = 1.25
# A session of many cases shortens its cold windows to end in about this time.
SESSION_NS = 1_050_000_000
COLD_SHARE_MIN = 0.2
# Outputs above this are brought back for one replay a side instead of three.
PICKED_LARGE_BYTES = 512 * 1024


class Pool(Protocol):
    """Slots that both sides use in turn: ``session_pool`` on the CPU, ``session_pool_gpu``.
    ``timed_by`` is the clock: "thread", "graph" or "events"."""

    slots: Sequence[Slot]
    cursor: int
    timed_by: str

    def settle(self) -> None:
        """Called once, after calibration and before what counts."""

    def renew(self) -> None: ...
    def time_ns(self, side: Side, first: int, take: int) -> int:
        """Nanoseconds of a replay of ``side`` in each of ``take`` slots from ``first`` on."""

    def outputs(self, side: Side, slot: Slot) -> list[bytes]:
        """The outputs that ``side`` left in ``slot``, contiguous."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """``scores``: one log(time A / time B) an octet. ``windows_ns``: [octet][8] per replay.
    ``replays``: (A, B) in a window. ``picked``: (side, outputs) of timed replays."""

    scores: tuple[float, ...]
    windows_ns: tuple[tuple[float, ...], ...]
    replays: tuple[int, int]
    picked: tuple[tuple[Side, list[bytes]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How a pool is timed: replays a window by side, replays of an untimed pass, octets, whether
    each window starts on a renewed pool."""

    replays: dict[Side, int]
    lead: dict[Side, int]
    octets: int
    fresh: bool


def replay(
    pool: Pool, side: Side, replays: int, pick: int | None = None
) -> tuple[int, list[bytes]]:
    """Replays one side, each time in a slot of its own; renewing is not timed.

    Returns:
        Nanoseconds of all replays, and the outputs of replay ``pick`` (none without one).
    """
    total_ns, done, picked = 0, 0, []
    while done < replays:
        if pool.cursor == len(pool.slots):
            pool.renew()
        first = pool.cursor
        take = min(replays - done, len(pool.slots) - first)
        total_ns += pool.time_ns(side, first, take)
        if pick is not None and done <= pick < done + take:
            picked = pool.outputs(side, pool.slots[first + pick - done])
        pool.cursor += take
        done += take
    return total_ns, picked


def cold_share(cases: int, octets: int, window_ms: float) -> float:
    """Length of a cold window by that of a warm one, for a session of so many cases."""
    # A quarter more than the windows themselves: untimed passes, renewals, drawing inputs.
    warm_ns = 1.25 * 8 * octets * window_ms * 1e6
    return min(1.0, max(COLD_SHARE_MIN, (SESSION_NS / cases - warm_ns) / warm_ns))


def calibrate(pool: Pool, mark: Callable[[Side], None]) -> dict[Side, float]:
    """Nanoseconds a replay by side: the least of a few short rounds in which both take turns.
    A replay longer than a round is timed twice."""
    each_ns: dict[Side, float] = {}
    for number in range(CALIBRATION_ROUNDS):
        for side in sides():
            mark(side)
            known_ns = each_ns.get(side)
            if known_ns is None:
                each_ns[side] = max(replay(pool, side, 1)[0], 1)
                continue
            count = min(int(CALIBRATION_NS / known_ns), len(pool.slots))
            if count == 0 and number > 1:
                continue
            count = max(count, 1)
            each_ns[side] = min(known_ns, max(replay(pool, side, count)[0], 1) / count)
    return each_ns


def pace(
    each_ns: Mapping[Side, float], case: TimedCase, slots: int, *, cold: bool, share: float
) -> Pace:
    """Counts that hold for all windows of a pool.

    Args:
        each_ns: from :func:`calibrate`.
        slots: of the pool.
        share: length of a window by ``case.window_ms``.
    """
    window_ns = case.window_ms * 1e6 * share
    counts = {side: max(1, math.ceil(window_ns / ns)) for side, ns in each_ns.items()}
    if max(each_ns.values()) < SAME_COUNT_WITHIN * min(each_ns.values()):
        counts = dict.fromkeys(counts, max(counts.values()))
    if cold:
        # A renewal of a cold pool costs milliseconds: one a window is enough.
        counts = {side: min(count, slots) for side, count in counts.items()}
    else:
        counts = {side: _whole(count, slots) for side, count in counts.items()}
    lead = {
        side: 1 if cold else min(slots, counts[side], max(1, int(LEAD_NS / each_ns[side])))
        for side in counts
    }
    return Pace(replays=counts, lead=lead, octets=case.octets, fresh=not cold)


def measure(
    pool: Pool, at: Pace, verify: random.Random, picks: int, mark: Callable[[Side], None]
) -> Timing:
    """Runs the octets of one pool.

    Args:
        verify: draws which replays' outputs come back.
        picks: how many replays of each side.
        mark: called with the side before its code runs.
    """
    wanted = _draw_picks(at, verify, picks)
    scores: list[float] = []
    windows: list[tuple[float, ...]] = []
    picked: list[tuple[Side, list[bytes]]] = []
    while len(scores) < at.octets:
        octet: list[tuple[Side, float]] = []
        for quad in QUADS:
            # Untimed: the quad's first side. With it, over the two quads of an octet, each side
            # follows itself as often as it follows the other.
            mark(quad[0])
            _start(pool, at)
            replay(pool, quad[0], at.lead[quad[0]])
            for side in quad:
                mark(side)
                _start(pool, at)
                pick = wanted.get((len(scores), len(octet)))
                total_ns, outputs = replay(pool, side, at.replays[side], pick)
                octet.append((side, max(total_ns, 1) / at.replays[side]))
                if pick is not None:
                    picked.append((side, outputs))
        scores.append(log_ratio(octet))
        windows.append(tuple(ns for _, ns in octet))
    return Timing(
        scores=tuple(scores),
        windows_ns=tuple(windows),
        replays=(at.replays["a"], at.replays["b"]),
        picked=tuple(picked),
    )


def log_ratio(octet: Sequence[tuple[Side, float]]) -> float:
    """The octet's score: mean log time of A's four windows less that of B's four; positive: B is
    faster. It is the mean log ratio of the four pairs of neighbouring windows."""
    return sum(math.log(ns) if side == "a" else -math.log(ns) for side, ns in octet) / 4


def picks_of(case: TimedCase, verify: random.Random) -> tuple[int, int]:
    """How many replays of each side come back from (warm, cold) windows."""
    nbytes = sum(case.a.buffers[ref.buffer].nbytes for ref in case.a.outputs)
    if nbytes <= PICKED_LARGE_BYTES:
        return 2, int(case.cold)
    cold = case.cold and verify.random() < 0.5
    return int(not cold), int(cold)


def _start(pool: Pool, at: Pace) -> None:
    if at.fresh and pool.cursor:
        pool.renew()


def _whole(count: int, slots: int) -> int:
    """At least ``count``, in whole rounds of the pool where it is more than one."""
    return count if count <= slots else -(-count // slots) * slots


def _draw_picks(at: Pace, verify: random.Random, picks: int) -> dict[tuple[int, int], int]:
    """(octet, window) -> replay whose outputs come back, ``picks`` of each side."""
    owners = [side for quad in QUADS for side in quad]
    found: dict[tuple[int, int], int] = {}
    for side in sides():
        places = [
            (octet, window)
            for octet in range(at.octets)
            for window, owner in enumerate(owners)
            if owner == side
        ]
        for place in verify.sample(places, min(picks, len(places))):
            found[place] = verify.randrange(at.replays[side])
    return found
