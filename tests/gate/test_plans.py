"""What the host refuses in a plan, and what makes two plans the same."""

from dataclasses import replace
from typing import Any

import pytest

from kernelsmith.gate import compositions, plans
from kernelsmith.gate.epoch import epoch
from kernelsmith.gate.floor import floor_us
from kernelsmith.gate.subject import Subject, draw_seed
from kernelsmith.model import (
    Buffer,
    Launch,
    LaunchArg,
    ObjectInfo,
    OutputRef,
    Plan,
    PlanClass,
    TensorMeta,
    TraceResult,
)


def plan() -> Plan:
    wide = TensorMeta(shape=(40, 6), strides=(6, 1), dtype="float32")
    args = tuple(LaunchArg(kind="ptr", buffer=i) for i in range(3))
    return Plan(
        buffers=(Buffer(nbytes=960, arg="x"), Buffer(nbytes=24, arg="w"), Buffer(nbytes=960)),
        launches=(Launch(plan_class="c", plan_class_unaligned="d", grid=(40, 1, 1), args=args),),
        outputs=(OutputRef(buffer=2, offset_bytes=0, meta=wide),),
    )


def verdict(kit: Any, changed: Plan) -> Any:
    case = next(c for c in kit.task.cases if c.id == "infer-40")
    names = {
        n: PlanClass(id=n, kernel="k", options={}, specialisation="", ttir=n) for n in ("c", "d")
    }
    return plans.check(kit.task, case, TraceResult(plans={case.id: changed}, classes=names), ())


def test_a_sound_plan_passes(kit: Any) -> None:
    assert verdict(kit, plan()).status is None


def wrong_grid(p: Plan) -> Plan:
    return replace(p, launches=(replace(p.launches[0], grid=(1 << 20, 1 << 20, 1)),))


def wrong_class(p: Plan) -> Plan:
    return replace(p, launches=(replace(p.launches[0], plan_class="nowhere"),))


def wrong_pointer(p: Plan) -> Plan:
    args = (LaunchArg(kind="ptr", buffer=0, offset_bytes=961), *p.launches[0].args[1:])
    return replace(p, launches=(replace(p.launches[0], args=args),))


def wrong_buffer(p: Plan) -> Plan:
    args = (LaunchArg(kind="ptr", buffer=9), *p.launches[0].args[1:])
    return replace(p, launches=(replace(p.launches[0], args=args),))


def unknown_input(p: Plan) -> Plan:
    return replace(p, buffers=(Buffer(nbytes=960, arg="secret"), *p.buffers[1:]))


def much_scratch(p: Plan) -> Plan:
    return replace(p, buffers=(*p.buffers, Buffer(nbytes=1 << 31)))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (wrong_grid, "has grid"),
        (wrong_class, "unknown plan class nowhere"),
        (wrong_pointer, "961 bytes into a smaller buffer"),
        (wrong_buffer, "points into buffer 9"),
        (unknown_input, "binds ['secret'] as inputs"),
        (much_scratch, "allocates"),
    ],
)
def test_an_unsound_plan_is_a_trace_failure(kit: Any, change: Any, says: str) -> None:
    found = verdict(kit, change(plan()))
    assert found.status == "TRACE"
    assert says in found.message


def test_outputs_that_share_memory_or_reach_past_it(kit: Any) -> None:
    past = replace(plan(), outputs=(replace(plan().outputs[0], offset_bytes=4),))
    assert "reaches past its storage" in verdict(kit, past).message


def test_fingerprint_sees_code_and_plan_not_names(kit: Any) -> None:
    def subject(code: str, traced: Plan) -> tuple[Subject, dict[str, tuple[ObjectInfo, bytes]]]:
        made = Subject(candidate=kit.gate.seed, role="launcher")
        made.plans["case"] = traced
        made.object_of.update({"c": code, "d": code})
        info = ObjectInfo(id=code, symbol=code, params=(), arena_bytes=0, code_hash="hash")
        return made, {code: (info, b"")}

    first = plans.fingerprint(subject("one", plan())[0], "case", subject("one", plan())[1])
    renamed = plans.fingerprint(subject("two", plan())[0], "case", subject("two", plan())[1])
    other = replace(plan(), launches=(replace(plan().launches[0], grid=(20, 1, 1)),))
    regridded = plans.fingerprint(subject("one", other)[0], "case", subject("one", other)[1])
    assert first == renamed
    assert first != regridded


def test_compositions_hold_every_kind_of_batch() -> None:
    found = {one.name: one.rows for one in compositions.serving(67, 3)}
    assert {"prefill", "permuted", "padded", "chunk 1 of 3", "chunk 2 of 3", "chunk 3 of 3"} <= set(
        found
    )
    assert [len(found[f"decode of {n}"]) for n in (1, 2, 7, 16, 33)] == [1, 2, 7, 16, 33]
    assert found["chunk 1 of 3"] + found["chunk 2 of 3"] + found["chunk 3 of 3"] == tuple(range(67))
    assert sorted(found["permuted"]) == list(range(67))
    assert [row for row in found["padded"] if row >= 0] == list(range(67))
    assert found["padded"][:3] == (-1, -1, -1)
    assert len(found["padded"]) % 16 == 0


@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_compositions_of_small_batches_are_sound(tokens: int) -> None:
    for one in (*compositions.serving(tokens, 3), *compositions.parts(tokens, 3)):
        assert one.rows
        assert all(-1 <= row < tokens for row in one.rows)


def test_cuts_are_inside_and_at_multiples() -> None:
    assert compositions.splits(97, 32) == (32, 64, 96)
    assert compositions.splits(64, 32) == (32,)
    assert compositions.splits(32, 32) == ()


def test_the_floor_is_the_longer_of_moving_and_computing(kit: Any) -> None:
    case = next(c for c in kit.task.cases if c.id == "infer-40")
    inputs = kit.gate.reference.inputs(case)
    moved = 4 * (40 * 6 + 6 + 40 * 6)
    assert floor_us(kit.task, case, inputs) == moved / 1.0e6 / 2
    calls = tuple(replace(call, flops=((1000, ("M", "N")),)) for call in kit.task.calls)
    counted = replace(kit.task, calls=calls)
    assert floor_us(counted, case, inputs) == 1000 * 40 * 6 / 5.0e5 / 2


def test_epoch_follows_seed_and_device(kit: Any) -> None:
    facts = {"device": "cpu", "compiler": "1"}
    name = epoch(kit.task, facts)
    assert name == epoch(kit.task, dict(reversed(facts.items())))
    assert name != epoch(kit.task, {**facts, "compiler": "2"})
    assert name != epoch(replace(kit.task, seed_source="other"), facts)


def test_seeds_hang_on_the_secret_and_on_every_label() -> None:
    assert draw_seed(7, "a", 1) == draw_seed(7, "a", 1)
    assert (
        len({draw_seed(s, *labels) for s in (7, 8) for labels in (("a", 1), ("a1",), ("b",))}) == 6
    )
    assert 0 <= draw_seed(7, "x") < 1 << 63
