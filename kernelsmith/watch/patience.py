"""How long a run bears with a machine on which not even the seed runs."""

from dataclasses import dataclass

from kernelsmith.errors import InfrastructureError

WAITS_S = (10.0, 60.0)
"""Between tries: a driver that restarts, memory that another process is about to give back."""


@dataclass(slots=True, kw_only=True)
class Patience:
    """Counts the faults of a machine that follow one another."""

    faults: int = 0

    def sound(self) -> None:
        """The machine did something right."""
        self.faults = 0

    def bear(self, fault: str) -> float:
        """Notes a fault; for how many seconds to wait before the next try.

        Raises:
            InfrastructureError: it has failed too often in a row.
        """
        self.faults += 1
        if self.faults > len(WAITS_S):
            raise InfrastructureError(
                f"this machine no longer runs the seed, {self.faults} times in a row: {fault}",
                hint="nothing is lost: mend it, then `kernelsmith resume` goes on with the "
                "candidate at hand",
            )
        return WAITS_S[self.faults - 1]
