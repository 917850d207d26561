"""Faults as they come up, kept by kind: the first of each and how many, in bounded memory."""

from collections.abc import Iterable
from dataclasses import replace

from kernelsmith.onpolicy.model import FAULTS, Fault, Side


class Faults:
    """Collects faults. Two of one kind on one side are one with a count; the first is kept."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Side | None], Fault] = {}

    def add(self, *faults: Fault) -> None:
        """Takes faults in the order in which they were met."""
        for fault in faults:
            assert fault.kind in FAULTS, fault.kind
            key = (fault.kind, fault.side)
            first = self._found.get(key)
            if first is None:
                self._found[key] = fault
            else:
                self._found[key] = replace(
                    first, count=first.count + fault.count, hides=first.hides or fault.hides
                )

    def all(self) -> tuple[Fault, ...]:
        """Each kind once; those that hide tokens come first."""
        return tuple(sorted(self._found.values(), key=lambda fault: not fault.hides))


def merged(*groups: Iterable[Fault]) -> tuple[Fault, ...]:
    """Faults of several sources, each kind and side once."""
    faults = Faults()
    for group in groups:
        faults.add(*group)
    return faults.all()
