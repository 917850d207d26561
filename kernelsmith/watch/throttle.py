"""Whether a timing session was slowed from outside: by its control group, by heat, by the host.

The latency rule does not need to know: it compares both sides within a session and counts sessions,
so that what is slow for a whole session is slow for both, and what changes between sessions is
their spread. What is told here is for the reader of a record: how the night's clock was.
"""

import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelsmith.watch import cgroup

CPUS = Path("/sys/devices/system/cpu")
STAT = Path("/proc/stat")
STEAL_COLUMN = 8
STOLEN_SHARE = 0.05
CHANGED_SHARE = 0.10
REMEMBERED = 32
THROTTLED_US_MIN = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Counters now; None where the machine does not tell. ``mhz``: of its fastest core."""

    throttled_us: int | None = None
    heat_events: int | None = None
    stolen_ticks: int | None = None
    ticks: int | None = None
    mhz: float | None = None


@dataclass(slots=True, kw_only=True)
class Throttle:
    """Reads before and after each session. Not frozen: it remembers at which frequency earlier
    sessions ended, when a core had just been busy."""

    group: Path | None = field(default_factory=lambda: cgroup.folder("cpu"))
    cpus: Path = CPUS
    stat: Path = STAT
    ended_mhz: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def read(self) -> Reading:
        """The counters now."""
        stolen, ticks = self._ticks()
        return Reading(
            throttled_us=self._throttled_us(),
            heat_events=self._heat_events(),
            stolen_ticks=stolen,
            ticks=ticks,
            mhz=self._mhz(),
        )

    def since(self, before: Reading, facts: Mapping[str, Any] | None = None) -> list[str]:
        """What slowed a session that began with this reading and ends now, in words.

        Args:
            facts: what the session said of its device; a GPU's clocks are among them.
        """
        after = self.read()
        found = []
        if (held_us := _risen(before.throttled_us, after.throttled_us)) > THROTTLED_US_MIN:
            found.append(f"the control group held processes back for {held_us / 1e6:.2f} s")
        if events := _risen(before.heat_events, after.heat_events):
            found.append(f"the processor was throttled for heat {events} times")
        ticks = _risen(before.ticks, after.ticks)
        stolen = _risen(before.stolen_ticks, after.stolen_ticks)
        if ticks and stolen > STOLEN_SHARE * ticks:
            found.append(f"the host took {stolen / ticks:.0%} of the processors' time")
        if after.mhz is not None:
            usual = statistics.median(self.ended_mhz) if self.ended_mhz else after.mhz
            if abs(after.mhz - usual) > CHANGED_SHARE * usual:
                found.append(f"the processor ran at {after.mhz:.0f} MHz, before at {usual:.0f}")
            self.ended_mhz.append(after.mhz)
        gpu = {
            reason
            for name in ("state_before", "state_after")
            for reason in dict((facts or {}).get(name) or {}).get("throttled", ())
        }
        if gpu:
            found.append(f"the GPU's clocks were held down: {', '.join(sorted(gpu))}")
        return found

    def _throttled_us(self) -> int | None:
        if self.group is None:
            return None
        told = cgroup.table(self.group / "cpu.stat")
        if "throttled_usec" in told:
            return told["throttled_usec"]
        return told["throttled_time"] // 1000 if "throttled_time" in told else None

    def _heat_events(self) -> int | None:
        counts = [
            cgroup.number(path)
            for path in self.cpus.glob("cpu[0-9]*/thermal_throttle/*_throttle_count")
        ]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    def _ticks(self) -> tuple[int | None, int | None]:
        try:
            words = self.stat.read_text().partition("\n")[0].split()
            return int(words[STEAL_COLUMN]), sum(map(int, words[1 : STEAL_COLUMN + 1]))
        except (OSError, ValueError, IndexError):
            return None, None

    def _mhz(self) -> float | None:
        khz = [cgroup.number(path) for path in self.cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq")]
        return max((one / 1000 for one in khz if one is not None), default=None)


def _risen(before: int | None, after: int | None) -> int:
    return 0 if before is None or after is None else max(0, after - before)
