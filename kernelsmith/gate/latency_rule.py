"""The latency rule of the design: which e-processes a candidate must win, and when to stop.

Pure: sessions come from outside, so that the rule can be played with recorded or drawn sessions.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelsmith.model import CaseGain, Gain, PathName
from kernelsmith.numerics import statistics


@dataclass(slots=True, kw_only=True)
class EProcess:
    """A sign test over sessions of "the median log gain is at most ``threshold``".

    ``shown_after`` is the session at which its e-value reached 1/alpha; it stays won from then
    on. Not frozen: it counts.
    """

    name: str
    threshold: float
    alpha: float
    successes: int = 0
    failures: int = 0
    shown_after: int | None = None

    def see(self, log_gain: float) -> None:
        """Counts one session; a tie with the threshold is a failure."""
        if log_gain > self.threshold:
            self.successes += 1
        else:
            self.failures += 1
        won = self.shown_after is None and statistics.shown(
            self.successes, self.failures, self.alpha
        )
        if won:
            self.shown_after = self.successes + self.failures

    def evidence(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "successes": self.successes,
            "failures": self.failures,
            "e_value": float(statistics.e_value(self.successes, self.failures)),
            "needed": 1.0 / self.alpha,
            "shown_after": self.shown_after,
        }


@dataclass(slots=True, kw_only=True)
class LatencyRule:
    """The e-processes of one confirmation: overall warm, overall cold, one a timed case (warm).

    The overall ones reject "faster by at most ``min_gain``"; the cases' reject "slower by more
    than ``max_regress``". Log gains throughout.
    """

    overall: tuple[EProcess, EProcess]
    cases: tuple[EProcess, ...]
    warm_gains: list[float] = field(default_factory=list)
    cold_gains: list[float] = field(default_factory=list)
    case_gains: dict[str, list[float]] = field(default_factory=dict)

    def see(self, warm_gain: float, cold_gain: float, warm: Mapping[str, float]) -> None:
        """Counts one session; ``warm`` has every case that this rule was made for."""
        self.warm_gains.append(warm_gain)
        self.cold_gains.append(cold_gain)
        self.overall[0].see(warm_gain)
        self.overall[1].see(cold_gain)
        for process in self.cases:
            process.see(warm[process.name])
            self.case_gains.setdefault(process.name, []).append(warm[process.name])

    @property
    def open(self) -> list[EProcess]:
        """The processes that are not won yet."""
        return [p for p in (*self.overall, *self.cases) if p.shown_after is None]

    def lost(self, lead: int) -> list[EProcess]:
        """Open processes whose failures lead by ``lead``: more sessions will hardly help."""
        return [p for p in self.open if p.failures - p.successes >= lead]

    def gain(self, *, same: Sequence[str], paths: Mapping[str, PathName], against: str) -> Gain:
        """The reported gain: medians over the sessions, order statistics around them.

        Args:
            same: timed cases that run the same code: gain 1.
            paths: path by timed case, in the order to report.

        Raises:
            ValueError: fewer than 6 sessions.
        """
        low, high = statistics.median_interval(self.warm_gains)
        gains = {name: statistics.median(values) for name, values in self.case_gains.items()}
        gains.update(dict.fromkeys(same, 0.0))
        return Gain(
            geomean=math.exp(statistics.median(self.warm_gains)),
            low=math.exp(low),
            high=math.exp(high),
            sessions=len(self.warm_gains),
            cases=tuple(
                CaseGain(case=case, path=path, gain=math.exp(gains[case]))
                for case, path in paths.items()
            ),
            against=against,
        )

    def evidence(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "sessions": len(self.warm_gains),
            "overall": {process.name: process.evidence() for process in self.overall},
            "cases": {process.name: process.evidence() for process in self.cases},
            "gain_warm": math.exp(statistics.median(self.warm_gains)) if self.warm_gains else None,
            "gain_cold": math.exp(statistics.median(self.cold_gains)) if self.cold_gains else None,
        }


def latency_rule(
    cases: Sequence[str], *, min_gain: float, max_regress: float, alpha: float
) -> LatencyRule:
    """A rule that has seen nothing.

    Args:
        cases: the cases that are timed (those with the incumbent's code are not).
        min_gain: 0.01 asks for a median gain above 1 %.
        max_regress: 0.03 asks that no case's median is slower by more than 3 %.
        alpha: error allowed to each e-process; all must be won, so it holds for the verdict.
    """
    faster, slower = math.log1p(min_gain), -math.log1p(max_regress)
    return LatencyRule(
        overall=(
            EProcess(name="warm", threshold=faster, alpha=alpha),
            EProcess(name="cold", threshold=faster, alpha=alpha),
        ),
        cases=tuple(EProcess(name=case, threshold=slower, alpha=alpha) for case in cases),
    )
