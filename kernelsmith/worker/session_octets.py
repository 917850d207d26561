"""Octets: how one case is timed within a session.

An octet is one ABBA quad and one BAAB quad. Drifts that are linear in time cancel within a quad;
what a side inherits from the one before it cancels between the two. Octets describe a session;
they never enter inference, the session's median does.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelsmith.model import TimedCase
from kernelsmith.numerics import statistics
from kernelsmith.worker.session_pool import Pool, Side

QUADS: tuple[tuple[Side, ...], ...] = (("a", "b", "b", "a"), ("b", "a", "a", "b"))
LONG_LAUNCH_NS = 20_000_000
# Both sides get one count of replays when their times differ by no more than this.
SAME_COUNT_WITHIN = 1.25
# A session of many cases shortens its cold windows to end in about this time.
SESSION_NS = 1_300_000_000
COLD_SHARE_MIN = 0.2
# Outputs above this are brought back for one replay a side instead of three.
PICKED_LARGE_BYTES = 512 * 1024


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


def cold_share(cases: int, octets: int, window_ms: float) -> float:
    """Length of a cold window by that of a warm one, for a session of so many cases."""
    # A quarter more than the windows themselves: untimed passes, renewals, drawing inputs.
    warm_ns = 1.25 * 8 * octets * window_ms * 1e6
    return min(1.0, max(COLD_SHARE_MIN, (SESSION_NS / cases - warm_ns) / warm_ns))


def calibrate(
    pool: Pool, case: TimedCase, mark: Callable[[Side], None], *, cold: bool, share: float
) -> Pace:
    """Times a few replays of both sides and sets counts that hold for the whole session.

    Args:
        share: length of a window by ``case.window_ms``.
    """
    window_ns = case.window_ms * 1e6 * share
    each_ns: dict[Side, float] = {}
    for side in ("a", "b"):
        mark(side)
        first_ns = pool.replay(side, 1)[0]
        again = max(1, min(len(pool.slots), int(0.05 * window_ns / max(first_ns, 1))))
        each_ns[side] = max(pool.replay(side, again)[0] / again, 1.0)
    if max(each_ns.values()) > LONG_LAUNCH_NS:
        once: dict[Side, int] = {"a": 1, "b": 1}
        return Pace(replays=once, lead=once, octets=case.octets, fresh=not cold)
    counts = {side: max(1, math.ceil(window_ns / ns)) for side, ns in each_ns.items()}
    if max(each_ns.values()) < SAME_COUNT_WITHIN * min(each_ns.values()):
        counts = dict.fromkeys(counts, max(counts.values()))
    if not cold:
        counts = {side: _whole(count, len(pool.slots)) for side, count in counts.items()}
    return Pace(
        replays=counts,
        lead={side: 1 if cold else min(count, len(pool.slots)) for side, count in counts.items()},
        octets=case.octets,
        fresh=not cold,
    )


def measure(
    pool: Pool, pace: Pace, verify: random.Random, picks: int, mark: Callable[[Side], None]
) -> Timing:
    """Runs the octets of one pool.

    Args:
        verify: draws which replays' outputs come back.
        picks: how many replays of each side.
        mark: called with the side before its code runs.
    """
    wanted = _draw_picks(pace, verify, picks)
    scores: list[float] = []
    windows: list[tuple[float, ...]] = []
    picked: list[tuple[Side, list[bytes]]] = []
    while len(scores) < pace.octets:
        octet: list[tuple[Side, float]] = []
        for quad in QUADS:
            # The quad's first two sides, untimed: both sides' code and data are as near for the
            # first window as for the last.
            for side in quad[:2]:
                mark(side)
                _start(pool, pace)
                pool.replay(side, pace.lead[side])
            for side in quad:
                mark(side)
                _start(pool, pace)
                pick = wanted.get((len(scores), len(octet)))
                total_ns, outputs = pool.replay(side, pace.replays[side], pick)
                octet.append((side, max(total_ns, 1) / pace.replays[side]))
                if pick is not None:
                    picked.append((side, outputs))
        scores.append(log_ratio(octet))
        windows.append(tuple(ns for _, ns in octet))
    return Timing(
        scores=tuple(scores),
        windows_ns=tuple(windows),
        replays=(pace.replays["a"], pace.replays["b"]),
        picked=tuple(picked),
    )


def log_ratio(octet: Sequence[tuple[Side, float]]) -> float:
    """The octet's score: the median of the log ratios (time A / time B) of its four pairs of
    neighbouring windows, with four the mean of the middle two. Positive: B is faster.

    Two pairs have A first and two have B first, so a linear drift adds to two what it takes from
    two and cancels in the median as it does in the mean; a window that the system interrupted
    does not count."""
    pairs = []
    for (side, first_ns), (_, second_ns) in zip(octet[::2], octet[1::2], strict=True):
        ratio = math.log(first_ns / second_ns)
        pairs.append(ratio if side == "a" else -ratio)
    return statistics.median(pairs)


def picks_of(case: TimedCase, verify: random.Random) -> tuple[int, int]:
    """How many replays of each side come back from (warm, cold) windows."""
    nbytes = sum(case.a.buffers[ref.buffer].nbytes for ref in case.a.outputs)
    if nbytes <= PICKED_LARGE_BYTES:
        return 2, int(case.cold)
    cold = case.cold and verify.random() < 0.5
    return int(not cold), int(cold)


def _start(pool: Pool, pace: Pace) -> None:
    if pace.fresh and pool.cursor:
        pool.renew()


def _whole(count: int, slots: int) -> int:
    """At least ``count``, in whole rounds of the pool where it is more than one."""
    return count if count <= slots else -(-count // slots) * slots


def _draw_picks(pace: Pace, verify: random.Random, picks: int) -> dict[tuple[int, int], int]:
    """(octet, window) -> replay whose outputs come back, ``picks`` of each side."""
    sides = [side for quad in QUADS for side in quad]
    found: dict[tuple[int, int], int] = {}
    for side in ("a", "b"):
        places = [
            (octet, window)
            for octet in range(pace.octets)
            for window, owner in enumerate(sides)
            if owner == side
        ]
        for place in verify.sample(places, min(picks, len(places))):
            found[place] = verify.randrange(pace.replays[side])
    return found
