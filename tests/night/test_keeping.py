"""A gate's memory after many candidates is that after a few."""

from typing import Any

from kernelsmith.gate import keeping
from tests.gate.conftest import Kit, make_kit


def small_kit(monkeypatch: Any) -> Kit:
    """A gate that keeps so little that a few candidates fill it."""
    for name, limit in (("OBJECTS_KEPT_BYTES", 4000), ("CLEAN_KEPT", 20), ("PLANS_KEPT", 30)):
        monkeypatch.setattr(keeping, name, limit)
    return make_kit()


def sizes(kit: Kit) -> dict[str, int]:
    gate, bench, seed = kit.gate, kit.gate.bench, kit.gate.reference.seed
    return {
        "texts": len(bench.said.plain),
        "said": len(bench.said.said),
        "plans": len(seed.plans),
        "classes": len(seed.classes),
        "known": len(gate._known),
        "clean": len(bench.clean),
        "digests": len(gate.reference.trees.digests),
    }


def judged(kit: Kit, numbers: range, **faults: Any) -> dict[str, int]:
    for number in numbers:
        kit.judge(number=number, **faults)
    found = sizes(kit)
    needed = {
        object_id
        for subject in (kit.gate.reference.seed, *kit.gate._known.values())
        for object_id in subject.object_of.values()
    }
    free = [len(code) for name, (_, code) in kit.gate.bench.objects.items() if name not in needed]
    assert sum(free) <= keeping.OBJECTS_KEPT_BYTES
    return found


def test_rejected_candidates_leave_nothing(monkeypatch: Any) -> None:
    kit = small_kit(monkeypatch)
    before = judged(kit, range(6), gain=1.0)
    assert judged(kit, range(6, 12), gain=1.0) == before
    assert before["texts"] == before["classes"]


def test_accepted_candidates_leave_the_newest_ready_and_no_hidden_plan(monkeypatch: Any) -> None:
    kit = small_kit(monkeypatch)
    before = judged(kit, range(6), gain=1.05)
    assert judged(kit, range(6, 9), gain=1.05) == before
    assert before["known"] == keeping.ACCEPTED_KEPT + 1
    first = kit.candidate(number=0, gain=1.05)
    assert kit.gate.judge(kit.candidate(gain=1.2), first, 20).accepted  # it is traced again


def test_what_is_kept_is_what_the_next_one_shares() -> None:
    """Equal kernels are still compiled once: those of the seed, the newest and the like."""
    kit = make_kit()
    kit.judge(gain=1.0, number=1)
    compiled = len([1 for _, job in kit.sandbox.log if type(job).__name__ == "CompileJob"])
    kit.judge(gain=1.0, number=1)
    after = [job for _, job in kit.sandbox.log if type(job).__name__ == "CompileJob"]
    assert all(job.observed for job in after[compiled:])
