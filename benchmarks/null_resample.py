"""Trials whose sessions are drawn from real null sessions, decided by the rule in one sweep.

A drawn trial is made of blocks: 16 sessions that followed each other in time, of one task and
under one condition, from two trials or more. What sessions a few minutes apart share (drift, a
change of load) stays in, and so does what the cases of one session share. It shows no more than the
sessions that it draws from, and an interval around its rate counts draws, not sessions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from null_exact import GIVE_UP_LEAD, SESSIONS_MAX, needed

Trial = dict[str, Any]
Gains = npt.NDArray[np.float64]
BLOCK = 16
OVERALL = 2  # warm and cold come first, then the cases, warm


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What the rule made of some trials, each an entry: whether it accepted, after how many
    sessions, which e-processes had not been won by then."""

    accepted: npt.NDArray[np.bool_]
    sessions: npt.NDArray[np.int64]
    open: npt.NDArray[np.bool_]

    @property
    def regresses(self) -> npt.NDArray[np.bool_]:
        """Rejected for a case alone: the gain is shown, the case is not cleared."""
        return ~self.open[:, :OVERALL].any(axis=1) & self.open[:, OVERALL:].any(axis=1)


def decide(won: npt.NDArray[np.bool_], alpha: float) -> Decided:
    """The rule on sessions that are there already.

    Args:
        won: [trials, sessions, e-processes], whether the session lay above the threshold.
    """
    trials, length, processes = won.shape
    count = np.arange(1, length + 1)
    successes = np.cumsum(won, axis=1)
    least = np.array(needed(alpha, length))
    shown = np.logical_or.accumulate(successes >= least[None, :, None], axis=1)
    behind = count[None, :, None] - 2 * successes >= GIVE_UP_LEAD
    stop = shown.all(axis=2) | (behind & ~shown).any(axis=2)
    stop[:, -1] = True
    at = stop.argmax(axis=1)
    still_open = ~shown[np.arange(trials), at, :].reshape(trials, processes)
    return Decided(accepted=~still_open.any(axis=1), sessions=at + 1, open=still_open)


def gains_of(trials: Sequence[Trial]) -> Gains:
    """[sessions, e-processes] of trials of one task, in their order."""
    width = OVERALL + len(trials[0]["cases"])
    return np.array([session[:width] for trial in trials for session in trial["sessions"]])


def drawn(trials: Sequence[Trial], number: int, rng: np.random.Generator) -> Gains:
    """Sessions of ``number`` trials: [number, 60, e-processes], tasks by turns.

    Args:
        trials: null trials of one condition, of all tasks; all time as many cases.
    """
    by_task: dict[str, list[Trial]] = {}
    for trial in sorted(trials, key=lambda trial: (trial["at"], trial["trial"])):
        by_task.setdefault(trial["task"], []).append(trial)
    pools = [gains_of(by_task[task]) for task in sorted(by_task)]
    rows = []
    for turn in range(number):
        pool = pools[turn % len(pools)]
        starts = rng.integers(len(pool), size=-(-SESSIONS_MAX // BLOCK))
        at = (starts[:, None] + np.arange(BLOCK)).ravel()[:SESSIONS_MAX]
        rows.append(pool[at % len(pool)])
    return np.stack(rows)


def centred(trials: Sequence[Trial]) -> list[Trial]:
    """The same trials, each task's column medians moved to exactly no gain."""
    found = []
    for task in sorted({trial["task"] for trial in trials}):
        own = [trial for trial in trials if trial["task"] == task]
        medians = np.median(gains_of(own), axis=0)
        for trial in own:
            moved = gains_of([trial]) - medians
            found.append({**trial, "sessions": moved.tolist()})
    return found


def above(gains: Gains, rule: dict[str, float]) -> npt.NDArray[np.bool_]:
    """Which sessions lie above each e-process's threshold; a tie does not."""
    thresholds = np.full(gains.shape[-1], -np.log1p(rule["max_regress"]))
    thresholds[:OVERALL] = np.log1p(rule["min_gain"])
    return gains > thresholds
